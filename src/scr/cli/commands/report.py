"""`scr report`: the page of a run or of a comparison, made again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli._console import print_line
from scr.errors import RunError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or results of compare.")],
) -> None:
    """Write the HTML page of each run or comparison."""
    from scr.report import read_object
    from scr.report.page import comparison_page, run_page, write_page

    for path in runs:
        if (path / "compare.json").exists():
            html = comparison_page(read_object(path / "compare.json"))
        elif (path / "metrics.json").exists():
            html = run_page(path)
        else:
            raise RunError(
                f"`{path}` has neither metrics.json nor compare.json; expected a finished run "
                "or a comparison"
            )
        print_line(f"Wrote {write_page(path / 'report.html', html)}")
