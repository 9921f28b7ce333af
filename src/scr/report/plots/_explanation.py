"""What carries a prediction: attention per hop, shares of relations, and what shuffling costs.

Reads parts of `explanation.json`; every function takes plain lists.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from scr.report._formatting import points
from scr.report.plots import _style as theme

MOST_CLASSES = 15
"""Classes in one picture; of more, those that are predicted most often."""
_LINE, _LINES = 27, 3
"""Letters of a name in a line, and lines of it; what is longer is cut."""
_PIECES = re.compile(r"[^\s:]+[\s:]*|[\s:]+")
"""Words, and parts of `SOURCE:NAME:TARGET`: a line may end after each."""
_HOP_NAMES = 9
"""How many names of hops have room below a plot."""
_ERRORS: dict[str, Any] = {"fmt": "none", "ecolor": theme.INK, "elinewidth": 1.1, "alpha": 0.8}


@theme.themed
def attention_bars(
    hops: Sequence[str],
    mean: Sequence[float],
    spread: Sequence[float],
    *,
    title: str = "How much each hop counts",
    file_format: theme.Format = "svg",
) -> bytes:
    """Mean over the nodes per hop, and as a line how far it varies from node to node."""
    figure, axes = theme.panel()
    positions = np.arange(len(hops))
    axes.bar(positions, mean, 0.68, color=theme.BLUE)
    if any(spread):
        axes.errorbar(positions, mean, yerr=spread, capsize=3, **_ERRORS)
        axes.set_xlabel("bar: mean over nodes; line: standard deviation")
    tops = np.maximum(np.add(mean, spread), 0)
    for position, value, top in zip(positions, mean, tops, strict=True):
        axes.annotate(
            f"{100 * value:.0f}%", (position, top), xytext=(0, 3), textcoords="offset points",
            ha="center", va="bottom", fontsize=8.5, color=theme.MUTED,
        )  # fmt: skip
    _hop_ticks(axes, hops)
    lowest = min(0.0, float(np.min(np.subtract(mean, spread)))) if min(mean) < 0 else 0.0
    axes.set_ylim(1.1 * lowest, 1.15 * max(float(tops.max()), 0.01))
    theme.in_percent(axes.yaxis)
    axes.grid(axis="x", visible=False)
    axes.set_title(title)
    return theme.to_bytes(figure, file_format)


@theme.themed
def class_attention(
    hops: Sequence[str],
    classes: Sequence[str],
    nodes: Sequence[int],
    by_class: Sequence[Sequence[float]],
    *,
    file_format: theme.Format = "svg",
) -> bytes:
    """Attention per predicted class and hop; of many classes, the most frequent ones."""
    order = np.argsort(-np.asarray(nodes), kind="stable")[:MOST_CLASSES]
    shown = [f"{classes[position]} ({nodes[position]:,})" for position in order]
    label = "percent (nodes)"
    if len(order) < len(classes):
        label += f"; {len(order)} of {len(classes)} classes"
    title, shares = "Each hop by predicted class", np.asarray(by_class)[order]
    return _heat_map(shares, shown, hops, title, label, file_format)


@theme.themed
def shares_by_hop(
    hops: Sequence[str],
    names: Sequence[str],
    by_hop: Sequence[Sequence[float]],
    *,
    title: str,
    file_format: theme.Format = "svg",
) -> bytes:
    """Share of each subset or relation (row) in each hop (column); shape (hops, names)."""
    return _heat_map(np.asarray(by_hop).T, names, hops, title, "percent of each hop", file_format)


@theme.themed
def drop_bars(
    drops: Sequence[Mapping[str, Any]],
    *,
    title: str = "What is lost when it is shuffled",
    file_format: theme.Format = "svg",
) -> bytes:
    """Points of accuracy that are lost when a part of the input is shuffled among the nodes."""
    names = [_wrapped(drop["name"]) for drop in drops]
    lost = np.array([float(drop["mean"]) for drop in drops]) * 100
    spread = np.array([float(drop["spread"]) for drop in drops]) * 100
    centers = _centers(names)
    figure, axes = theme.panel(4.8, max(1.3 + 0.165 * (centers[-1] + 2), 2.4))
    colors = [theme.BLUE if value >= 0 else theme.RED for value in lost]
    axes.barh(centers, lost, 1.1, color=colors)
    axes.errorbar(lost, centers, xerr=spread, capsize=2.5, **_ERRORS)
    axes.axvline(0, color=theme.INK, linewidth=0.9)
    for center, value in zip(centers, lost, strict=True):
        theme.annotate_right(axes, points(-value / 100), center)
    axes.set_yticks(centers, names, color=theme.INK)
    axes.set_ylim(centers[-1] + 1.3, -1.3)
    low, high = float((lost - spread).min()), float((lost + spread).max())
    axes.set_xlim(min(1.05 * low, 0.0), max(1.05 * high, 0.5))
    axes.set_xlabel("points; line: spread of the shuffles")
    theme.quiet(axes, grid="y")
    _title(figure, title)
    return theme.to_bytes(figure, file_format)


def _heat_map(
    shares: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    label: str,
    file_format: theme.Format,
) -> bytes:
    """Percent on squares, the larger the darker."""
    values = np.asarray(shares, dtype=np.float64)
    names = [_wrapped(row) for row in rows]
    lines = max(name.count("\n") + 1 for name in names)
    figure, axes = theme.panel(4.8, 1.25 + len(rows) * max(0.28, 0.165 * lines + 0.06))
    # The largest is darkest, whatever it is: shares of many hops or subsets are all small.
    strength = np.clip(values / max(float(values.max()), 1e-9), 0, 1)
    theme.heat_map(axes, to_rgb(theme.BLUE), 0.9 * strength, aspect="auto")
    font = float(np.clip(62 / values.shape[1], 5.5, 8.5))
    for row, column in np.ndindex(*values.shape):
        color = "white" if strength[row, column] > 0.6 else theme.INK
        text = f"{100 * values[row, column]:.0f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=font, color=color)
    _hop_ticks(axes, columns)
    axes.set_yticks(range(len(rows)), names, color=theme.INK, fontsize=8.5)
    axes.set_xlabel(label)
    _title(figure, title)
    return theme.to_bytes(figure, file_format)


def _hop_ticks(axes: Axes, hops: Sequence[str]) -> None:
    """Names of the hops; of many, only every second, third, ... one, so that they stay apart."""
    step = -(-len(hops) // _HOP_NAMES)
    axes.set_xticks(range(0, len(hops), step), list(hops[::step]))


def _title(figure: Figure, title: str) -> None:
    """At the left of the whole picture: beside long names there is little room above the axes."""
    figure.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")


def _centers(names: Sequence[str]) -> list[float]:
    """Places of bars from the top down, with room for names of several lines."""
    centers, at = [], 0.0
    for name in names:
        height = max(name.count("\n") + 1, 1.5)
        centers.append(at + height / 2)
        at += height + 0.3
    return centers


def _wrapped(name: object) -> str:
    """A long name in a few lines, cut where even these do not hold it.

    >>> _wrapped("paper cites paper + author writes paper")
    'paper cites paper + author\\nwrites paper'
    """
    lines = [""]
    for piece in _PIECES.findall(str(name)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > _LINE:
            lines.append("")
        lines[-1] += piece
    lines = [line.rstrip() for line in lines]
    lines = [part for line in lines for part in textwrap.wrap(line, _LINE) or [""]]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"{lines[_LINES - 1][: _LINE - 1]}…"]
    return "\n".join(lines)
