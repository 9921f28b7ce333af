"""Options that several commands have, with the same name and meaning in each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli import _completion

GraphSource = Annotated[
    str,
    typer.Argument(
        help="A store, a source, or a dataset name.", autocompletion=_completion.datasets
    ),
]
FinishedRun = Annotated[Path, typer.Argument(help="A finished run directory.")]
ResultFolder = Annotated[
    Path, typer.Option(help="Folder for the result; a stopped command resumes there.")
]
EncoderOfRecipe = Annotated[
    str | None,
    typer.Option(
        help="Such as ssgc or sign. [the recipe's, else gamlp]",
        autocompletion=_completion.one_of(_completion.ENCODERS),
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with settings, or a name of `scr recipes`.",
        autocompletion=_completion.recipes,
    ),
]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="What counts: accuracy, balanced, macro-f1, roc-auc or log-loss. [the recipe's, else "
        "accuracy]",
        autocompletion=_completion.one_of(_completion.METRICS),
    ),
]
Preset = Annotated[str, typer.Option(help="A preset, or auto.")]
SplitPerSeed = Annotated[str | None, typer.Option(help="A splits file: seed i uses split i.")]
FeaturesFile = Annotated[
    Path | None,
    typer.Option("--features", help="A .npy with one row of features per node, instead."),
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes, one thread each.")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where the work runs: local, or ray for a cluster.",
        autocompletion=_completion.one_of(_completion.ENGINES),
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Of the Ray cluster. [RAY_ADDRESS, else one on this machine]"),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is there, once the new is whole.")
]
Probabilities = Annotated[
    str, typer.Option(help="Class probabilities to write: none, top-K or all.")
]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In CSV and TSV, an apostrophe before texts that a spreadsheet would compute.",
    ),
]
Device = Annotated[str, typer.Option(help="Where torch computes.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Workers of the engine ray. [as many as there is room for]"),
]
WorkerCores = Annotated[int, typer.Option(min=1, help="Threads of each worker.")]
