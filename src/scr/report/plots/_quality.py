"""How far predictions can be trusted: calibration, confusions between classes, recall per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scr.metrics import ReliabilityCurve
from scr.report.plots import _style as theme

MOST_CLASSES = 50
"""Classes shown in one confusion matrix; beyond, the most frequent ones."""
HARDEST_CLASSES = 15
_COUNTED_CLASSES = 12
_LONGEST_NAME = 22


@theme.themed
def reliability_diagram(curve: ReliabilityCurve, *, file_format: theme.Format = "svg") -> bytes:
    """Accuracy per confidence bin against the diagonal, with the share of nodes below."""
    figure = Figure(figsize=(4.8, 4.1), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    width = 1 / len(curve.nodes)
    centers = curve.edges[:-1] + width / 2
    filled = curve.nodes > 0
    sure, right = curve.confidence[filled], curve.accuracy[filled]
    # From each dot to the diagonal: the gap that the calibration error averages.
    upper.vlines(sure, right, sure, color=theme.RED, linewidth=1.6, alpha=0.7)
    upper.plot(sure, right, "-", color=theme.BLUE, linewidth=1.0, alpha=0.5)
    upper.plot(sure, right, "o", color=theme.BLUE, markersize=6)
    upper.plot([0, 1], [0, 1], color=theme.INK, linewidth=0.9, linestyle=(0, (3, 2)))
    upper.set(ylim=(0, 1.03), xlim=(0, 1.02), ylabel="accuracy")
    upper.set_title("Is the confidence deserved?")
    error = curve.calibration_error
    if error is not None:
        text = f"calibration error {100 * error:.1f}%"
        upper.text(0.03, 0.93, text, transform=upper.transAxes, va="top")
    shares = curve.nodes / max(curve.nodes.sum(), 1)
    lower.bar(centers, shares, width * 0.86, color=theme.MUTED, alpha=0.6)
    lower.set(xlabel="confidence", ylabel="nodes")
    for axes in (upper, lower):
        axes.grid(axis="x", visible=False)
    theme.in_percent(upper.yaxis, lower.yaxis, lower.xaxis)
    # Room between the two zeros in the corner.
    lower.tick_params(axis="x", pad=7)
    return theme.to_bytes(figure, file_format)


@theme.themed
def confusion_heatmap(
    confusion: NDArray[np.int64], class_names: Sequence[str], *, file_format: theme.Format = "svg"
) -> bytes:
    """Share of each class (row) that was predicted as each class (column).

    Right predictions are blue, mistakes orange, so that rare mistakes are seen beside a strong
    diagonal. Of more than `MOST_CLASSES` classes, the most frequent are shown.
    """
    nodes = confusion.sum(axis=1) + confusion.sum(axis=0)
    kept = np.sort(np.argsort(-nodes, kind="stable")[:MOST_CLASSES])
    counts = confusion[np.ix_(kept, kept)]
    size = len(kept)
    shares = counts / np.maximum(confusion[kept].sum(axis=1, keepdims=True), 1)
    side = float(np.clip(0.34 * size + 1.3, 4.0, 8.4))
    figure, axes = theme.panel(side + 0.4, side)
    right = np.eye(size, dtype=bool)[..., None]
    # The square root lifts small shares: one percent is still to be seen.
    theme.heat_map(
        axes, np.where(right, to_rgb(theme.BLUE), to_rgb(theme.RED)), np.sqrt(shares),
        aspect="equal",
    )  # fmt: skip
    names = [_short(class_names[index]) for index in kept]
    font = float(np.clip(260 / max(size, 1), 5.5, 9))
    long_names = max(len(name) for name in names) > 2
    axes.set_xticks(range(size), names, rotation=90 if long_names else 0, fontsize=font)
    axes.set_yticks(range(size), names, fontsize=font)
    axes.set(xlabel="prediction", ylabel="label")
    if size <= _COUNTED_CLASSES:
        for row, column in zip(*np.nonzero(counts), strict=True):
            color = "white" if shares[row, column] > 0.55 else theme.INK
            axes.text(
                column, row, f"{counts[row, column]:,}",
                ha="center", va="center", fontsize=8, color=color,
            )  # fmt: skip
    shown = "" if size == len(confusion) else f" ({size} most frequent of {len(confusion)} classes)"
    axes.set_title(f"Which classes are confused{shown}")
    return theme.to_bytes(figure, file_format)


@theme.themed
def class_recalls(rows: Sequence[Mapping[str, Any]], *, file_format: theme.Format = "svg") -> bytes:
    """Recall per class (rows of `per_class_table`), lowest at the top, with its nodes.

    Of more than `HARDEST_CLASSES` classes, those with the lowest recall are shown.
    """
    present = sorted(
        (row for row in rows if row["recall"] is not None), key=lambda row: -row["recall"]
    )
    mean = float(np.mean([row["recall"] for row in present])) if present else 0.0
    shown = present[-HARDEST_CLASSES:]
    figure, axes = theme.panel(4.8, max(1.9, 0.25 * len(shown) + 1.1))
    positions = range(len(shown))
    recalls = [row["recall"] for row in shown]
    axes.hlines(positions, 0, recalls, color=theme.BLUE, linewidth=2.2, alpha=0.35)
    axes.plot(recalls, positions, "o", color=theme.BLUE, markersize=6)
    for position, row in zip(positions, shown, strict=True):
        axes.text(1.03, position, f"{row['nodes']:,}", va="center", fontsize=8.5, color=theme.MUTED)
    axes.text(1.03, len(shown) - 0.35, "nodes", va="bottom", fontsize=8.5, color=theme.MUTED)
    axes.axvline(mean, color=theme.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xlabel(f"recall (dashed: mean over all classes, {100 * mean:.1f}%)")
    axes.set_yticks(positions, [_short(row["class"]) for row in shown])
    axes.set(xlim=(0, 1), ylim=(-0.6, len(shown) - 0.4))
    theme.in_percent(axes.xaxis)
    theme.quiet(axes, grid="y")
    few = len(shown) == len(present)
    axes.set_title("Recall per class" if few else f"The {len(shown)} hardest classes")
    return theme.to_bytes(figure, file_format)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
