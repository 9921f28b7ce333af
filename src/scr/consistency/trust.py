"""How far pseudo labels can be trusted, judged by training labels alone.

Consistency pulls a model towards its own predictions. Where those are mostly wrong (a graph whose
neighbors differ, features that say little) that does harm. How often they will be right can be
estimated before training: hold out a part of the training nodes, fit a logistic regression on the
propagated features of the others, and see how much better than chance it does on the held-out part.
No validation or test label is read, so nothing leaks into training.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
MOST_ROWS = 2_000
"""Training nodes used at most: the estimate is within a percent or two by then."""
INVERSE_PENALTY = 100.0
"""C of the logistic regression on rows of mean length 1; the estimate hardly depends on it."""
NO_TRUST, FULL_TRUST = 0.15, 0.25
"""Agreement beyond chance below which the weight is 0 and from which it is untouched."""


def agreement_beyond_chance(
    features: NDArray[np.floating], labels: NDArray[np.integer], *, seed: int = 0
) -> float:
    """Cross-validated accuracy of a logistic regression beyond chance.

        kappa = (accuracy - chance) / (1 - chance)

    Args:
        features: Propagated features of the training nodes, shape (nodes, features).
        labels: Their classes, shape (nodes,).
        seed: Chooses the nodes and the folds.

    Returns:
        At most 1; around 0 for features that tell nothing; 1 where there is nothing to judge by
        (fewer than two nodes of some class for every fold, or a single class).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    order = np.random.default_rng(seed).permutation(len(labels))[:MOST_ROWS]
    _, codes, counts = np.unique(labels[order], return_inverse=True, return_counts=True)
    common = counts[codes] >= FOLDS  # a rarer class cannot be in every fold
    order, codes = order[common], codes[common]
    if len(np.unique(codes)) < 2:
        return 1.0
    rows = np.asarray(features[order], dtype=np.float64)
    rows -= rows.mean(axis=0)
    rows /= max(float(np.sqrt(np.square(rows).sum(axis=1).mean())), 1e-12)
    if rows.shape[1] > rows.shape[0]:
        # The penalty does not change under rotation, so the span of the rows is all that counts.
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
        rows = left * values
    # A loose tolerance would stop before the first step where classes are many and gradients small;
    # the limit of steps bounds the time instead, long after the accuracy has settled.
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=40, tol=1e-5)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        accuracy = float(np.average(cross_val_score(model, rows, codes, cv=folds)))
    chance = float(np.bincount(codes).max() / len(codes))
    return (accuracy - chance) / (1 - chance)


def trusted_share(agreement: float) -> float:
    """The factor for the consistency weight: 0 without trust, 1 with full trust, linear between.

    >>> [trusted_share(agreement) for agreement in (0.1, 0.2, 0.8)]
    [0.0, 0.5, 1.0]
    """
    share = (agreement - NO_TRUST) / (FULL_TRUST - NO_TRUST)
    return round(min(max(share, 0.0), 1.0), 6)
