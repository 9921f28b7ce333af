"""`scr suggest`: which nodes to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import scr
from scr import compute, prediction
from scr.cli import _options as option
from scr.cli._console import print_line, print_wide, table
from scr.cli._ending import Report
from scr.cli._replacing import refuse_existing_file
from scr.cli._run import check_out_file
from scr.errors import ConfigError

WIDTH = 110
"""Columns that the table takes at least on a terminal."""


def suggest(
    run: option.FinishedRun,
    count: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 20,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write as well.")] = None,
    spreadsheet_safe: option.SpreadsheetSafe = False,
    device: option.Device = "cpu",
    overwrite: option.Overwrite = False,
) -> Report:
    """Name unlabeled nodes whose labels would help most, and say why."""
    if out is not None and out.suffix != ".csv":
        raise ConfigError("--out", str(out), "a file whose name ends in .csv")
    if out is not None:
        check_out_file(out)
        refuse_existing_file(out, overwrite=overwrite)
    compute.usable_device(device)
    suggestions = scr.NodeClassifier.load(run, device=device).suggest(count)
    lined = table(["id", "prediction", "confidence", "score"], numbers=["confidence", "score"])
    lined.add_column("why", overflow="fold")
    for each in suggestions:
        numbers = (f"{100 * each.confidence:.1f}%", f"{each.score:.4f}")
        lined.add_row(*(Text(str(cell)) for cell in (each.id, each.prediction, *numbers, each.why)))
    print_wide(lined, WIDTH)
    if out is not None:
        prediction.write_suggestions(out, suggestions, spreadsheet_safe=spreadsheet_safe)
        print_line(f"Wrote {out}")
    return {"run": run, "suggestions": [each._asdict() for each in suggestions], "written": out}
