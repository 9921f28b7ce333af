"""Prediction sets that hold a node's class as often as they promise: split conformal prediction.

Every validation node has a score, high where the model finds its label unlikely. A class belongs to
the set of another node if its score there is among the lowest ones, as many as the coverage asks
for. If validation nodes and the others are drawn alike, the class of a node is in its set with at
least that probability, whatever the model.

Papers: Vovk et al. 2005, "Algorithmic Learning in a Random World"; Sadinle et al. 2019, "Least
Ambiguous Set-Valued Classifiers With Bounded Error Levels", arXiv:1609.00451 (the score).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import ConfigError, GraphError

_ROUNDING = 1e-9
"""10 * 0.9 must not count as a little more than 9."""


def set_scores(probabilities: ArrayLike) -> NDArray[np.float64]:
    """How ill each class fits: 1 - p. Shape (nodes, classes), as the probabilities."""
    return np.clip(1 - np.asarray(probabilities, dtype=np.float64), 0, 1)


def check_coverage(coverage: float) -> float:
    """Refuse a coverage that is not between 0 and 1."""
    if not isinstance(coverage, int | float | np.floating) or not 0 < coverage < 1:
        raise ConfigError("coverage", coverage, "a number between 0 and 1, such as 0.9")
    return float(coverage)


def score_limit(scores: ArrayLike, coverage: float, whose: str = "") -> float:
    r"""The highest score of a class that belongs to a set.

    Equation: of n scores in ascending order, number ceil((n + 1) * coverage)

    Args:
        scores: Those of the labels of validation nodes. Shape (nodes,).
        coverage: Share of the nodes whose class is to be in their set, between 0 and 1.
        whose: For the message, such as ` of the class red`.
    """
    check_coverage(coverage)
    ascending = np.sort(np.asarray(scores, dtype=np.float64))
    position = math.ceil((len(ascending) + 1) * coverage - _ROUNDING)
    if position > len(ascending):
        needed = math.ceil(coverage / (1 - coverage) - _ROUNDING)
        raise GraphError(
            f"There are {len(ascending):,} labeled validation nodes{whose}; expected at least "
            f"{needed:,} for sets with a coverage of {coverage:g}",
            hint="ask for less coverage, or train with more validation nodes",
        )
    return float(ascending[position - 1])


def score_limits(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    coverage: float,
    class_names: Sequence[str],
    *,
    per_class: bool = False,
) -> NDArray[np.float64]:
    """The limit of every class: the same for all, or from its own validation nodes (Mondrian)."""
    if not per_class:
        return np.full(len(class_names), score_limit(scores, coverage))
    return np.array(
        [
            score_limit(scores[labels == number], coverage, f" of the class `{name}`")
            for number, name in enumerate(class_names)
        ]
    )


def prediction_sets(probabilities: ArrayLike, limits: ArrayLike) -> NDArray[np.bool_]:
    """Which classes belong to the set of each node. Shape (nodes, classes).

    A set is empty where no class fits as well as the coverage asks for.

    Args:
        probabilities: One distribution per row. Shape (nodes, classes).
        limits: The highest score that belongs to a set, for all classes or for each.
    """
    inside: NDArray[np.bool_] = set_scores(probabilities) <= np.asarray(limits)
    return inside
