"""`scr download`: a data set of OGB's, after its license has been accepted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

from scr import sources
from scr.cli import _completion
from scr.cli._console import console, facts, print_line, steps_progress
from scr.cli._ending import Report, when_stopped
from scr.errors import SourceError

STEPS = {"fetch": "Downloading", "check": "Checking", "unpack": "Unpacking"}


def download(
    name: Annotated[
        str, typer.Argument(help="Such as ogbn-products.", autocompletion=_completion.downloads)
    ],
    to: Annotated[
        Path | None, typer.Option(help="The data folder. [$SCR_DATA, else ~/.cache/scr/data]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the license without a question.")] = (
        False
    ),
    url: Annotated[str | None, typer.Option(help="Another address of the same archive.")] = None,
    sha256: Annotated[str | None, typer.Option(help="Checksum that the archive must have.")] = None,
    keep_archive: Annotated[
        bool, typer.Option("--keep-archive", help="Keep the archive beside the data set.")
    ] = False,
) -> Report:
    """Download a data set of the Open Graph Benchmark."""
    dataset = sources.dataset_of(name)
    folder = (to or sources.data_folder()).expanduser()
    rows = [
        ("data set", dataset.name),
        ("from", url or dataset.url),
        ("size", f"about {dataset.size}, and as much again while it is unpacked"),
        ("to", str(folder / dataset.folder)),
        ("license", " ".join(dataset.license)),
    ]
    console.print(facts(rows), soft_wrap=True)
    if not yes and not (folder / dataset.folder).exists():
        if not sys.stdin.isatty():
            raise SourceError(
                f"The license of `{name}` has not been accepted; there is no terminal to ask on",
                hint="read it, then accept it with `--yes`",
            )
        typer.confirm("Do you accept the license?", abort=True)
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    stopped = f"Stopped; what was fetched is kept in {folder}. The same command resumes."
    with when_stopped(stopped), steps_progress(*columns) as on_progress:

        def begin(step: str) -> Callable[[int, int | None], None]:
            return functools.partial(on_progress, STEPS[step])

        result = sources.download(
            name, to, url=url, sha256=sha256, keep_archive=keep_archive, progress=begin
        )
    if result.sha256 is None:
        print_line(f"{name} is there already: {result.folder}")
        return {"folder": result.folder, "sha256": None, "archive": None}
    print_line(f"Wrote {result.folder} (SHA-256 of the archive: {result.sha256})")
    if result.record is not None:
        print_line(
            "OGB publishes no checksums, so this first download was trusted. "
            f"{result.record} has its checksum, with which every later one is compared."
        )
    if result.archive is not None:
        print_line(f"Kept {result.archive}")
    return {"folder": result.folder, "sha256": result.sha256, "archive": result.archive}
