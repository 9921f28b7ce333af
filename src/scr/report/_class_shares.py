"""Class shares among unlabeled nodes, as a table and in sentences: from `metrics.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scr.report._formatting import mapping, number_or_none, percent, points

ESTIMATES = {"em": "EM", "bbse": "BBSE"}
COLUMNS = ("training", "predicted", *ESTIMATES)
_VERDICTS = {
    "helps": "would help",
    "harms": "would not help",
    "unclear": "makes no difference that the validation nodes can tell",
}


def share_rows(recorded: object, names: Sequence[object]) -> list[dict[str, Any]]:
    """One row per class, with its name and its shares; none where a record has no shares."""
    shares = mapping(recorded)
    columns = {name: shares.get(name) for name in COLUMNS}
    if not isinstance(columns["training"], list):
        return []
    lists = {name: each if isinstance(each, list) else [] for name, each in columns.items()}
    return [
        {
            "class": str(names[place]) if place < len(names) else str(place),
            **{name: each[place] if place < len(each) else None for name, each in lists.items()},
        }
        for place in range(len(lists["training"]))
    ]


def correction_sentences(recorded: object) -> list[str]:
    """For each estimate, whether a correction by it would help."""
    gains = mapping(mapping(recorded).get("gains"))
    return [
        _sentence(name, mapping(gains[key]), key)
        for key, name in ESTIMATES.items()
        if number_or_none(mapping(gains.get(key)).get("accuracy")) is not None
    ]


def _sentence(name: str, gain: Mapping[str, Any], key: str) -> str:
    verdict = _VERDICTS.get(str(gain.get("verdict")), _VERDICTS["unclear"])
    how = f" (`scr predict RUN --class-shares {key}`)" if gain.get("verdict") == "helps" else ""
    return (
        f"Correction by the shares of {name} {verdict}{how}: {points(gain.get('accuracy'))} ± "
        f"{percent(gain.get('error'), 2)} points of accuracy, "
        f"{points(gain.get('balanced_accuracy'))} of balanced accuracy, on validation nodes that "
        "count as much as their classes are common."
    )
