"""Runs by seed: means of a measure, and paired differences with t-intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from scr.report._formatting import number_or_none

BySeed = Mapping[int, Mapping[str, Any]]
"""Records of runs, one for each seed."""

BETTER, WORSE, UNCLEAR = "better", "worse", "no clear difference"
LEVEL = 0.95
"""Coverage of all intervals in a report."""
_NO_WIDTH = 1e-9
"""Accuracies that differ at all differ by more, whatever the number of nodes."""


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference with its interval, which is None when it cannot be estimated."""

    mean: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def verdict(self) -> str:
        """What may be said about it in one phrase."""
        if self.low is None or self.high is None:
            return "one seed: no interval"
        if self.pairs == 2 and self.high - self.low < _NO_WIDTH:
            return UNCLEAR  # two differences that happen to be equal tell nothing of their spread
        if self.low > 0:
            return BETTER
        return WORSE if self.high < 0 else UNCLEAR


class Means(TypedDict):
    """Accuracies in 0..1 over the seeds, with sample deviations; None where not measured."""

    n: int
    seeds: list[int]
    valid_mean: float | None
    valid_std: float | None
    test_mean: float | None
    test_std: float | None


def means_of(runs: BySeed) -> Means:
    """How many runs there are, and how good they are."""
    (valid_mean, valid_std), (test_mean, test_std) = (
        mean_and_std(runs, measure) for measure in ("valid_accuracy", "test_accuracy")
    )
    return Means(
        n=len(runs), seeds=list(runs), valid_mean=valid_mean, valid_std=valid_std,
        test_mean=test_mean, test_std=test_std,
    )  # fmt: skip


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


def paired_difference(values: Sequence[float], base_values: Sequence[float]) -> PairedDifference:
    """Mean of values - base_values with a t-interval; entry i of both must share a seed."""
    return t_interval(np.subtract(values, base_values, dtype=np.float64))


def t_interval(differences: NDArray[np.float64], level: float = LEVEL) -> PairedDifference:
    """Interval of the mean of one sample; none for a single value."""
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return PairedDifference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / count**0.5
    half = _t_quantile(level, count - 1) * error
    return PairedDifference(mean, mean - half, mean + half, count)


def stratified_interval(
    samples: Sequence[NDArray[np.float64]], level: float = LEVEL
) -> PairedDifference:
    """Interval of the mean of the samples' means, their spread estimated within each sample."""
    mean = float(np.mean([sample.mean() for sample in samples]))
    count = sum(len(sample) for sample in samples)
    if any(len(sample) < 2 for sample in samples):
        return PairedDifference(mean, None, None, count)
    variances = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    if not variances.any():
        return PairedDifference(mean, mean, mean, count)
    shares = variances**2 / np.array([len(sample) - 1 for sample in samples])
    freedom = float(variances.sum() ** 2 / shares.sum())
    half = _t_quantile(level, freedom) * float(np.sqrt(variances.sum())) / len(samples)
    return PairedDifference(mean, mean - half, mean + half, count)


def _t_quantile(level: float, freedom: float) -> float:
    # The same as scipy.stats.t.ppf, without its slow import.
    return float(stdtrit(freedom, 0.5 + level / 2))
