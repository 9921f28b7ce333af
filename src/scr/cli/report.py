"""`scr report`: the page of a run or of a comparison, made again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr.cli._console import console
from scr.cli.compare import graph_facts


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or results of compare.")],
) -> None:
    """Write the HTML page of each run or comparison."""
    import json

    from scr.errors import RunError
    from scr.report.page import comparison_page, run_page, write_page

    for path in runs:
        if (path / "compare.json").exists():
            result = json.loads((path / "compare.json").read_text(encoding="utf-8"))
            title = f"Comparison on {result['graph']['name']}"
            html = comparison_page(result, title=title, graph_facts=graph_facts(result["graph"]))
        elif (path / "metrics.json").exists():
            html = run_page(path)
        else:
            raise RunError(
                f"`{path}` has neither metrics.json nor compare.json; expected a finished run "
                "or a comparison"
            )
        write_page(path / "report.html", html)
        console.print(f"Wrote {path / 'report.html'}", soft_wrap=True)
