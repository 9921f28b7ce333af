"""Sensitivity curves: points of accuracy against the base, over the values of one setting.

The spread of accuracies over seeds is mostly the spread of splits, which all values share: a band
of it would hide every difference. So a curve shows the mean difference to the base on the same
seed, and its band is the 95% interval of that mean. The base is the line at zero. Test and
validation nodes have a panel each on one scale; a ring marks the value that validation chooses.

Values stand side by side in even steps, whatever lies between them: 0.9, 0.99 and 0.999 would meet
on a linear axis, and 0 has no place on a logarithmic one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scr.metrics import ACCURACY, metric_of
from scr.report._formatting import amount
from scr.report._sensitivity import SweepCurve, SweepPoint, difference_of, mean_of
from scr.report.plots import _style as theme

KINDS = {"test": "Test nodes", "valid": "Validation nodes"}
SYMBOLS = {
    "consistency.weight": "consistency weight λ",
    "consistency.threshold": "confidence threshold η",
    "consistency.decay": "teacher's decay α",
    "consistency.temperature": "sharpening temperature T",
}
"""The paper's settings in words with its symbols; others are shown by their own name."""

# A band may be this many times wider than the means differ before it is cut: with two seeds, the
# interval is so wide that the curve itself would be a flat line.
_WIDEST_BAND = 2.5
_LEAST_RANGE = 0.5
# A run that collapses loses tens of points. Below the middle value by this many times the height
# of the curve, a point is not drawn but named, or the others would lie on one line.
_DEEPEST = 4.0
_LEGEND_ENTRY = 1.55
"""Inches that an entry of the legend takes."""
_MARKERS = {"scr": "o", "scr-m": "s", "none": "D", "pi": "v", "r-drop": "P", "entropy": "X",
            "fixmatch": "<", "freematch": ">", "softmatch": "p", "grand": "h"}  # fmt: skip


@theme.themed
def sensitivity_curves(
    curves: Sequence[SweepCurve], base: SweepPoint, *, file_format: theme.Format = "svg"
) -> dict[str, bytes]:
    """One picture per setting, test and validation nodes side by side, from `sweep_curves`."""
    images = {}
    for setting, group in _by_setting(curves).items():
        kinds = _kinds(group)
        figure = Figure(figsize=(3.7 * len(kinds) + 0.4, 3.5), layout="constrained")
        row = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axes, kind in zip(row, kinds, strict=True):
            _draw(axes, group, kind, _scale(group, kinds))
            axes.set_title(_with_base(kind, base))
            axes.set_xlabel(SYMBOLS.get(setting, setting))
        row[0].set_ylabel(_against_base(base))
        _legend(figure, group)
        images[setting] = theme.to_bytes(figure, file_format)
    return images


@theme.themed
def sensitivity_overview(
    curves: Sequence[SweepCurve], base: SweepPoint, *, file_format: theme.Format = "svg"
) -> bytes:
    """All settings in one picture: a column each, test nodes above validation nodes."""
    groups = _by_setting(curves)
    kinds = _kinds(curves)
    figure = Figure(
        figsize=(max(2.9 * len(groups) + 0.7, 7.8), 2.5 * len(kinds) + 0.6), layout="constrained"
    )
    grid = figure.subplots(len(kinds), len(groups), sharex="col", squeeze=False)
    for column, (setting, group) in enumerate(groups.items()):
        for line, kind in enumerate(kinds):
            axes = grid[line][column]
            _draw(axes, group, kind, _scale(group, kinds))
            if line == 0:
                axes.set_title(SYMBOLS.get(setting, setting), fontsize=10)
            if column == 0:
                axes.set_ylabel(f"{_with_base(kind, base)}\n{_against_base(base)}")
    _legend(figure, curves)
    return theme.to_bytes(figure, file_format)


def _against_base(base: SweepPoint) -> str:
    """What the curves show: hundredths of the metric, which are points where it is a share."""
    metric = metric_of(base)
    unit = "points" if metric.higher_is_better else "hundredths of a nat"
    what = "" if metric is ACCURACY else f" of {metric.title}"
    return f"{unit}{what} against the base"


def _draw(axes: Axes, curves: Sequence[SweepCurve], kind: str, scale: tuple[float, float]) -> None:
    """Curves of one setting on one kind of nodes."""
    values = sorted({point["value"] for curve in curves for point in curve["points"]})
    positions = {value: position for position, value in enumerate(values)}
    axes.axhline(0, color=theme.INK, linewidth=1.1, linestyle=theme.DASHES)
    colors = theme.series_colors([curve["regularizer"] for curve in curves])
    for curve in curves:
        _draw_curve(axes, curve, kind, positions, colors[curve["regularizer"]])
    for line, curve in enumerate(curves):
        for point in curve["points"]:
            gap = difference_of(point, kind)
            if gap is not None and 100 * gap["mean"] < scale[0]:
                # The number of a point that lies below the panel stands at its foot.
                axes.annotate(
                    f"↓ {_signed(round(100 * gap['mean'], 1), None)}",
                    (positions[point["value"]], 0), xycoords=("data", "axes fraction"),
                    xytext=(0, 4 + 11 * line), textcoords="offset points", ha="center",
                    fontsize=8.5, color=colors[curve["regularizer"]], fontweight="bold",
                )  # fmt: skip
    axes.set_ylim(*scale)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlim(-0.35, len(values) - 0.65)
    theme.quiet(axes, grid="x")
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(_signed))


