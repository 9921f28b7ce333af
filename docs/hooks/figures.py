"""Draw the figures of the results page from committed numbers when the documentation is built.

`benchmarks/results/{efficiency,sensitivity}/GRAPH.json` become `assets/figures/KIND-GRAPH.svg`, so
that no picture is kept in the repository and none can differ from its numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from scr.report.plots import efficiency_curves, sensitivity_overview

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def on_files(files: Files, config: Any) -> Files:
    """Add a drawn figure for every result."""
    for kind, draw in (("efficiency", _efficiency), ("sensitivity", _sensitivity)):
        for file in sorted((RESULTS / kind).glob("*.json")):
            found = json.loads(file.read_text(encoding="utf-8"))
            path = f"assets/figures/{kind}-{file.stem}.svg"
            files.append(File.generated(config, path, content=draw(found)))
    return files


def _efficiency(found: dict[str, Any]) -> bytes:
    return efficiency_curves(
        found["curves"], found["methods"], found["reference"], file_format="svg"
    )


def _sensitivity(found: dict[str, Any]) -> bytes:
    return sensitivity_overview(found["curves"], found["base"], file_format="svg")
