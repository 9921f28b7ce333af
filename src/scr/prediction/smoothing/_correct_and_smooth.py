"""Correct & Smooth: spread the errors on labeled nodes along the edges, then the labels.

A prediction that is wrong at a labeled node is likely wrong in the same way at its neighbors:
`correct` spreads what is missing there and adds it. Neighbors mostly share a class: `smooth` puts
the known labels in place of the predictions and averages along the edges. Nothing is trained.

Paper: Huang et al. 2020, "Combining Label Propagation and Simple Models Out-performs Graph Neural
Networks", arXiv:2010.13993. Where the paper leaves a detail open, we do as PyG's
`CorrectAndSmooth`: the result is the same.

Pure functions of arrays. Columns do not depend on each other while they spread, so few of them
are in memory more than once, however many classes there are. Only the labels that are passed are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty
from scr.propagation import ROWS_PER_STEP, NormalizedAdjacency, walk

Matrix = NDArray[np.float32]
Scale = float | Literal["auto"]
BLOCK_CLASSES = 64
"""Classes spread at once: one pass over the edges feeds a few vectors of them."""
LARGEST_SCALE = 1000
"""Of PyG and the authors' code: a node whose error would have to grow more was hardly reached."""


def correct(
    adjacency: NormalizedAdjacency,
    probabilities: Matrix,
    labels: NDArray[Any],
    nodes: NDArray[Any],
    *,
    hops: int,
    alpha: float,
    scale: Scale = "auto",
) -> Matrix:
    r"""Add the errors on labeled nodes, spread along the edges, to every prediction.

    Equation: C&S, residual propagation (docs/equations.md#correct)
        E_0 = Y - Z on labeled nodes, 0 elsewhere
        E_t = (1 - alpha) E_0 + alpha A E_{t-1}
        result = Z + s E_T

    With a fixed scale s, E_t is set back to E_0 on labeled nodes after each hop. With `auto`,
    entries of E_t are kept within [-1, 1] and s is one number per node, which makes its error as
    large as that of an average labeled node.

    Args:
        adjacency: A, normalized.
        probabilities: Z, shape (nodes, classes).
        labels: The class of each of `nodes`, the labeled ones.
        hops: T, how often the errors are propagated.
        alpha: Share of the neighbors in each hop.

    Returns:
        Shape (nodes, classes); rows may have negative entries and sums other than 1.
    """
    errors = spread_errors(
        adjacency, probabilities, labels, nodes, hops=hops, alpha=alpha, hold=scale != "auto"
    )
    if scale == "auto":
        missing = _one_hot(labels, probabilities.shape[1]) - probabilities[nodes]
        errors *= _auto_scale(errors, float(np.abs(missing).sum()) / max(len(nodes), 1))
    else:
        errors *= np.float32(scale)
    errors += probabilities
    return errors


def spread_errors(
    adjacency: NormalizedAdjacency,
    probabilities: Matrix,
    labels: NDArray[Any],
    nodes: NDArray[Any],
    *,
    hops: int,
    alpha: float,
    hold: bool,
) -> Matrix:
    """E_T of `correct`, before it is scaled; with `hold`, labeled nodes keep their own errors."""
    missing = _one_hot(labels, probabilities.shape[1]) - probabilities[nodes]
    errors = np.zeros(probabilities.shape, np.float32)
    errors[nodes] = missing

    def after_hop(hop: Matrix, columns: slice) -> None:
        if hold:
            hop[nodes] = missing[:, columns]
        else:
            np.clip(hop, -1, 1, out=hop)

    _spread(adjacency, errors, hops, alpha, after_hop)
    return errors


