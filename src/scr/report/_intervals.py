"""Mean differences with t-intervals: over one set of pairs, or over several sets of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

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


def paired_difference(
    values: Sequence[float], base_values: Sequence[float], *, level: float = LEVEL
) -> PairedDifference:
    """Mean of values - base_values with a t-interval; entry i of both must share a seed."""
    differences = np.subtract(values, base_values, dtype=np.float64)
    return t_interval(differences, level)


def t_interval(differences: NDArray[np.float64], level: float) -> PairedDifference:
    """Interval of the mean of one sample; none for a single value."""
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return PairedDifference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / count**0.5
    half = _t_quantile(level, count - 1) * error
    return PairedDifference(mean, mean - half, mean + half, count)


def stratified_interval(samples: Sequence[NDArray[np.float64]], level: float) -> PairedDifference:
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
