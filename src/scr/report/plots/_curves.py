"""How training went: losses, accuracy, and the confident set that the consistency loss works on.

Reads histories (records of `history.jsonl`), one per seed, grouped by model. Colors tell models
apart when there are several, line styles tell quantities apart. A thin line is one seed, a thick
one the mean over the seeds. With one run, thin upright lines part its stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scr.report._formatting import number_or_none
from scr.report._records import stage_ends
from scr.report.plots import _style as theme

Records = Sequence[Mapping[str, Any]]
Histories = Mapping[str, Sequence[Records]]
"""Per model, the history of each seed."""

_STYLES = ("-", (0, (4, 1.6)), (0, (1, 1.4)))
# Beyond this ratio a linear axis shows the first epochs and nothing else.
_LOG_RATIO = 30.0
_LEGEND_COLUMNS = 5
_MOST_STAGE_NAMES = 5


@dataclass(frozen=True)
class _Panel:
    title: str
    fields: Mapping[str, str]
    percent: bool = False


_PANELS = {
    "loss": _Panel("Loss", {"supervised_loss": "supervised", "consistency_loss": "consistency"}),
    "accuracy": _Panel(
        "Accuracy", {"valid_accuracy": "validation", "test_accuracy": "test"}, percent=True
    ),
    "metric": _Panel("Metric that counts, on validation nodes", {"valid_metric": "validation"}),
    "confident_nodes": _Panel("Confident nodes", {"confident_nodes": "nodes"}),
    "confident_accuracy": _Panel(
        "Accuracy of confident validation nodes",
        {"confident_valid_accuracy": "accuracy", "threshold": "threshold"},
        percent=True,
    ),
}


@theme.themed
def training_curves(
    histories: Histories, *, best_epoch: int | None = None, file_format: theme.Format = "svg"
) -> dict[str, bytes]:
    """One picture per aspect: `loss`, `accuracy`, `metric` where another metric than accuracy
    counts, `confident_nodes`, `confident_accuracy`.

    Pictures for which the histories hold no number are left out.

    Args:
        histories: Per model, one history per seed.
        best_epoch: Epoch whose weights were kept, marked in the panels of accuracy and metric.
    """
    images = {}
    runs = [history for seeds in histories.values() for history in seeds]
    ends = stage_ends(runs[0]) if len(runs) == 1 else {}
    for name, spec in _PANELS.items():
        figure, axes = theme.panel()
        if _draw(axes, spec, histories):
            _mark_stages(axes, ends)
            if best_epoch is not None and name in ("accuracy", "metric"):
                axes.axvline(best_epoch, color=theme.INK, linewidth=0.8, linestyle=(0, (2, 2)))
                is_late = best_epoch > sum(axes.get_xlim()) / 2
                axes.annotate(
                    f"kept: epoch {best_epoch}", (best_epoch, 0.03),
                    xycoords=("data", "axes fraction"), xytext=(-4 if is_late else 4, 0),
                    textcoords="offset points", ha="right" if is_late else "left", fontsize=8.5,
                )  # fmt: skip
            images[name] = theme.to_bytes(figure, file_format)
    return images


def _mark_stages(axes: Axes, ends: Mapping[int, int]) -> None:
    """A line after each stage but the last, and the name of each stage where there is room."""
    if len(ends) < 2:
        return
    start, last = 0, max(ends.values())
    # The same epochs in all panels, also where the first stage has nothing to show.
    axes.set_xlim(-0.03 * last, 1.03 * last)
    axes.set_title(axes.get_title(loc="left"), pad=22)
    for stage, end in sorted(ends.items()):
        if end < last:
            axes.axvline(end, color=theme.MUTED, linewidth=0.8)
        if len(ends) <= _MOST_STAGE_NAMES:
            axes.text(
                (start + end) / 2, 1.02, f"stage {stage}", transform=axes.get_xaxis_transform(),
                ha="center", va="bottom", fontsize=8.5, color=theme.MUTED,
            )  # fmt: skip
        start = end


def _draw(axes: Axes, spec: _Panel, histories: Histories) -> bool:
    """Draw all fields of a panel; False if there was nothing to draw."""
    drawn = {
        (model, field): runs
        for model, records in histories.items()
        for field in spec.fields
        if (runs := [run for record in records if len((run := _series(record, field))[0])])
    }
    if not drawn:
        return False
    fields = [field for field in spec.fields if any(key[1] == field for key in drawn)]
    models = list(dict.fromkeys(key[0] for key in drawn))
    model_colors = theme.series_colors(models)
    several = len(histories) > 1
    for (model, field), runs in drawn.items():
        color, style = _look(fields, field, model_colors[model] if several else None)
        _draw_runs(axes, runs, color=color, style=style)
    _finish(axes, spec, [value for runs in drawn.values() for _, ys in runs for value in ys])
    _legend(axes, spec, fields, model_colors if several else {})
    return True


def _look(fields: Sequence[str], field: str, model_color: str | None) -> tuple[str, Any]:
    """Color and line style; with one model, color already tells the quantities apart."""
    position = fields.index(field)
    style = _STYLES[position] if model_color or field == "threshold" else "-"
    return model_color or theme.SERIES[position], style


def _draw_runs(
    axes: Axes, runs: Sequence[tuple[list[float], list[float]]], *, color: str, style: Any
) -> None:
    if len(runs) == 1:
        axes.plot(*runs[0], color=color, linestyle=style)
        return
    for epochs, values in runs:
        axes.plot(epochs, values, color=color, linestyle=style, linewidth=0.8, alpha=0.3)
    # The mean only covers epochs that every seed reached: beyond, it would jump as seeds stop.
    by_epoch = [dict(zip(*run, strict=True)) for run in runs]
    shared = sorted(set.intersection(*(set(run) for run in by_epoch)))
    means = [float(np.mean([run[epoch] for run in by_epoch])) for epoch in shared]
    axes.plot(shared, means, color=color, linestyle=style)


def _finish(axes: Axes, spec: _Panel, values: list[float]) -> None:
    axes.set(title=spec.title, xlabel="epoch")
    theme.quiet(axes, grid="x")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    positive = [value for value in values if value > 0]
    if spec.percent:
        theme.in_percent(axes.yaxis)
        # Early epochs near zero would flatten the part that matters only when there are few.
        axes.set_ylim(
            max(0.0, min(values) - 0.05), 1.0 if max(values) > 0.85 else max(values) + 0.05
        )
    elif spec.title == "Loss" and positive and max(positive) > _LOG_RATIO * min(positive):
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(min(positive) * 0.7, max(positive) * 1e-5))
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _legend(
    axes: Axes, spec: _Panel, fields: Sequence[str], model_colors: Mapping[str, str]
) -> None:
    """Models in the first row, quantities in the second; either is left out if it says nothing."""
    models = [Line2D([], [], color=color, label=name) for name, color in model_colors.items()]
    quantities = []
    for field in fields if len(fields) > 1 else ():
        color, style = _look(fields, field, theme.INK if model_colors else None)
        quantities.append(Line2D([], [], color=color, linestyle=style, label=spec.fields[field]))
    handles, columns = models or quantities, max(len(models), len(quantities))
    if models and quantities:
        # A legend fills its columns first, so blanks keep the two kinds in rows of their own.
        blank = Line2D([], [], linestyle="", label=" ")
        pairs = zip_longest(models, quantities, fillvalue=blank)
        handles = [handle for pair in pairs for handle in pair]
    if handles and axes.figure is not None:
        columns = min(columns, _LEGEND_COLUMNS)
        axes.figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _series(records: Records, field: str) -> tuple[list[float], list[float]]:
    """Epochs and values where both are numbers."""
    kept = [
        (epoch, value)
        for record in records
        if (epoch := number_or_none(record.get("epoch"))) is not None
        and (value := number_or_none(record.get(field))) is not None
    ]
    return [epoch for epoch, _ in kept], [value for _, value in kept]
