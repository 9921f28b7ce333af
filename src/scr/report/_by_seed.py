"""Runs by seed: the mean of a measure, and its difference to other runs with the same seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scr.report._formatting import number_or_none
from scr.report._intervals import PairedDifference, paired_difference

BySeed = Mapping[int, Mapping[str, Any]]
"""Records of runs, one for each seed."""


def mean_and_std(runs: BySeed, measure: str) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation (n - 1) of what the runs have of a measure."""
    numbers = [number_or_none(run.get(measure)) for run in runs.values()]
    values = [value for value in numbers if value is not None]
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def pairs_by_seed(runs: BySeed, others: BySeed, measure: str) -> list[tuple[float, float]]:
    """A measure of runs and others for the seeds that both have it for."""
    return [
        (ours, theirs)
        for seed, run in runs.items()
        if seed in others
        and (ours := number_or_none(run.get(measure))) is not None
        and (theirs := number_or_none(others[seed].get(measure))) is not None
    ]


def difference_by_seed(runs: BySeed, others: BySeed, measure: str) -> PairedDifference | None:
    """Mean of runs minus others over the seeds that both have; none without a common seed."""
    pairs = pairs_by_seed(runs, others, measure)
    return paired_difference(*zip(*pairs, strict=True)) if pairs else None
