"""Stages of a run, as its history tells them: where each one ended, and a sentence about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from scr.report._formatting import mapping, number_or_none

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
