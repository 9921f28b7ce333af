"""What Correct & Smooth did to a run's predictions, as a section of the run's page.

Reads the content of `smooth/smooth.json`, which `scr smooth` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scr.report._formatting import number_or_none, percent, points
from scr.report.page._html import Markup, escape, facts, join, section, table

_BOTH = "training and validation nodes."


def smoothing_section(record: Mapping[str, Any]) -> Markup:
    """Accuracies before and after, and the settings that were chosen; nothing without numbers."""
    chosen, settings = _mapping(record.get("chosen")), _mapping(record.get("settings"))
    rows = [
        [
            escape(_split_name(split, record, settings)),
            escape(percent(scores.get("before"), 2)),
            escape(percent(scores.get("after"), 2)),
            escape(_change(scores)),
        ]
        for split in ("valid", "test")
        if number_or_none((scores := _mapping(record.get(split))).get("after")) is not None
    ]
    if not rows:
        return Markup("")
    trials = record.get("trials")
    tried = len(trials) if isinstance(trials, list) else 0
    if chosen.get("steps") == "none":
        said = f"Of {tried} settings none did better on validation nodes than the predictions as "
        said += "they were, so nothing was changed."
    else:
        said = "Predictions changed along the edges after training, with the labels of "
        said += "training nodes." if settings.get("labels") == "train" else _BOTH
        said += f" Settings chosen of {tried} on validation nodes." if tried else ""
    made = table(("accuracy %", "before", "after", "points"), rows, numeric=(1, 2, 3))
    shown = {name.replace("_", " "): value for name, value in chosen.items()}
    return section("Corrected and smoothed", join([made, facts(shown)]), intro=said)


def _split_name(split: str, record: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    if split == "test":
        return "test nodes"
    count = number_or_none(_mapping(record.get("valid")).get("nodes"))
    half = ", the half whose labels were held back" if settings.get("labels") != "train" else ""
    return "validation nodes" if count is None else f"{count:,.0f} validation nodes{half}"


def _change(scores: Mapping[str, Any]) -> str:
    before, after = number_or_none(scores.get("before")), number_or_none(scores.get("after"))
    return points(None if before is None or after is None else after - before)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
