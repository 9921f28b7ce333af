"""`scr reproduce`: one row of the paper's tables again, beside the published number."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from scr import experiments, report, sources
from scr.cli import _completion
from scr.cli import _options as option
from scr.cli._console import console, print_line, print_notes, table
from scr.cli._ending import Report, when_stopped
from scr.cli._run import assigned, check_out, result_folder, running, shown_command
from scr.errors import ConfigError


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="A recipe, as `scr recipes` lists them.", autocompletion=_completion.recipes
        ),
    ],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Seeds from 0; as many as published by default.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="A store, a source or a name instead of the data set.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="A .npy with a row per node, instead of the features.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder of data sets, instead of $SCR_DATA.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result; a stopped command resumes there. [runs/NAME]"),
    ] = None,
    jobs: option.Jobs = 1,
    settings: option.Assignments = None,
    splits: option.SplitPerSeed = None,
    stand_in: Annotated[
        bool,
        typer.Option("--stand-in", help="Scaled down, on a generated graph instead of the data."),
    ] = False,
    overwrite: option.Overwrite = False,
) -> Report:
    """Run a published recipe and compare with the published number."""
    from scr.recipes import read_recipe

    recipe = read_recipe(name)
    changes = assigned(settings)
    experiments.check_runnable(recipe, changes)
    target = Path("runs") / (f"{name}-stand-in" if stand_in else name) if out is None else out
    check_out(target, overwrite=overwrite)
    given = {"--graph": graph, "--features": features, "--data": data}
    for option_name, value in given.items():
        if stand_in and value is not None:
            expected = "nothing beside `--stand-in`, which generates its data"
            raise ConfigError(option_name, str(value), expected)
    if data is not None:
        os.environ[sources.DATA_VARIABLE] = str(data)
    with result_folder(target, experiments.REPRODUCE_JSON, name, overwrite=overwrite) as folder:
        remarks: list[str] = []
        if stand_in:
            with when_stopped(f"Stopped; the same command resumes: {shown_command()}"):
                loaded, changes, remarks = experiments.stand_in_for(recipe, folder, changes)
        else:
            loaded = experiments.load_recipe_graph(
                recipe, graph=graph, features=features, settings=changes
            )
        with running("Reproducing", loaded, folder, splits=splits, jobs=jobs) as runner:
            result = experiments.reproduce(
                recipe, runner, runs=runs, settings=changes, remarks=remarks
            )
    row = recipe.published
    print_line(f"{name}, {row.where}: {row.row}")
    console.print(reproduction_table(result))
    print_notes(result["notes"])
    print_line(f"Wrote {target / experiments.REPRODUCE_JSON}")
    shown = ("published", "measured", "difference", "notes")
    return {
        "recipe": name, "result": target / experiments.REPRODUCE_JSON,
        **{key: result[key] for key in shown},
    }  # fmt: skip


def reproduction_table(result: Mapping[str, Any]) -> Table:
    """Published, measured and their difference, validation and test."""
    published, measured = result["published"], result["measured"]
    caption = (
        f"Percent, mean ± standard deviation; published: {published['runs']} runs, "
        f"measured: {len(result['runs'])} on {result['graph']['name']}."
    )
    numbers = ("published", "measured", "difference")
    lined = table(("accuracy", *numbers), numbers=numbers, caption=caption)
    for split, label in (("valid", "validation"), ("test", "test")):
        difference = result["difference"][f"{split}_accuracy"]
        lined.add_row(
            label, mean_and_spread(published, split), mean_and_spread(measured, split),
            Text(report.points(None if difference is None else difference / 100), "bold"),
        )  # fmt: skip
    return lined


def mean_and_spread(scores: Mapping[str, Any], split: str) -> str:
    """As the paper prints it: 84.62 ± 0.03."""
    mean, spread = scores[f"{split}_accuracy"], scores[f"{split}_spread"]
    if mean is None:
        return report.MISSING
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"
