"""`scr compare`: the table that says whether SCR helps on a graph."""

from __future__ import annotations

from typing import Annotated

import typer

from scr import experiments, networks, report, sources, training
from scr.cli import _completion
from scr.cli import _options as option
from scr.cli._console import console, print_line, print_notes
from scr.cli._ending import Report
from scr.cli._run import check_out, names, read_layers, result_folder, running
from scr.errors import ConfigError


def compare(
    graph: option.GraphSource,
    out: option.ResultFolder,
    encoders: Annotated[
        str,
        typer.Option(
            help="Names of `scr encoders`, with commas.",
            autocompletion=_completion.one_of(_completion.ENCODERS),
        ),
    ] = "ssgc,sign,gamlp",
    regularizers: Annotated[
        str,
        typer.Option(
            help="Names of `scr regularizers`, with commas, such as none,scr,pi,fixmatch.",
            autocompletion=_completion.one_of(_completion.REGULARIZERS),
        ),
    ] = "none,scr,scr-m",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each pair.")] = 10,
    splits: option.SplitPerSeed = None,
    features: option.FeaturesFile = None,
    recipe: option.RecipeFile = None,
    settings: option.Assignments = None,
    metric: option.Metric = None,
    preset: option.Preset = "auto",
    jobs: option.Jobs = 1,
    engine: option.EngineName = "local",
    address: option.Address = None,
    overwrite: option.Overwrite = False,
) -> Report:
    """Compare encoders and regularizers over seeds."""
    from scr.report.page import comparison_page, write_page

    check_out(out, overwrite=overwrite)
    encoder_names = _some_names("--encoders", encoders)
    regularizer_names = _some_names("--regularizers", regularizers)
    for name in encoder_names:
        networks.encoder_class(name)
    for name in regularizer_names:
        training.check_regularizer(name, "--regularizers")
    loaded = sources.load_graph(graph, features=features)
    layers = read_layers(recipe, settings, preset, metric)
    tasks = experiments.plan(
        encoder_names, regularizer_names, range(seeds), layers=layers.tables, preset=layers.preset
    )
    with (
        result_folder(out, experiments.COMPARE_JSON, loaded, overwrite=overwrite) as folder,
        running(
            "Comparing",
            loaded,
            folder,
            splits=splits,
            jobs=jobs,
            engine=engine,
            address=address,
            seeds=seeds,
        ) as runner,  # fmt: skip
    ):
        result = experiments.compare(runner, tasks)
    console.print(report.comparison_table(result["rows"]))
    for sentence in report.conclusions(result["rows"]):
        console.print(sentence)
    print_notes(result["notes"])
    # An encoder that reads the graph has no hops to explain.
    explained = result["explanation"] or {}
    sentences = report.explanation_sentences(explained)
    if sentences:
        print_line(
            f"What carries {report.explained_model(explained)}, the best on validation nodes:"
        )
    for sentence in sentences:
        console.print(f"  {sentence}")
    page = write_page(out / "report.html", comparison_page(result))
    print_line(f"Wrote {out / experiments.COMPARE_JSON} and {page}")
    return {
        "result": out / experiments.COMPARE_JSON, "page": page, "rows": result["rows"],
        "conclusions": report.conclusions(result["rows"]), "notes": result["notes"],
    }  # fmt: skip


def _some_names(option: str, text: str) -> list[str]:
    """Split a list with commas that may not be empty."""
    chosen = names(text)
    if not chosen:
        raise ConfigError(option, text, "at least one name")
    return chosen
