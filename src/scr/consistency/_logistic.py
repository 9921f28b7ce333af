"""Logistic regression and stratified folds, as of scikit-learn, without its import.

Importing scikit-learn takes longer than everything that is computed here on a small graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Codes = NDArray[np.integer]
Part = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Positions to fit to, and positions to predict."""

_TOLERANCE, _LINE_STEPS = 64 * np.finfo(float).eps, 50
"""Of scikit-learn's solver: least relative decrease of the loss, and steps of a line search."""


def predicted_classes(
    rows: Rows, codes: Codes, others: Rows, *, inverse_penalty: float, steps: int, tolerance: float
) -> NDArray[np.int64]:
    """Fit a logistic regression with an L2 penalty to rows, and predict the classes of others.

        minimize mean_i(-log p_i,code(i)) + ||W||^2 / (2 C n), the intercepts without a penalty

    Args:
        rows: Shape (nodes, features).
        codes: Classes from 0 to K - 1, two or more, each of them at least once. Shape (nodes,).
        others: Shape (other nodes, features).
        inverse_penalty: C.
        steps: Most steps of L-BFGS, from zeros.
        tolerance: Largest entry of the gradient to stop at.
    """
    from scipy.optimize import minimize

    classes, penalty = int(codes.max()) + 1, 1 / (inverse_penalty * len(rows))
    columns = classes if classes > 2 else 1
    shape = (columns, rows.shape[1] + 1)
    loss_of = _multinomial if columns > 1 else _binomial

    def objective(flat: Rows) -> tuple[float, Rows]:
        matrix = flat.reshape(shape, order="F")
        weights = matrix[:, :-1]
        losses, errors = loss_of(rows @ weights.T + matrix[:, -1], codes)
        errors /= len(rows)
        gradient = np.empty(shape, order="F")
        gradient[:, :-1] = errors.T @ rows + penalty * weights
        gradient[:, -1] = errors.sum(axis=0)
        loss = losses.sum() / len(rows) + 0.5 * penalty * float((weights * weights).sum())
        return loss, gradient.ravel(order="F")

    options: Any = {"maxiter": steps, "maxls": _LINE_STEPS, "gtol": tolerance, "ftol": _TOLERANCE}
    start = np.zeros(shape[0] * shape[1])
    found = minimize(objective, start, method="L-BFGS-B", jac=True, options=options)
    matrix = found.x.reshape(shape, order="F")
    scores = others @ matrix[:, :-1].T + matrix[:, -1]
    if columns == 1:
        return np.asarray(scores[:, 0] > 0, dtype=np.int64)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def _multinomial(scores: Rows, codes: Codes) -> tuple[Rows, Rows]:
    """Cross-entropy of each row, and its derivative by the scores."""
    positions = np.arange(len(codes))
    highest = scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - highest)
    sums = powers.sum(axis=1, keepdims=True)
    losses = (np.log(sums) + highest)[:, 0] - scores[positions, codes]
    powers /= sums
    powers[positions, codes] -= 1
    return losses, powers


def _binomial(scores: Rows, codes: Codes) -> tuple[Rows, Rows]:
    """The same of two classes, with one score for the second."""
    flat = scores[:, 0]
    losses = np.logaddexp(0, flat) - codes * flat
    return losses, (0.5 * (1 + np.tanh(0.5 * flat)) - codes)[:, np.newaxis]


def stratified_folds(codes: Codes, folds: int, repeats: int, seed: int) -> Iterator[Part]:
    """Folds with as equal shares of every class as possible, drawn again and again.

    They are those of `RepeatedStratifiedKFold`, which draws by NumPy's old generator.
    """
    generator = np.random.RandomState(seed)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    encoded = np.argsort(np.argsort(first))[inverse]  # classes by order of appearance
    ordered = np.sort(encoded)
    counts = [np.bincount(ordered[fold::folds], minlength=len(first)) for fold in range(folds)]
    allocation = np.array(counts)
    for _ in range(repeats):
        fold_of = np.empty(len(codes), np.int64)
        for number in range(len(first)):
            drawn = np.arange(folds).repeat(allocation[:, number])
            generator.shuffle(drawn)
            fold_of[encoded == number] = drawn
        for fold in range(folds):
            yield np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)


def cohens_kappa(first: Codes, second: Codes) -> float:
    """Agreement of two lists of classes beyond chance: 1 if equal, 0 as by chance.

    Cohen 1960, "A coefficient of agreement for nominal scales": (p_o - p_e) / (1 - p_e).
    """
    _, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    classes = int(codes.max()) + 1
    pairs = codes[: len(first)] * classes + codes[len(first) :]
    confusion = np.bincount(pairs, minlength=classes**2).reshape(classes, classes).astype(float)
    expected = np.outer(confusion.sum(axis=0), confusion.sum(axis=1)) / confusion.sum()
    differs = 1 - np.eye(classes)
    return float(1 - (differs * confusion).sum() / (differs * expected).sum())
