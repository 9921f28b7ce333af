"""Draw which package imports which, from the import statements, when the documentation is built."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from mkdocs.structure.files import File, Files

from scr.report.plots._style import SERIES, themed, to_bytes

SOURCE = Path(__file__).parents[2] / "src" / "scr"
ROW, WIDTH, HEIGHT = 1.0, 1.55, 0.5


def on_files(files: Files, config: Any) -> Files:
    """Add the picture."""
    drawn = File.generated(config, "assets/figures/packages.svg", content=draw(imports()))
    files.append(drawn)
    return files


def imports() -> dict[str, set[str]]:
    """The packages and modules right below `scr`, each with those it imports."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        if own.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for_checkers = {
            id(inner)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for inner in ast.walk(block)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or id(node) in for_checkers:
                continue
            root, *rest = node.module.split(".")
            if root == "scr":
                targets = rest[:1] or [alias.name for alias in node.names]
                edges[own] |= {each for each in targets if not each.startswith("_")} - {own}
    names = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    return {name: targets & names for name, targets in edges.items()}


def layers(edges: dict[str, set[str]]) -> dict[str, int]:
    """How far above the bottom a package lies: one more than the highest that it imports."""

    @cache
    def height(name: str) -> int:
        return 1 + max((height(each) for each in edges.get(name, ())), default=-1)

    return {name: height(name) for name in {*edges, *(each for v in edges.values() for each in v)}}


def reduced(edges: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The imports that do not follow from others: an arrow each."""

    @cache
    def reach(name: str) -> frozenset[str]:
        direct = edges.get(name, set())
        return frozenset(direct).union(*(reach(each) for each in direct))

    return {
        (name, target)
        for name, targets in edges.items()
        for target in targets
        if not any(target in reach(other) for other in targets - {target})
    }


@themed
def draw(edges: dict[str, set[str]]) -> bytes:
    """A row per layer, the command line on top."""
    heights = layers(edges)
    rows: dict[int, list[str]] = defaultdict(list)
    for name in sorted(heights):
        rows[heights[name]].append(name)
    places = {
        name: ((column - (len(names) - 1) / 2) * 2.0, row * ROW)
        for row, names in rows.items()
        for column, name in enumerate(names)
    }
    figure = Figure(figsize=(9.6, 0.62 * len(rows) + 0.4))
    axes = figure.add_axes((0, 0, 1, 1))
    for name, target in sorted(reduced(edges)):
        (x, y), (to_x, to_y) = places[name], places[target]
        axes.plot([x, to_x], [y - HEIGHT / 2, to_y + HEIGHT / 2], color="0.6", linewidth=0.8)
    for name, (x, y) in places.items():
        axes.text(
            x, y, name, ha="center", va="center", fontsize=9,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": SERIES[0]},
        )  # fmt: skip
    axes.set_axis_off()
    axes.margins(x=0.12, y=0.06)
    return to_bytes(figure, "svg")
