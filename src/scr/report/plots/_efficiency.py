"""Accuracy of what stopping would give, over epochs and over seconds, for several methods.

Test nodes above, validation nodes below: the two are often so far apart that one axis would flatten
both. A dashed line is where the reference ends, a dot where a method's mean curve first is as high.
Thin vertical lines are where multi-stage training starts anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scr.report._efficiency import MethodCurve, Reach
from scr.report._formatting import percent
from scr.report.plots import _style as theme

Axis = Literal["epochs", "seconds"]
_AXES: dict[Axis, int] = {"epochs": 0, "seconds": 1}
"""Where each axis is in the pairs of `stage_starts`."""
# The first epochs are far below all that matters: this many times the range of the methods' final
# accuracies stays in view, and at least so many points.
_RANGES_IN_VIEW, _LEAST_IN_VIEW = 5.0, 0.06
# Numbers closer than this share of the axis would overlap; they are put above each other.
_LABEL_SHARE = 0.08


@theme.themed
def efficiency_curves(
    curves: Sequence[MethodCurve],
    reached: Sequence[Reach],
    reference: str,
    *,
    file_format: theme.Format = "svg",
) -> bytes:
    """One picture: accuracy over epochs at the left, over seconds at the right.

    Args:
        curves: Mean curves of the methods.
        reached: When each method reaches the final accuracy of the reference.
        reference: The method that the others are measured by.
    """
    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    grid = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=(3, 2), squeeze=False)
    colors = theme.series_colors([curve["method"] for curve in curves])
    target = next(curve["final_test"] for curve in curves if curve["method"] == reference)
    for axis, column in _AXES.items():
        for line, kind in enumerate(("test", "valid")):
            _draw(grid[line][column], curves, axis, kind, colors)
        upper: Axes = grid[0][column]
        upper.axhline(target, color=theme.INK, linewidth=1.0, linestyle=theme.DASHES, zorder=1)
        _mark_reaches(upper, reached, axis, target, colors)
        for curve in curves:
            for number, start in enumerate(curve["stage_starts"], start=2):
                upper.annotate(
                    f"stage {number}", (start[column], 1.0), xycoords=("data", "axes fraction"),
                    xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8.5,
                    color=theme.MUTED,
                )  # fmt: skip
        unit = "epochs" if axis == "epochs" else "seconds of training"
        lower: Axes = grid[1][column]
        lower.set_xlabel(f"{unit}, through all stages")
        lower.xaxis.set_major_locator(MaxNLocator(7))
        lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    grid[0][0].set_title("Test nodes", pad=18)
    grid[1][0].set_title("Validation nodes")
    for axes, kind in zip(grid[:, 0], ("test", "valid"), strict=True):
        axes.set_ylim(*_limits(curves, kind))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    _legend(figure, colors, reference, target)
    return theme.to_bytes(figure, file_format)


def _draw(
    axes: Axes, curves: Sequence[MethodCurve], axis: Axis, kind: str, colors: dict[str, str]
) -> None:
    for curve in curves:
        color = colors[curve["method"]]
        positions, means, spread = np.array(curve[axis]), *_values(curve, kind)
        axes.fill_between(
            positions, means - spread, means + spread,
            color=color, alpha=0.13, linewidth=0, step="post",
        )  # fmt: skip
        # What is kept only changes at evaluated epochs, so the curve is made of steps.
        axes.step(positions, means, where="post", color=color)
        for start in curve["stage_starts"]:
            axes.axvline(start[_AXES[axis]], color=color, linewidth=0.9, linestyle=(0, (1, 1.5)))
    axes.set_xlim(left=0)
    axes.margins(x=0.03)
    theme.quiet(axes, grid="x")


def _mark_reaches(
    axes: Axes, reached: Sequence[Reach], axis: Axis, target: float, colors: dict[str, str]
) -> None:
    """A dot where each method gets there, with its epoch or seconds at the foot."""
    width = axes.get_xlim()[1]
    positions = [
        (float(position), reach["method"])
        for reach in reached
        if (position := reach["epoch"] if axis == "epochs" else reach["seconds"]) is not None
    ]
    before, height = -width, 0
    for position, method in sorted(positions):
        height = height + 1 if position - before < _LABEL_SHARE * width else 0
        before = position
        color = colors[method]
        axes.plot(
            position, target, "o", color=theme.PAPER, markeredgecolor=color, markeredgewidth=2,
            markersize=7, zorder=4,
        )  # fmt: skip
        axes.plot([position, position], [0, target], color=color, linewidth=0.9, zorder=1)
        axes.annotate(
            f"{position:,.0f}" if position >= 10 else f"{position:.1f}".removesuffix(".0"),
            (position, 0.0), xycoords=("data", "axes fraction"), xytext=(4, 4 + 13 * height),
            textcoords="offset points", fontsize=8.5, color=color, fontweight="bold",
            zorder=5, bbox={"fc": theme.PAPER, "ec": "none", "alpha": 0.8, "pad": 0.8},
        )  # fmt: skip


def _limits(curves: Sequence[MethodCurve], kind: str) -> tuple[float, float]:
    """From what matters at the bottom to the highest band."""
    means = [_values(curve, kind) for curve in curves]
    top = max(float((mean + spread).max()) for mean, spread in means)
    ends = [float(mean[-1]) for mean, _ in means]
    shown = max(_RANGES_IN_VIEW * (top - min(ends)), _LEAST_IN_VIEW)
    lowest = min(float((mean - spread).min()) for mean, spread in means)
    bottom = max(lowest, top - shown)
    margin = 0.05 * (top - bottom)
    return bottom - margin, top + margin


def _values(curve: MethodCurve, kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    mean, std = f"{kind}_mean", f"{kind}_std"
    return np.array(curve[mean]), np.array(curve[std])  # type: ignore[literal-required]


def _legend(figure: Figure, colors: dict[str, str], reference: str, target: float) -> None:
    handles: list[Any] = [Line2D([], [], color=color, label=name) for name, color in colors.items()]
    handles.append(
        Line2D([], [], color=theme.INK, linewidth=1.0, linestyle=theme.DASHES,
               label=f"where {reference} ends: {percent(target)}%")
    )  # fmt: skip
    handles.append(theme.ring("gets there first", size=7))
    handles.append(Patch(color=theme.MUTED, alpha=0.25, linewidth=0, label="± standard deviation"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
