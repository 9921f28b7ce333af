"""Which trials are averaged: the best few by held-out labels, as long as they help.

Few labels are easily overfitted: weights that are fitted to them gain nothing on other nodes
(benchmarks/portfolio.py ensembles). So weights are equal, members join in the order of their
scores, and one that is clearly worse than the best, or makes the average worse, stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.metrics import ACCURACY, Metric

MOST_MEMBERS = 4
CLEARLY = 1.5
"""Standard errors of the difference by which a member is clearly worse."""
JOINING = 0.5
"""Standard errors of a score by which the average may become worse when a member joins: less is
noise."""


def chosen_members(
    labels: NDArray[np.integer[Any]],
    predictions: Sequence[NDArray[np.floating[Any]]],
    metric: Metric = ACCURACY,
) -> list[int]:
    """Positions of the predictions to average.

    Args:
        labels: Of held-out nodes.
        predictions: Probabilities of these nodes by each member, shape (nodes, classes); the best
            member first, the others in the order of their scores.
        metric: What counts.
    """
    best, chosen = predictions[0].astype(np.float64), [0]
    total = best
    for position, soft in enumerate(predictions[1:], start=1):
        if len(chosen) == MOST_MEMBERS:
            break
        if _loss(metric, labels, best, soft) > CLEARLY * _error(metric, labels, best, soft):
            continue
        joined = total + soft
        averages = total / len(chosen), joined / (len(chosen) + 1)
        if _loss(metric, labels, *averages) > JOINING * _error(metric, labels, best, None):
            continue
        chosen.append(position)
        total = joined
    return chosen


def score(metric: Metric, labels: NDArray[np.integer[Any]], soft: NDArray[Any]) -> float:
    """How good probabilities are; more is better, whatever the metric."""
    measured = metric.measure(labels, soft)
    return -np.inf if measured is None else metric.sign * measured


def _loss(metric: Metric, labels: NDArray[Any], one: NDArray[Any], other: NDArray[Any]) -> float:
    """By how much the other is worse."""
    return score(metric, labels, one) - score(metric, labels, other)


def _error(
    metric: Metric, labels: NDArray[Any], one: NDArray[Any], other: NDArray[Any] | None
) -> float:
    """Standard error of a difference on the same nodes, or of a score where there is no other.

    Of log-loss that of its mean; of the others that of the share of right predictions, which a mean
    over classes or pairs follows about.
    """
    values = _each(metric, labels, one)
    if other is not None:
        values = values - _each(metric, labels, other)
    return max(float(values.std() / np.sqrt(len(values))), 1e-12)


def _each(metric: Metric, labels: NDArray[Any], soft: NDArray[Any]) -> NDArray[np.float64]:
    """What each node adds to the score."""
    if metric.name == "log-loss":
        likely = soft[np.arange(len(labels)), labels] / soft.sum(axis=1)
        return np.asarray(np.log(np.clip(likely, 1e-6, 1)), dtype=np.float64)
    return np.asarray(soft.argmax(axis=1) == labels, dtype=np.float64)
