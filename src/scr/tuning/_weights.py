"""Which trials are averaged: the best few by held-out labels, as long as they help.

Few labels mislead whoever looks too closely: weights that are fitted to them gain nothing on other
nodes (benchmarks/portfolio.py ensembles). So weights are equal, members join in the order of their
scores, and one that is clearly worse than the best, or makes the average worse, stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_MEMBERS = 4
CLEARLY = 1.5
"""Standard errors of the difference by which a member is clearly worse."""


def chosen_members(
    labels: NDArray[np.integer[Any]], predictions: Sequence[NDArray[np.float32]]
) -> list[int]:
    """Positions of the predictions to average.

    Args:
        labels: Of held-out nodes.
        predictions: Probabilities of these nodes by each member, shape (nodes, classes); the best
            member first, the others in the order of their scores.
    """
    chosen, total = [0], predictions[0].astype(np.float64)
    best = _right(labels, predictions[0])
    for position, soft in enumerate(predictions[1:], start=1):
        if len(chosen) == MOST_MEMBERS:
            break
        if _clearly_below(_right(labels, soft), best):
            continue
        joined = total + soft
        if _right(labels, joined).mean() < _right(labels, total).mean() - _noise(best):
            continue
        chosen.append(position)
        total = joined
    return chosen


def _right(
    labels: NDArray[np.integer[Any]], soft: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """1 where the likeliest class is the label."""
    return np.asarray(soft.argmax(axis=1) == labels, dtype=np.float64)


def _clearly_below(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether one is right less often than the other on the same nodes, beyond chance."""
    difference = one - other
    error = float(difference.std() / np.sqrt(len(difference)))
    return bool(difference.mean() < -CLEARLY * max(error, 1e-12))


def _noise(right: NDArray[np.float64]) -> float:
    """Half a standard error of a share."""
    return 0.5 * float(right.std() / np.sqrt(len(right)))
