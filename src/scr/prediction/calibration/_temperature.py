"""Temperature scaling: one number that makes confidence as high as accuracy.

Logits are divided by a temperature T, the one with the lowest log-loss on validation nodes. Above 1
it lowers confidence, below 1 it raises it; the order of the classes stays. Logits and
log-probabilities differ by a constant per row, which softmax ignores, so either will do: an average
of probabilities can be tempered as well as one model's logits.

Paper: Guo et al. 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import GraphError

FEWEST_NODES = 20
"""Nodes from which a temperature is fitted; fewer say more about themselves than about others."""
RANGE = (0.1, 10.0)
"""Temperatures looked at. Where every node is right, the log-loss falls without end as T does."""
ACCURACY = 1e-7
"""Of the logarithm of a temperature: far finer than any number of nodes can tell."""
FOLDS = 5
"""Parts of the nodes; each is scored with the temperature of the others."""
ROWS_AT_ONCE = 65_536
"""Rows tempered at once: sums are in double precision, which only these rows need memory for."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""A probability of 0 is one that float32 could not hold."""


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    r"""The temperature with the lowest log-loss, or 1 where none is better on nodes left out.

    Equation: Guo et al., temperature scaling
        T = argmin_T  - mean_i log softmax(z_i / T)_{y_i}

    Args:
        logits: z, or log-probabilities. Shape (nodes, classes).
        labels: y, the class of each node. Shape (nodes,).
    """
    rows, classes = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if rows.ndim != 2 or classes.shape != rows.shape[:1]:
        raise GraphError(
            f"Logits have shape {rows.shape} and labels {classes.shape}; expected (nodes, classes) "
            "and (nodes,)"
        )
    if len(rows) < FEWEST_NODES or rows.shape[1] < 2:
        return 1.0
    if not np.isfinite(rows).all():
        raise GraphError("A logit is not finite; expected one distribution for each node")
    # In turn, not in blocks: nodes often come class by class.
    fold = np.arange(len(rows)) % FOLDS
    left_out = 0.0
    for part in range(FOLDS):
        rest = fold != part
        temperature = lowest_loss(rows[rest], classes[rest])
        left_out += log_losses(rows[~rest], classes[~rest], temperature).sum()
    if left_out >= log_losses(rows, classes, 1.0).sum():
        return 1.0
    return lowest_loss(rows, classes)


def lowest_loss(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """The temperature in `RANGE` with the lowest log-loss; it has one minimum, being convex in 1/T.

    Arguments as of `fit_temperature`.
    """
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return float(log_losses(logits, labels, float(np.exp(log_temperature))).mean())

    low, high = np.log(RANGE).tolist()
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": ACCURACY})
    return float(np.exp(found.x))


def log_losses(
    logits: NDArray[np.float64], labels: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """-log softmax(z / T) of each node's label, in nats."""
    scaled = logits / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    of_label = scaled[np.arange(len(labels)), labels]
    losses: NDArray[np.float64] = np.log(np.exp(scaled).sum(axis=1)) - of_label
    return losses


def log_probabilities(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Logarithms in double precision, finite also where a probability is 0."""
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST))


def apply_temperature(
    probabilities: NDArray[np.float32], temperature: float
) -> NDArray[np.float32]:
    r"""Temper class probabilities: softmax(log p / T), with the same likeliest class in each row.

    Args:
        probabilities: p, one distribution per row. Shape (nodes, classes).
        temperature: T; 1 returns p as it is.
    """
    if temperature == 1:
        return probabilities
    tempered = np.empty_like(probabilities)
    for start in range(0, len(probabilities), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        tempered[part] = _tempered(probabilities[part], temperature)
    return tempered


def _tempered(probabilities: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    scaled = log_probabilities(probabilities) / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    rounded: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    rounded = rounded.astype(probabilities.dtype)
    # Rounding may make two classes equal, of which the first would be taken.
    likeliest = probabilities.argmax(axis=1)
    tied = np.flatnonzero(rounded.argmax(axis=1) != likeliest)
    rounded[tied, likeliest[tied]] = np.nextafter(rounded[tied].max(axis=1), rounded.dtype.type(2))
    return rounded
