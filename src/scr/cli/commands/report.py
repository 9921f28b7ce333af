"""`scr report`: the page of a run or of a comparison, made again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli._console import print_line
from scr.cli._ending import Report
from scr.errors import RunError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or results of compare.")],
) -> Report:
    """Write the HTML page of each run or comparison."""
    from scr.report import read_comparison, shown_from
    from scr.report.page import comparison_page, run_page, write_page
    from scr.runs import verify_run

    pages = []
    for path in runs:
        if (path / "compare.json").exists():
            file = path / "compare.json"
            with shown_from(file):
                html = comparison_page(read_comparison(file))
        elif (path / "metrics.json").exists():
            verify_run(path, may_lack=True)
            html = run_page(path)
        elif not path.exists():
            raise RunError(f"`{path}` does not exist; expected a run directory or a comparison")
        else:
            raise RunError(
                f"`{path}` has neither metrics.json nor compare.json; expected a finished run "
                "or a comparison"
            )
        pages.append(write_page(path / "report.html", html))
        print_line(f"Wrote {pages[-1]}")
    return {"pages": pages}
