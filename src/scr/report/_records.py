"""Read the records and the history of a run directory for its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from scr.errors import RunError
from scr.report._formatting import mapping, number_or_none


def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON file that holds an object, such as `run.json` or `compare.json`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"`{path}` is not JSON ({error}); the run may be damaged") from error
    if not isinstance(content, dict):
        raise RunError(f"`{path}` holds a {type(content).__name__}; expected a JSON object")
    return content


def read_history(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file, if it is there; a line cut short by a crash is left out."""
    if not path.is_file():
        return []
    history = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            history.append(record)
    return history


_METHODS = {"rlu": "reliable label utilization (RLU)", "sle": "self-label-enhanced training (SLE)"}


def stage_ends(history: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The last epoch that each stage recorded; histories before stages existed have one stage.

    >>> stage_ends([{"epoch": 2, "stage": 1}, {"epoch": 4, "stage": 1}, {"epoch": 6, "stage": 2}])
    {1: 4, 2: 6}
    """
    ends: dict[int, int] = {}
    for record in history:
        epoch, stage = number_or_none(record.get("epoch")), number_or_none(record.get("stage", 1))
        if epoch is not None and stage is not None:
            ends[int(stage)] = max(int(epoch), ends.get(int(stage), 0))
    return ends


def stages_sentence(recipe: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """How many stages, by which method, with how many epochs; empty for a run in one stage."""
    ends = stage_ends(history)
    if len(ends) < 2:
        return ""
    method = mapping(recipe.get("stages")).get("method")
    lasts = [0, *(ends[stage] for stage in sorted(ends))]
    epochs = [f"{last - before:,}" for before, last in pairwise(lasts)]
    by = f" of {_METHODS.get(str(method), str(method))}" if method else ""
    return (
        f"{len(ends)} stages{by}, with {', '.join(epochs[:-1])} and {epochs[-1]} epochs. Each one "
        "starts afresh with what the one before predicted; the weights are those of the last."
    )
