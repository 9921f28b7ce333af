"""Draw the figures of the results page from committed numbers when the documentation is built.

`benchmarks/results/{efficiency,sensitivity}/GRAPH.json` become `assets/figures/KIND-GRAPH.svg`, and
`benchmarks/results/scale.json` becomes `assets/figures/scale.svg`, so that no picture is kept in
the repository and none can differ from its numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from mkdocs.structure.files import File, Files

from scr.report.plots import efficiency_curves, sensitivity_overview
from scr.report.plots._style import SERIES, themed, to_bytes

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def on_files(files: Files, config: Any) -> Files:
    """Add a drawn figure for every result."""
    for kind, draw in (("efficiency", _efficiency), ("sensitivity", _sensitivity)):
        for file in sorted((RESULTS / kind).glob("*.json")):
            found = json.loads(file.read_text(encoding="utf-8"))
            path = f"assets/figures/{kind}-{file.stem}.svg"
            files.append(File.generated(config, path, content=draw(found)))
    curve = RESULTS / "scale.json"
    if curve.exists():
        rows = json.loads(curve.read_text(encoding="utf-8"))["rows"]
        drawn = scale_curves(rows)
        files.append(File.generated(config, "assets/figures/scale.svg", content=drawn))
    return files


def _efficiency(found: dict[str, Any]) -> bytes:
    return efficiency_curves(
        found["curves"], found["methods"], found["reference"], file_format="svg"
    )


def _sensitivity(found: dict[str, Any]) -> bytes:
    return sensitivity_overview(found["curves"], found["base"], file_format="svg")


@themed
def scale_curves(rows: list[dict[str, Any]]) -> bytes:
    """Seconds at the left and memory at the right against nodes, a line per step."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    steps = list(dict.fromkeys(row["step"] for row in rows))
    colors = dict(zip(steps, SERIES, strict=False))
    panels = (("seconds", "seconds", 1.0), ("memory_bytes", "peak memory, GB", 1e9))
    for axes, (value, title, unit) in zip(figure.subplots(1, 2), panels, strict=True):
        for step in steps:
            found = sorted((row["nodes"], row[value] / unit) for row in rows if row["step"] == step)
            peer = step in ("torch", "scipy")
            axes.plot(
                *zip(*found, strict=True), marker="o", markersize=5, color=colors[step],
                linestyle=(0, (4, 2)) if peer else "-",
                label=f"{step}, in memory" if peer else f"scr {step}",
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="nodes", title=title)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.tick_params(length=0, which="both")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return to_bytes(figure, "svg")
