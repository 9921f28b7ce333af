"""How training went: losses, accuracy, and the confident set that the consistency loss works on.

Reads histories (records of `history.jsonl`), one per seed, grouped by model. Colors tell models
apart when there are several, dashes tell quantities apart. A faint line is one seed, a strong one
the mean over the seeds. With one run, thin upright lines part its stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from scr.report._formatting import number_or_none
from scr.report._records import stage_ends
from scr.report.charts import _svg as draw

Records = Sequence[Mapping[str, Any]]
Histories = Mapping[str, Sequence[Records]]
"""Per model, the history of each seed."""
Points = list[tuple[float, float]]

_LOG_RATIO = 30.0
"""Beyond this ratio a linear axis shows the first epochs and nothing else."""
MOST_ROWS = 60
"""Epochs in the table of a chart; of more, evenly spaced ones."""
_MOST_STAGE_NAMES = 5


@dataclass(frozen=True)
class _Panel:
    title: str
    description: str
    fields: Mapping[str, str]
    percent: bool = False


_PANELS = {
    "accuracy": _Panel(
        "Accuracy", "Validation and test accuracy per epoch",
        {"valid_accuracy": "validation", "test_accuracy": "test"}, percent=True,
    ),
    "metric": _Panel(
        "Metric that counts, on validation nodes",
        "The metric that counts on validation nodes per epoch", {"valid_metric": "validation"},
    ),
    "loss": _Panel(
        "Loss", "Supervised and consistency loss per epoch",
        {"supervised_loss": "supervised", "consistency_loss": "consistency"},
    ),
    "confident_nodes": _Panel(
        "Confident nodes", "Number of nodes in the confident set per epoch",
        {"confident_nodes": "nodes"},
    ),
    "confident_accuracy": _Panel(
        "Accuracy of confident validation nodes",
        "Accuracy of the confident set on validation nodes, and the threshold",
        {"confident_valid_accuracy": "accuracy", "threshold": "threshold"}, percent=True,
    ),
}  # fmt: skip


def training_curves(
    histories: Histories, *, best_epoch: int | None = None
) -> dict[str, draw.Chart]:
    """One chart per aspect: `accuracy`, `metric` where another metric than accuracy counts, `loss`,
    `confident_nodes`, `confident_accuracy`.

    Left out is what was not recorded, and what says nothing: a single epoch, a set that is all
    nodes or none, a threshold of 0.

    Args:
        histories: Per model, one history per seed.
        best_epoch: Epoch whose weights were kept, marked in the charts of accuracy and metric.
    """
    runs = [history for seeds in histories.values() for history in seeds]
    ends = stage_ends(runs[0]) if len(runs) == 1 else {}
    charts = {}
    for name, panel in _PANELS.items():
        drawn = {
            (model, field): seeds
            for model, records in histories.items()
            for field in panel.fields
            if (seeds := [each for record in records if len(each := _series(record, field)) > 1])
            and _says_something(field, seeds, records)
        }
        if "confident_valid_accuracy" in panel.fields and {field for _, field in drawn} == {
            "threshold"
        }:
            continue
        if drawn:
            kept = best_epoch if name in ("accuracy", "metric") else None
            charts[name] = _chart(panel, drawn, ends, kept, several=len(histories) > 1)
    return charts


def _says_something(field: str, seeds: Sequence[Points], records: Sequence[Records]) -> bool:
    values = {value for points in seeds for _, value in points}
    if field in ("threshold", "consistency_loss"):
        return values != {0.0}
    if field == "confident_nodes":
        return len(values - {0.0}) > 1
    if field == "confident_valid_accuracy":  # with a threshold of 0 it is that of all nodes
        return any(_series(each, field) != _series(each, "valid_accuracy") for each in records)
    return True


def _chart(
    panel: _Panel,
    drawn: Mapping[tuple[str, str], Sequence[Points]],
    ends: Mapping[int, int],
    best_epoch: int | None,
    *,
    several: bool,
) -> draw.Chart:
    models = list(dict.fromkeys(model for model, _ in drawn))
    fields = [field for field in panel.fields if any(key[1] == field for key in drawn)]
    colors = _model_colors(models)
    area = _area(
        panel, [point for seeds in drawn.values() for each in seeds for point in each], ends
    )
    parts = draw.axes(area, "epoch", percent_y=panel.percent, whole=True)
    parts += _stages(area, ends)
    keys: dict[str, draw.Key] = {}
    means: dict[str, dict[float, float]] = {}
    for (model, field), seeds in drawn.items():
        position = fields.index(field)
        dashed = position > 0 and (several or field == "threshold")
        color = colors[model] if several else draw.SERIES[position]
        mean = _mean(seeds)
        if len(seeds) > 1:
            parts += [
                draw.path(_placed(area, each), color, dashed=dashed, faint=True) for each in seeds
            ]
        parts.append(draw.path(_placed(area, mean), color, dashed=dashed))
        names = [model] * several + [panel.fields[field]] * (len(fields) > 1 or not several)
        keys[", ".join(names)] = draw.Key(", ".join(names), color, dashed)
        means[", ".join(names)] = dict(mean)
    if best_epoch is not None:
        parts += _kept(area, best_epoch)
    headings, rows, note = _numbers(means, percent=panel.percent)
    return draw.Chart(
        panel.title, draw.drawing(parts, 270, panel.description), headings, rows,
        tuple(keys.values()) if len(keys) > 1 else (), note,
    )  # fmt: skip


def _area(panel: _Panel, points: Points, ends: Mapping[int, int]) -> draw.Area:
    epochs, values = zip(*points, strict=True)
    low, high, log = 0.0, max(values), False
    positive = [value for value in values if value > 0]
    if panel.percent:
        # Early epochs near zero would flatten the part that matters.
        low, high = max(0.0, min(values) - 0.05), 1.0 if high > 0.85 else high + 0.05
    elif panel.title == "Loss" and positive and max(positive) > _LOG_RATIO * min(positive):
        low, high, log = max(min(positive) * 0.7, max(positive) * 1e-5), max(positive) * 1.2, True
    elif "valid_metric" in panel.fields:
        room = 0.1 * (high - min(values)) or 0.05
        low, high = min(values) - room, high + room
    else:
        high = 1.05 * high if high > 0 else 1.0
    # The same epochs in all charts, also where the first stage has nothing to show.
    last = max([*ends.values(), *epochs])
    first = 0.0 if len(ends) > 1 else min(epochs)
    return draw.Area(52, 22, draw.WIDTH - 22, 226, first, last, low, high, log)


def _placed(area: draw.Area, points: Points) -> Points:
    return [(area.x(epoch), area.y(value)) for epoch, value in points]


def _stages(area: draw.Area, ends: Mapping[int, int]) -> list[Markup]:
    """A line after each stage but the last, and the name of each stage where there is room."""
    if len(ends) < 2:
        return []
    parts, start, last = [], 0, max(ends.values())
    for stage, end in sorted(ends.items()):
        if end < last:
            parts.append(draw.line(area.x(end), area.top, area.x(end), area.bottom, "stage"))
        if len(ends) <= _MOST_STAGE_NAMES:
            parts.append(draw.text(area.x((start + end) / 2), area.top - 8, f"stage {stage}"))
        start = end
    return parts


def _kept(area: draw.Area, epoch: int) -> list[Markup]:
    x, is_late = area.x(epoch), epoch > (area.low_x + area.high_x) / 2
    return [
        draw.line(x, area.top, x, area.bottom, "diagonal"),
        draw.text(
            x - 5 if is_late else x + 5, area.bottom - 8, f"kept: epoch {epoch}",
            "end" if is_late else "start", "strong",
        ),
    ]  # fmt: skip


def _numbers(
    means: Mapping[str, Mapping[float, float]], *, percent: bool
) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """A row per epoch; of many epochs, evenly spaced ones and the last."""
    epochs = sorted({epoch for each in means.values() for epoch in each})
    step = -(-len(epochs) // MOST_ROWS)
    chosen = [
        epoch for place, epoch in enumerate(epochs) if place % step == 0 or epoch == epochs[-1]
    ]
    unit = " %" if percent else ""
    rows = [
        (f"{epoch:,.0f}", *(_value(each.get(epoch), percent=percent) for each in means.values()))
        for epoch in chosen
    ]
    note = "" if step == 1 else f"{len(chosen)} of {len(epochs):,} recorded epochs."
    return ("epoch", *(f"{name}{unit}" for name in means)), rows, note


def _value(value: float | None, *, percent: bool) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if percent else f"{value:,.4g}"


def _mean(seeds: Sequence[Points]) -> Points:
    """Over the epochs that every seed reached: beyond, it would jump as seeds stop."""
    if len(seeds) == 1:
        return seeds[0]
    by_epoch = [dict(points) for points in seeds]
    shared = sorted(set.intersection(*(set(each) for each in by_epoch)))
    return [(epoch, sum(each[epoch] for each in by_epoch) / len(by_epoch)) for epoch in shared]


def _model_colors(models: Sequence[str]) -> dict[str, str]:
    """A color per model; regularizers always keep theirs."""
    # SCR's two colors are kept for it even where it is absent: pages stand beside each other.
    taken = {
        "blue",
        "orange",
        *(draw.REGULARIZERS[each] for each in models if each in draw.REGULARIZERS),
    }
    free = iter([color for color in draw.SERIES if color not in taken] * 16)
    return {each: draw.REGULARIZERS.get(each) or next(free, "muted") for each in models}


def _series(records: Records, field: str) -> Points:
    """Epochs and values where both are numbers."""
    return [
        (epoch, value)
        for record in records
        if (epoch := number_or_none(record.get("epoch"))) is not None
        and (value := number_or_none(record.get(field))) is not None
    ]
