"""`scr compare`: the table that says whether SCR helps on a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from scr.cli._console import console, print_note
from scr.cli._progress import counted
from scr.cli.train import keeping_runs, preset_below, recipe_layers, shown_command


def compare(
    graph: Annotated[str, typer.Argument(help="A store, a source, or a dataset name.")],
    out: Annotated[Path, typer.Option(help="Folder for the result; goes on where it was.")],
    encoders: Annotated[
        str, typer.Option(help="Names of `scr encoders`, with commas.")
    ] = "ssgc,sign,gamlp",
    regularizers: Annotated[
        str,
        typer.Option(
            help="Names of `scr regularizers`, with commas, such as none,scr,pi,fixmatch."
        ),
    ] = "none,scr,scr-m",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each pair.")] = 10,
    splits: Annotated[str | None, typer.Option(help="A splits file: seed i uses split i.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="A .npy with one row of features per node, instead.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, or a name of `scr recipes`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")
    ] = None,
    preset: Annotated[str, typer.Option(help="A preset, or auto.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one thread each.")] = 1,
) -> None:
    """Compare encoders and regularizers over seeds."""
    from scr import experiments
    from scr.networks import encoder_class
    from scr.report import comparison_table, conclusions, explained_model, explanation_sentences
    from scr.report.page import comparison_page, write_page
    from scr.sources import load_graph
    from scr.training import check_regularizer

    encoder_names = some_names("--encoders", encoders)
    regularizer_names = some_names("--regularizers", regularizers)
    for name in encoder_names:
        encoder_class(name)
    for name in regularizer_names:
        check_regularizer(name, "--regularizers")
    comparison = experiments.Comparison(load_graph(graph, features=features), splits)
    comparison.graph_of(seeds - 1)
    layers = recipe_layers(recipe, settings)
    tasks = experiments.plan(
        encoder_names,
        regularizer_names,
        range(seeds),
        layers=layers,
        preset=preset_below(recipe, preset),
    )
    with keeping_runs(out), counted("Comparing") as bar:
        result = experiments.compare(
            comparison,
            tasks,
            out=out,
            jobs=jobs,
            on_plan=bar.expect,
            on_run=bar.finish,
            command=shown_command(),
        )
    console.print(comparison_table(result["rows"]))
    for sentence in conclusions(result["rows"]):
        console.print(sentence)
    for note in result["notes"]:
        print_note(note)
    explained = result["explanation"]
    # An encoder that reads the graph has no hops to tell of.
    told = [] if explained is None else explanation_sentences(explained)
    if told:
        best = explained_model(explained)
        console.print(f"What carries {best}, the best on validation nodes:", soft_wrap=True)
    for sentence in told:
        console.print(f"  {sentence}")
    page = out / "report.html"
    title = f"Comparison on {result['graph']['name']}"
    write_page(page, comparison_page(result, title=title, graph_facts=graph_facts(result["graph"])))
    console.print(f"Wrote {out / experiments.COMPARE_JSON} and {page}", soft_wrap=True)


def graph_facts(graph: Mapping[str, Any]) -> dict[str, object]:
    """What a page shows about the graph of a comparison."""
    shown = {name: graph[name] for name in ("nodes", "edges", "features", "classes")}
    return {"graph": graph["name"], **shown, "splits": graph["splits"] or "the graph's own"}


def names(text: str) -> list[str]:
    """Split a list with commas.

    >>> names("ssgc, sign")
    ['ssgc', 'sign']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def some_names(option: str, text: str) -> list[str]:
    """Split a list with commas that may not be empty."""
    from scr.errors import ConfigError

    found = names(text)
    if not found:
        raise ConfigError(option, text, "at least one name")
    return found
