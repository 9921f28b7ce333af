"""`scr export`: the model of a run as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

import scr
from scr.cli import _options as option
from scr.cli._console import print_line
from scr.cli._ending import Report
from scr.cli._replacing import refuse_existing_file
from scr.cli._run import check_out_file
from scr.errors import ConfigError


def export(
    run: option.FinishedRun,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    part: Annotated[
        str,
        typer.Option(help="head: from hops to probabilities; preparation: from features to those."),
    ] = "head",
    overwrite: option.Overwrite = False,
) -> Report:
    """Write the trained model as ONNX, to be run without torch."""
    from scr.prediction import ExportPart

    if out.suffix != ".onnx":
        raise ConfigError("--out", str(out), "a file that ends in .onnx")
    check_out_file(out)
    refuse_existing_file(out, overwrite=overwrite)
    classifier = scr.NodeClassifier.load(run)
    written = classifier.export_onnx(out, part=cast(ExportPart, part))
    print_line(f"Wrote {written}")
    return {"run": run, "model": written}