def _draw_curve(
    axes: Axes, curve: SweepCurve, kind: str, positions: Mapping[float, int], color: str
) -> None:
    shown = [
        (positions[point["value"]], point["value"], gap)
        for point in curve["points"]
        if (gap := difference_of(point, kind)) is not None
    ]
    if not shown:
        return
    marker = _MARKERS.get(curve["regularizer"], "^")
    axes.plot(
        [position for position, _, _ in shown], [100 * gap["mean"] for _, _, gap in shown],
        color=color, marker=marker, markersize=4.5,
    )  # fmt: skip
    bounds = [
        (position, 100 * gap["low"], 100 * gap["high"])
        for position, _, gap in shown
        if gap["low"] is not None and gap["high"] is not None
    ]
    if bounds:
        columns, lows, highs = zip(*bounds, strict=True)
        axes.fill_between(columns, lows, highs, color=color, alpha=0.16, linewidth=0)
    for position, value, gap in shown:
        if value == curve["best"]:
            axes.plot(
                position, 100 * gap["mean"], marker=marker, markersize=9, color=theme.PAPER,
                markeredgecolor=color, markeredgewidth=2, zorder=3,
            )  # fmt: skip


def _scale(curves: Sequence[SweepCurve], kinds: Sequence[str]) -> tuple[float, float]:
    """Limits in points for all panels of a setting: all means, and bands where they fit."""
    gaps = [
        gap for curve in curves for point in curve["points"] for kind in kinds
        if (gap := difference_of(point, kind)) is not None
    ]  # fmt: skip
    means = sorted(100 * gap["mean"] for gap in gaps) or [0.0]
    high = max(means[-1], 0.0)
    middle = min(means[len(means) // 2], 0.0)
    floor = middle - _DEEPEST * max(high - middle, 2 * _LEAST_RANGE)
    low = min([mean for mean in means if mean >= floor] + [0.0])
    room = max(high - low, _LEAST_RANGE)
    bottoms = [100 * gap["low"] for gap in gaps if gap["low"] is not None] + [low]
    tops = [100 * gap["high"] for gap in gaps if gap["high"] is not None] + [high]
    bottom = max(min(bottoms), low - _WIDEST_BAND * room)
    top = min(max(tops), high + _WIDEST_BAND * room)
    margin = 0.08 * max(top - bottom, _LEAST_RANGE)
    return bottom - margin, top + margin


def _legend(figure: Figure, curves: Sequence[SweepCurve]) -> None:
    names = list(dict.fromkeys(curve["regularizer"] for curve in curves))
    colors = theme.series_colors(names)
    handles: list[Any] = [
        Line2D([], [], color=colors[name], marker=_MARKERS.get(name, "^"), markersize=4.5,
               label=name) for name in names
    ]  # fmt: skip
    handles.append(
        Patch(color=theme.MUTED, alpha=0.25, linewidth=0, label="95% interval of the mean")
    )
    handles.append(theme.ring("best on validation nodes", size=8))
    base = Line2D([], [], color=theme.INK, linewidth=1.1, linestyle=theme.DASHES)
    base.set_label("base: no regularizer")
    handles.append(base)
    columns = min(len(handles), max(1, int(figure.get_figwidth() / _LEGEND_ENTRY)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _with_base(kind: str, base: SweepPoint) -> str:
    """The kind of nodes with what the base reaches there: "Test nodes (base 81.1%)"."""
    metric = metric_of(base)
    unit = "%" if metric.higher_is_better else ""
    return f"{KINDS[kind]} (base {amount(mean_of(base, kind), metric)}{unit})"


def _kinds(curves: Sequence[SweepCurve]) -> list[str]:
    """The kinds of nodes that anything was measured on."""
    return [
        kind for kind in KINDS
        if any(difference_of(point, kind) is not None
               for curve in curves for point in curve["points"])
    ] or ["test"]  # fmt: skip


def _by_setting(curves: Sequence[SweepCurve]) -> dict[str, list[SweepCurve]]:
    groups: dict[str, list[SweepCurve]] = {}
    for curve in curves:
        groups.setdefault(curve["setting"], []).append(curve)
    return groups


def _signed(value: float, _: object) -> str:
    return f"{value:+g}".replace("-", "−") if value else "0"
