"""A comparison at a glance: every run as a dot, and the paired differences with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scr.metrics import ACCURACY, Metric
from scr.report._comparison import ComparisonRow, metric_of_all
from scr.report._formatting import interval, number_or_none, points
from scr.report.plots import _style as theme

_ROW_HEIGHT = 0.3


@theme.themed
def accuracy_dots(
    runs: Sequence[Mapping[str, Any]],
    *,
    measure: str = "test_accuracy",
    metric: Metric = ACCURACY,
    file_format: theme.Format = "svg",
) -> bytes:
    """Each run as a dot and each mean as a line, grouped by encoder, colored by regularizer."""
    groups: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        value = number_or_none(run.get(measure))
        if value is not None:
            scaled = 100 * value if metric.higher_is_better else value
            groups.setdefault((run["encoder"], run["regularizer"]), []).append(scaled)
    names = list(dict.fromkeys(regularizer for _, regularizer in groups))
    colors = theme.series_colors(names)
    positions, centers = _positions(list(groups))
    figure, axes = theme.panel(height=1.5 + _ROW_HEIGHT * (len(positions) + len(centers) / 2))
    for key, values in groups.items():
        position, color = positions[key], colors[key[1]]
        axes.plot(
            values, np.full(len(values), position), "o",
            color=color, alpha=0.5, markersize=5.5, markeredgewidth=0,
        )  # fmt: skip
        axes.plot(
            [np.mean(values)] * 2, [position - 0.38, position + 0.38], color=color, linewidth=2.6
        )
    axes.set_yticks(list(centers.values()), _names(centers), color=theme.INK)
    kind = "Validation" if measure.startswith("valid") else "Test"
    unit = "percent" if metric.higher_is_better else "nats"
    _finish(axes, f"{kind} {metric.title} of every run", f"{unit}; line: mean over the seeds")
    handles = [
        Line2D([], [], color=colors[name], marker="o", linestyle="", label=name) for name in names
    ]
    axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4,
        handlelength=2.0, handletextpad=0.1, columnspacing=1.0,
    )  # fmt: skip
    axes.set_title(axes.get_title(loc="left"), pad=24)
    return theme.to_bytes(figure, file_format)


@theme.themed
def difference_dots(rows: Sequence[ComparisonRow], *, file_format: theme.Format = "svg") -> bytes:
    """Paired difference to the base per encoder and regularizer, with its 95% interval."""
    shown = [row for row in rows if row["difference"] is not None]
    metric = metric_of_all(shown)
    scale, unit = (100, "points") if metric.higher_is_better else (1, "nats")
    keys = [(row["encoder"], row["regularizer"]) for row in shown]
    colors = theme.series_colors([regularizer for _, regularizer in keys])
    positions, centers = _positions(keys)
    figure, axes = theme.panel(height=1.5 + _ROW_HEIGHT * (len(keys) + len(centers) / 2))
    for key, row in zip(keys, shown, strict=True):
        color, position = colors[key[1]], positions[key]
        low, high = row["difference_low"], row["difference_high"]
        if low is not None and high is not None:
            axes.plot([scale * low, scale * high], [position] * 2, color=color, linewidth=2.4)
        axes.plot(scale * (row["difference"] or 0.0), position, "o", color=color, markersize=7)
        between = interval(low, high, metric) or "one seed"
        theme.annotate_right(axes, f"{points(row['difference'], metric)} ({between})", position)
    axes.axvline(0, color=theme.INK, linewidth=0.9)
    axes.set_yticks(
        [positions[key] for key in keys], _names(f"{a} {b}" for a, b in keys), color=theme.INK
    )
    label = f"{unit} of {metric.title}, paired by seed, 95% interval"
    _finish(axes, "Difference to the base", label)
    low_limit, high_limit = axes.get_xlim()
    axes.set_xlim(min(low_limit, -0.001 * scale), max(high_limit, 0.001 * scale))
    return theme.to_bytes(figure, file_format)


def _positions(
    keys: Sequence[tuple[str, str]],
) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """Heights of the rows from the top down, with room between encoders, and their centers."""
    positions: dict[tuple[str, str], float] = {}
    centers: dict[str, float] = {}
    height = 0.0
    for encoder in dict.fromkeys(encoder for encoder, _ in keys):
        own = [key for key in keys if key[0] == encoder]
        for key in own:
            positions[key] = -height
            height += 1
        centers[encoder] = float(np.mean([positions[key] for key in own]))
        height += 0.5
    return positions, centers


def _names(names: Iterable[str]) -> list[str]:
    return [theme.shown_text(name, theme.LONGEST_NAME) for name in names]


def _finish(axes: Axes, title: str, label: str) -> None:
    axes.set(title=title, xlabel=label)
    theme.quiet(axes, grid="y")
    axes.margins(y=0.0)
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.6 if low > high - 1 else low - 0.3, high + 0.3)
