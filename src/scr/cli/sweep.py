"""`scr sweep`: how accuracy depends on lambda, the threshold, the decay and the temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli._console import console
from scr.cli._progress import counted
from scr.cli.compare import names
from scr.cli.train import keeping_runs, preset_below, recipe_layers, shown_command


def sweep(
    graph: Annotated[str, typer.Argument(help="A store, a source, or a dataset name.")],
    out: Annotated[Path, typer.Option(help="Folder for the result; goes on where it was.")],
    encoder: Annotated[
        str | None, typer.Option(help="Such as ssgc or sign; none: the recipe's, else gamlp.")
    ] = None,
    settings: Annotated[
        str, typer.Option(help="Names, with commas: of the consistency term, or section.key.")
    ] = "weight,threshold,decay,temperature",
    values: Annotated[
        list[str] | None,
        typer.Option(help="Values to try, such as weight=0.1,1,10; may be repeated."),
    ] = None,
    regularizers: Annotated[str, typer.Option(help="Names, with commas.")] = "scr,scr-m",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each value.")] = 5,
    splits: Annotated[str | None, typer.Option(help="A splits file: seed i uses split i.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="A TOML file, or a published recipe.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")
    ] = None,
    preset: Annotated[str, typer.Option(help="A preset, or auto.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one thread each.")] = 1,
) -> None:
    """Draw accuracy over the values of a setting, against the base."""
    from scr import experiments
    from scr.experiments import Comparison
    from scr.networks import encoder_class
    from scr.sources import load_graph
    from scr.training import merge

    layers = recipe_layers(recipe, assignments)
    encoder = encoder or merge(*layers).get("encoder", {}).get("name", "gamlp")
    encoder_class(encoder)
    chosen = experiments.parse_settings(names(settings), values or [])
    planned = experiments.plan_sweep(
        chosen, encoder=encoder, regularizers=names(regularizers), seeds=range(seeds),
        layers=layers, preset=preset_below(recipe, preset),
    )  # fmt: skip
    comparison = Comparison(load_graph(graph), splits)
    comparison.graph_of(seeds - 1)
    with keeping_runs(out), counted("Sweeping") as bar:
        result = experiments.sweep(
            comparison, planned, out=out, jobs=jobs, on_plan=bar.expect, on_run=bar.finish,
            command=shown_command(),
        )  # fmt: skip
    for sentence in [result["headline"], *result["sentences"], *result["cautions"]]:
        console.print(sentence)
    console.print(
        f"Wrote {out / experiments.SWEEP_JSON}, {out / experiments.SWEEP_PICTURE} and "
        f"{out / experiments.SWEEP_PAGE}",
        soft_wrap=True,
    )
