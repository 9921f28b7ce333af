"""How far pseudo labels can be trusted, estimated without validation and test labels.

Consistency pulls a model towards its own predictions. Where those are mostly wrong (a graph whose
neighbors differ, features that say little) that does harm. How often they will be right can be
estimated before training: hold out a part of the training nodes, fit a logistic regression on the
propagated features of the others, and see how much better than chance it does on the held-out part.

Of a few held-out nodes that is a rough estimate, and with one label per class nothing can be held
out. So it is averaged with what is usual: a good deal where neighbors agree when each is classified
by its own features, nothing where they do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.consistency._logistic import cohens_kappa, predicted_classes, stratified_folds

FOLDS = 5
MOST_ROWS = 2_000
"""Training nodes used at most: the estimate is within a percent or two by then."""
MOST_EDGES = 10_000
"""Edges whose ends are asked whether they agree: within a percent or two, too."""
FEW_ROWS_REPEATS = 5
"""With fewer labels per class than folds, the folds are drawn so often."""
INVERSE_PENALTY = 100.0
"""C of the logistic regression on rows of mean length 1; the estimate hardly depends on it."""
USUAL_AGREEMENT, USUAL_ROWS = 0.5, 5
"""What graphs whose neighbors agree have with a few labels per class; it counts as much as so many
held-out nodes."""
UNKNOWN_AGREEMENT = 0.2
"""Where no labels tell whether neighbors agree: half of the weight, if nothing is held out."""
FEW_ROWS = 100
"""From so many held-out nodes on, what is usual hardly counts."""
NO_TRUST, FULL_TRUST = 0.15, 0.25
"""Agreement beyond chance below which the weight is 0 and from which it is untouched."""
NO_NEIGHBOR_TRUST, FULL_NEIGHBOR_TRUST = 0.02, 0.05
"""The same for the agreement of neighbors, which is low everywhere: their own features alone tell
little (benchmarks/trust.py)."""


class HeldOut(NamedTuple):
    """How well labels that were held out were predicted."""

    accuracy: float
    chance: float
    """Accuracy of always saying the most frequent class."""
    labels: int
    """How many there were, each held out once or more."""


def cross_validate(
    features: NDArray[np.floating], labels: NDArray[np.integer], *, seed: int = 0
) -> HeldOut | None:
    """Cross-validated accuracy of a logistic regression.

    Classes with fewer labels than folds are left out; there are as many folds, up to 5, as leave
    two classes and half of the nodes.

    Args:
        features: Of labeled nodes, shape (nodes, features).
        labels: Their classes, shape (nodes,).
        seed: Chooses the nodes, 2,000 at most, and the folds.

    Returns:
        None where nothing can be held out: a single class, or not two classes with two nodes.
    """
    order = np.random.default_rng(seed).permutation(len(labels))[:MOST_ROWS]
    _, codes, counts = np.unique(labels[order], return_inverse=True, return_counts=True)
    folds = _folds(counts)
    if folds is None:
        return None
    common = counts[codes] >= folds  # a rarer class cannot be in every fold
    order, codes = order[common], codes[common]
    repeats = 1 if folds == FOLDS else FEW_ROWS_REPEATS
    parts = stratified_folds(codes, folds, repeats, seed)
    accuracy = linear_accuracy(features[order], codes, parts)
    return HeldOut(accuracy, float(np.bincount(codes).max() / len(codes)), len(codes))


def linear_accuracy(
    features: NDArray[np.floating], labels: NDArray[np.integer], parts: Any
) -> float:
    """Accuracy of a logistic regression on rows that it was not fitted to.

    Args:
        features: Shape (nodes, features).
        labels: Shape (nodes,).
        parts: Which rows to fit to and which to predict, again and again: pairs of positions, or a
            splitter of scikit-learn.
    """
    rows = np.asarray(features, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    rows /= max(float(np.sqrt(np.square(rows).sum(axis=1).mean())), 1e-12)
    if rows.shape[1] > rows.shape[0]:
        # The penalty does not change under rotation, so the span of the rows is all that counts.
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
        rows = left * values
    # A loose tolerance would stop before the first step where classes are many and gradients small;
    # the limit of steps bounds the time instead, long after the accuracy has settled.
    settings: dict[str, Any] = {"inverse_penalty": INVERSE_PENALTY, "steps": 40, "tolerance": 1e-5}
    accuracies = []
    for fitted, held_out in parts.split(rows, labels) if hasattr(parts, "split") else parts:
        classes, codes = np.unique(labels[fitted], return_inverse=True)
        predicted = predicted_classes(rows[fitted], codes, rows[held_out], **settings)
        accuracies.append(float(np.average(classes[predicted] == labels[held_out])))
    return float(np.average(accuracies))


def agreement_beyond_chance(
    features: NDArray[np.floating],
    labels: NDArray[np.integer],
    *,
    usual: float = USUAL_AGREEMENT,
    seed: int = 0,
) -> float:
    """Cross-validated accuracy of a logistic regression beyond chance.

        kappa = (accuracy - chance) / (1 - chance), averaged with what is usual

    Args:
        features: Propagated features of the training nodes, shape (nodes, features).
        labels: Their classes, shape (nodes,).
        usual: Counts as much as `USUAL_ROWS` held-out nodes.
        seed: Chooses the nodes and the folds.

    Returns:
        At most 1; around 0 for features that tell nothing; what is usual where nothing can be held
        out (`cross_validate`).
    """
    held_out = cross_validate(features, labels, seed=seed)
    if held_out is None:
        return usual
    agreement = (held_out.accuracy - held_out.chance) / (1 - held_out.chance)
    return (held_out.labels * agreement + USUAL_ROWS * usual) / (held_out.labels + USUAL_ROWS)


def _folds(counts: NDArray[np.integer]) -> int | None:
    """Most folds that leave two classes and half of the nodes; none: there is no such number."""
    for folds in range(FOLDS, 1, -1):
        common = counts[counts >= folds]
        if len(common) >= 2 and 2 * common.sum() >= counts.sum():
            return folds
    return None


def neighbor_agreement(
    features: NDArray[Any] | sp.csr_array,
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    examples: NDArray[np.floating],
    *,
    seed: int = 0,
) -> float | None:
    """How far neighbors agree beyond chance when each is given the class of its closest example.

    Cohen's kappa of the two ends of some edges; closeness is the cosine of their own features.
    Nodes that have nothing in common with any example do not count.

    Args:
        features: Of all nodes, not propagated, dense or sparse, shape (nodes, features).
        indptr: Where the edges of each node begin.
        indices: Their other ends.
        examples: What nodes of each class have, shape (classes, features).
        seed: Chooses the edges.

    Returns:
        At most 1; around 0 for neighbors without anything in common; none where no edge counts.
    """
    if len(indices) == 0:
        return None
    drawn = np.unique(np.random.default_rng(seed).integers(len(indices), size=MOST_EDGES))
    first = np.searchsorted(np.asarray(indptr), drawn, side="right") - 1
    second = np.asarray(indices[drawn], dtype=np.int64)
    unit = examples / np.maximum(np.linalg.norm(examples, axis=1, keepdims=True), 1e-12)
    ends = [np.asarray(features[nodes] @ unit.T) for nodes in (first, second)]
    counted = (first != second) & np.logical_and(*(each.max(axis=1) > 0 for each in ends))
    classes = [each[counted].argmax(axis=1) for each in ends]
    if len(np.unique(np.concatenate(classes))) < 2:
        return None
    return cohens_kappa(*classes)


def usual_agreement(neighbors: float | None) -> float:
    """What to expect before anything is held out.

    Args:
        neighbors: From `neighbor_agreement`; none: not known.

    Examples:
        >>> [usual_agreement(neighbors) for neighbors in (0.01, 0.035, 0.2, None)]
        [0.0, 0.25, 0.5, 0.2]
    """
    if neighbors is None:
        return UNKNOWN_AGREEMENT
    return USUAL_AGREEMENT * trusted_share(neighbors, NO_NEIGHBOR_TRUST, FULL_NEIGHBOR_TRUST)


def trusted_share(agreement: float, none: float = NO_TRUST, full: float = FULL_TRUST) -> float:
    """The factor for the consistency weight: 0 without trust, 1 with full trust, linear between.

    Args:
        agreement: Beyond chance.
        none: Up to here there is no trust.
        full: From here on there is full trust.

    Examples:
        >>> [trusted_share(agreement) for agreement in (0.1, 0.2, 0.8)]
        [0.0, 0.5, 1.0]
    """
    share = (agreement - none) / (full - none)
    return round(min(max(share, 0.0), 1.0), 6)
