"""`scr efficiency`: accuracy per epoch and per second of SCR, SCR-m and multi-stage training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli._console import console
from scr.cli._progress import counted
from scr.cli.compare import names
from scr.cli.train import keeping_runs, preset_below, recipe_layers, shown_command


def efficiency(
    graph: Annotated[str, typer.Argument(help="A store, a source, or a dataset name.")],
    out: Annotated[Path, typer.Option(help="Folder for the result; goes on where it was.")],
    encoder: Annotated[
        str | None, typer.Option(help="Such as ssgc or sign; none: the recipe's, else gamlp.")
    ] = None,
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
    splits: Annotated[str | None, typer.Option(help="A splits file: seed i uses split i.")] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, such as [for.rlu.stages].")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")
    ] = None,
    preset: Annotated[str, typer.Option(help="A preset, or auto.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one thread each.")] = 1,
) -> None:
    """Draw accuracy per epoch, and say when each method is as good as RLU in the end."""
    from scr import experiments
    from scr.experiments import Comparison
    from scr.networks import encoder_class
    from scr.report import efficiency_table
    from scr.sources import load_graph
    from scr.training import merge

    layers = recipe_layers(recipe, settings)
    encoder = encoder or merge(*layers).get("encoder", {}).get("name", "gamlp")
    encoder_class(encoder)
    chosen = [experiments.Method.parse(name) for name in dict.fromkeys(names(methods))]
    planned = experiments.plan_efficiency(
        chosen,
        encoder=encoder,
        seeds=range(seeds),
        layers=layers,
        epochs=experiments.parse_epochs(epochs or [], chosen),
        preset=preset_below(recipe, preset),
    )
    comparison = Comparison(load_graph(graph), splits)
    comparison.graph_of(seeds - 1)
    with keeping_runs(out), counted("Training") as bar:
        result = experiments.efficiency(
            comparison, planned, reference=reference, out=out, jobs=jobs,
            on_plan=bar.expect, on_run=bar.finish, command=shown_command(),
        )  # fmt: skip
    console.print(efficiency_table(result["methods"], reference))
    for sentence in result["sentences"]:
        console.print(sentence)
    console.print(
        f"Wrote {out / experiments.EFFICIENCY_JSON} and {out / experiments.EFFICIENCY_PICTURE}",
        soft_wrap=True,
    )
