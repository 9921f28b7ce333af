"""`scr sweep`: how accuracy depends on lambda, the threshold, the decay and the temperature."""

from __future__ import annotations

from typing import Annotated

import typer

from scr import experiments, sources
from scr.cli import _options as option
from scr.cli._console import console, print_line
from scr.cli._ending import Report
from scr.cli._run import check_out, names, read_layers, result_folder, running


def sweep(
    graph: option.GraphSource,
    out: option.ResultFolder,
    encoder: option.EncoderOfRecipe = None,
    settings: Annotated[
        str, typer.Option(help="Names, with commas: of the consistency term, or section.key.")
    ] = "weight,threshold,decay,temperature",
    values: Annotated[
        list[str] | None,
        typer.Option(help="Values to try, such as weight=0.1,1,10; may be repeated."),
    ] = None,
    regularizers: Annotated[str, typer.Option(help="Names, with commas.")] = "scr,scr-m",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each value.")] = 5,
    splits: option.SplitPerSeed = None,
    recipe: option.RecipeFile = None,
    assignments: option.Assignments = None,
    metric: option.Metric = None,
    preset: option.Preset = "auto",
    jobs: option.Jobs = 1,
    engine: option.EngineName = "local",
    address: option.Address = None,
    overwrite: option.Overwrite = False,
) -> Report:
    """Draw accuracy, or another metric, over the values of a setting, against the base."""
    check_out(out, overwrite=overwrite)
    layers = read_layers(recipe, assignments, preset, metric)
    encoder = layers.encoder(encoder)
    tasks = experiments.plan_sweep(
        experiments.parse_settings(names(settings), values or []), encoder=encoder,
        regularizers=names(regularizers), seeds=range(seeds), layers=layers.tables,
        preset=layers.preset,
    )  # fmt: skip
    loaded = sources.load_graph(graph)
    with (
        result_folder(out, experiments.SWEEP_JSON, loaded, overwrite=overwrite) as folder,
        running(
            "Sweeping",
            loaded,
            folder,
            splits=splits,
            jobs=jobs,
            engine=engine,
            address=address,
            seeds=seeds,
        ) as runner,  # fmt: skip
    ):
        result = experiments.sweep(runner, tasks)
    for sentence in [result["headline"], *result["sentences"], *result["cautions"]]:
        console.print(sentence)
    pictures = f"{out / experiments.SWEEP_PICTURE} and {out / experiments.SWEEP_PAGE}"
    print_line(f"Wrote {out / experiments.SWEEP_JSON}, {pictures}")
    return {
        "result": out / experiments.SWEEP_JSON,
        "picture": out / experiments.SWEEP_PICTURE,
        "page": out / experiments.SWEEP_PAGE,
        "conclusions": [result["headline"], *result["sentences"]],
        "cautions": result["cautions"],
    }
