"""`scr efficiency`: accuracy per epoch and per second of SCR, SCR-m and multi-stage training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr import experiments, metrics, report, sources
from scr.cli import _options as option
from scr.cli._console import console, print_line, print_notes
from scr.cli._ending import Report
from scr.cli._run import check_out, names, read_layers, result_folder, running


def efficiency(
    graph: option.GraphSource,
    out: option.ResultFolder,
    encoder: option.EncoderOfRecipe = None,
    methods: Annotated[
        str,
        typer.Option(help="Names, with commas: regularizers such as scr, rlu, sle, or scr+rlu."),
    ] = "scr,scr-m,rlu",
    reference: Annotated[
        str, typer.Option(help="The method whose final accuracy the others are to reach.")
    ] = "rlu",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 3,
    epochs: Annotated[
        list[str] | None,
        typer.Option(help="200, scr=400 or, by stages, rlu=400+300+300; may be repeated."),
    ] = None,
    splits: option.SplitPerSeed = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, such as [for.rlu.stages].")
    ] = None,
    settings: option.Assignments = None,
    preset: option.Preset = "auto",
    jobs: option.Jobs = 1,
    engine: option.EngineName = "local",
    address: option.Address = None,
    overwrite: option.Overwrite = False,
) -> Report:
    """Draw accuracy per epoch, and say when each method is as good as RLU in the end."""
    layers = read_layers(recipe, settings, preset)
    encoder = layers.encoder(encoder)
    chosen = [experiments.Method.parse(name) for name in dict.fromkeys(names(methods))]
    tasks = experiments.plan_efficiency(
        chosen, encoder=encoder, seeds=range(seeds), layers=layers.tables, preset=layers.preset,
        epochs=experiments.parse_epochs(epochs or [], chosen),
    )  # fmt: skip
    check_out(out, overwrite=overwrite)
    loaded = sources.load_graph(graph)
    with (
        result_folder(out, experiments.EFFICIENCY_JSON, loaded, overwrite=overwrite) as folder,
        running(
            "Training",
            loaded,
            folder,
            splits=splits,
            jobs=jobs,
            engine=engine,
            address=address,
            seeds=seeds,
        ) as runner,  # fmt: skip
    ):
        result = experiments.efficiency(runner, tasks, reference=reference)
    console.print(report.efficiency_table(result["methods"], reference))
    for sentence in result["sentences"]:
        console.print(sentence)
    notes = []
    metric = metrics.METRICS[runner.recipe_of(tasks[0]).training.metric]
    if metric is not metrics.ACCURACY:
        notes.append(f"Weights were kept by {metric.title}; curves and table show accuracy")
    print_notes(notes)
    print_line(
        f"Wrote {out / experiments.EFFICIENCY_JSON} and {out / experiments.EFFICIENCY_PICTURE}"
    )
    return {
        "result": out / experiments.EFFICIENCY_JSON,
        "picture": out / experiments.EFFICIENCY_PICTURE,
        "reference": reference,
        "methods": result["methods"],
        "conclusions": result["sentences"],
        "notes": notes,
    }
