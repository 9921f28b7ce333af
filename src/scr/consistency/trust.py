"""How far pseudo labels can be trusted, judged by training labels alone.

Consistency pulls a model towards its own predictions. Where those are mostly wrong (a graph whose
neighbors differ, features that say little) that does harm. How often they will be right can be
estimated before training: hold out a part of the training nodes, fit a linear classifier on the
propagated features of the others, and see how much better than chance it does on the held-out part.
No validation or test label is read, so nothing leaks into training.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
MOST_ROWS = 20_000
"""Training nodes used at most: the estimate is within a percent long before that."""
RIDGE = 0.1
"""Penalty relative to the mean squared feature; the estimate hardly depends on it."""
NO_TRUST, FULL_TRUST = 0.15, 0.35
"""Agreement beyond chance below which the weight is 0 and from which it is untouched."""


def agreement_beyond_chance(
    features: NDArray[np.floating], labels: NDArray[np.integer], *, seed: int = 0
) -> float:
    """Cross-validated accuracy of a ridge classifier beyond chance.

        kappa = (accuracy - chance) / (1 - chance)

    Args:
        features: Propagated features of the training nodes, shape (nodes, features).
        labels: Their classes, shape (nodes,).
        seed: Chooses the folds.

    Returns:
        At most 1; around 0 for features that tell nothing; 1 where there is nothing to judge by
        (fewer than two training nodes per fold or a single class).
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))[:MOST_ROWS]
    rows, classes = np.asarray(features[order], dtype=np.float64), labels[order]
    names, codes = np.unique(classes, return_inverse=True)
    if len(names) < 2 or len(order) < 2 * FOLDS:
        return 1.0
    right = 0
    for fold in range(FOLDS):
        held_out = np.arange(len(order)) % FOLDS == fold
        scores = _ridge_scores(rows[~held_out], codes[~held_out], rows[held_out], len(names))
        right += int((scores.argmax(axis=1) == codes[held_out]).sum())
    accuracy = right / len(order)
    chance = float((np.bincount(codes) / len(codes)).max())
    return (accuracy - chance) / (1 - chance)


def _ridge_scores(
    rows: NDArray[np.float64],
    codes: NDArray[np.integer],
    queries: NDArray[np.float64],
    classes: int,
) -> NDArray[np.float64]:
    """Least squares on one-hot targets, in whichever of the two dual forms is smaller."""
    mean = rows.mean(axis=0)
    rows, queries = rows - mean, queries - mean
    targets = np.eye(classes)[codes]
    offset = targets.mean(axis=0)
    penalty = RIDGE * max(float(np.square(rows).sum(axis=1).mean()), 1e-12)
    if len(rows) <= rows.shape[1]:
        gram = rows @ rows.T
        gram[np.diag_indices_from(gram)] += penalty
        weights = rows.T @ np.linalg.solve(gram, targets - offset)
    else:
        gram = rows.T @ rows
        gram[np.diag_indices_from(gram)] += penalty
        weights = np.linalg.solve(gram, rows.T @ (targets - offset))
    scores: NDArray[np.float64] = queries @ weights + offset
    return scores


def trusted_share(agreement: float) -> float:
    """The factor for the consistency weight: 0 without trust, 1 with full trust, linear between.

    >>> [trusted_share(agreement) for agreement in (0.1, 0.25, 0.8)]
    [0.0, 0.5, 1.0]
    """
    share = (agreement - NO_TRUST) / (FULL_TRUST - NO_TRUST)
    return round(min(max(share, 0.0), 1.0), 6)