def smooth(
    adjacency: NormalizedAdjacency,
    predictions: Matrix,
    labels: NDArray[Any],
    nodes: NDArray[Any],
    *,
    hops: int,
    alpha: float,
    reuse: bool = False,
) -> Matrix:
    r"""Put the known labels in place of predictions and average along the edges.

    Equation: C&S, smoothing (docs/equations.md#smooth)
        G_0 = Y on labeled nodes, the prediction elsewhere
        G_t = (1 - alpha) G_0 + alpha A G_{t-1},  kept within [0, 1]

    Arguments that are not named here are those of `correct`.

    Args:
        predictions: Probabilities, or the result of `correct`. Shape (nodes, classes).
        reuse: Put the result into the memory of `predictions`, which nobody needs any more.

    Returns:
        Shape (nodes, classes), entries within [0, 1]; the sum of a row may be another than 1.
    """
    guesses = predictions if reuse else np.array(predictions, dtype=np.float32)
    guesses[nodes] = _one_hot(labels, guesses.shape[1])

    _spread(adjacency, guesses, hops, alpha, lambda hop, _: np.clip(hop, 0, 1, out=hop))
    return guesses


def as_probabilities(predictions: Matrix) -> Matrix:
    """Make distributions of rows: negative entries become 0, sums 1; the largest stays so."""
    probabilities = np.empty(predictions.shape, np.float32)
    for part in row_parts(len(predictions)):
        likeliest, largest = predictions[part].argmax(axis=1), predictions[part].max(axis=1)
        # A row without a positive entry still has an order: it starts from its least one instead.
        least = np.where(largest > 0, 0, predictions[part].min(axis=1))
        rows = np.maximum(predictions[part] - least[:, None], 0)
        sums = rows.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            rows = np.where(sums > 0, rows / sums, np.float32(1 / rows.shape[1]))
        # Neighboring numbers can become equal by division; the first of them would win then.
        moved = np.flatnonzero(rows.argmax(axis=1) != likeliest)
        rows[moved, likeliest[moved]] = np.nextafter(rows[moved].max(axis=1), np.float32(2))
        probabilities[part] = rows
    return probabilities


def row_parts(count: int) -> Iterator[slice]:
    """Few rows at a time, for passes whose temporaries would be as large as all predictions."""
    for first in range(0, count, ROWS_PER_STEP):
        yield slice(first, min(first + ROWS_PER_STEP, count))


def _spread(
    adjacency: NormalizedAdjacency,
    matrix: Matrix,
    hops: int,
    alpha: float,
    after_hop: Callable[[Matrix, slice], object],
) -> None:
    """Replace M_0 by M_T, where M_t = (1 - alpha) M_0 + alpha A M_{t-1}, a few columns at a time.

    `after_hop` changes the given columns of M_t in place, before the next hop reads them.
    """
    rows, classes = matrix.shape
    for first in range(0, classes, BLOCK_CLASSES):
        columns = slice(first, min(first + BLOCK_CLASSES, classes))
        shape = (rows, columns.stop - columns.start)
        current, spare = aligned_empty(shape, np.float32), aligned_empty(shape, np.float32)
        current[...] = matrix[:, columns]
        last = current
        # `walk` computes each hop from what we leave in the one before.
        for hop in walk(adjacency, current, spare, hops):
            for part in row_parts(rows):
                hop[part] *= np.float32(alpha)
                hop[part] += matrix[part, columns] * np.float32(1 - alpha)
            after_hop(hop, columns)
            last = hop
        matrix[:, columns] = last


def _auto_scale(errors: Matrix, size: float) -> Matrix:
    """What makes the error of each node as large as `size`, in absolute values summed over classes.

    Where nothing arrived, or hardly anything, it is 1.
    """
    sums = np.empty((len(errors), 1), np.float32)
    for part in row_parts(len(errors)):
        sums[part] = np.abs(errors[part]).sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.float32(size) / sums
    # Not `scale > LARGEST_SCALE`: 0 / 0 is NaN, which PyG lets into the result.
    scale[~(scale <= LARGEST_SCALE)] = 1
    return np.asarray(scale, dtype=np.float32)


def _one_hot(labels: NDArray[Any], classes: int) -> Matrix:
    rows = np.zeros((len(labels), classes), np.float32)
    rows[np.arange(len(labels)), labels] = 1
    return rows
