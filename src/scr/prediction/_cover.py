"""Which nodes to label next: those that stand for most of what a model is unsure of.

A label helps where the model hesitates, where many nodes are alike, and where no label is near yet.
All three are one number. Let u_j be how unsure the model is of node j, and s_ij how alike two nodes
are in the features that the model reads, averaged over hops. A set S of labeled nodes covers

    sum_j u_j max_{i in S} s_ij

of that doubt. Starting from the nodes that have a label, the node that adds most is taken, again
and again. Two nodes that are the same are never both worth a label: the second adds nothing.

The sum is submodular, so an old gain bounds the new one from above, and few have to be computed
anew for each node (lazy greedy; Minoux 1978).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COLUMNS = 64
"""Of the space in which nodes are compared: wider rows are cut down to their main directions."""
NODES_AT_ONCE = 1_024
"""Of one block of similarities."""
DIGITS = 9
"""Of a gain, as a share of all doubt: nodes that are the same have the same gain, whatever the
order in which a processor adds numbers up."""
ROUNDING = 1e-9
"""By which numbers that are the same may differ, as a share of the largest."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Nodes in the order in which they were taken."""

    order: NDArray[np.int64]
    """Positions among the points."""
    gains: Array
    """Share of all doubt that each adds to what labels and the nodes before it cover."""
    stands_for: NDArray[np.int64]
    """Points that are closer to it than to labels and the nodes before it; itself included."""


def directions(rows: NDArray[Any], columns: int = COLUMNS) -> Array:
    """Rows as unit vectors around their mean, in at most so many main directions."""
    centered = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    if centered.shape[1] > columns:
        centered = _main_directions(centered, columns)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    # Rows at the mean itself have no direction.
    has_length = lengths > ROUNDING * np.abs(rows).max(initial=0)
    return np.asarray(np.divide(centered, lengths, out=np.zeros_like(centered), where=has_length))


def _main_directions(rows: Array, columns: int) -> Array:
    """Coordinates of the rows along their first singular vectors, by a randomized SVD."""
    sample = np.random.default_rng(0).standard_normal((rows.shape[1], columns + 8))
    basis = rows @ sample
    for _ in range(2):
        basis, _ = np.linalg.qr(basis)
        basis, _ = np.linalg.qr(rows.T @ basis)
        basis = rows @ basis
    basis, _ = np.linalg.qr(basis)
    left, values, _ = np.linalg.svd(basis.T @ rows, full_matrices=False)
    return np.asarray(basis @ (left[:, :columns] * values[:columns]))


def cover(points: Array, weights: Array, labeled: Array, count: int) -> Cover:
    """Take the points that cover most of what labeled ones leave.

    Args:
        points: Unit vectors of nodes without a label, shape (nodes, columns).
        weights: The doubt about each.
        labeled: Unit vectors of nodes with a label.
        count: How many to take, at most.
    """
    total = float(weights.sum()) or 1.0
    best = _closest(points, labeled)

    def gain(of: NDArray[np.int64]) -> Array:
        similar = np.maximum(points[of] @ points.T - best, 0)
        return np.round(similar @ weights / total, DIGITS)

    everything = np.arange(len(points))
    parts = range(0, len(points), NODES_AT_ONCE)
    bounds = np.concatenate([gain(everything[start : start + NODES_AT_ONCE]) for start in parts])
    # Of equal gains, the more doubtful node, then the first.
    heap = [(-bounds[each], -weights[each], each) for each in everything.tolist()]
    heapq.heapify(heap)
    order: list[int] = []
    gains: list[float] = []
    stands_for: list[int] = []
    while heap and len(order) < count:
        node = heap[0][2]
        renewed = (-float(gain(everything[node : node + 1])[0]), -weights[node], node)
        if renewed > heap[0]:
            heapq.heapreplace(heap, renewed)
            continue
        heapq.heappop(heap)
        order.append(node)
        gains.append(-renewed[0])
        similar = points @ points[node]
        stands_for.append(int(np.count_nonzero(similar > best + ROUNDING)))
        best = np.maximum(best, similar)
    return Cover(np.array(order, np.int64), np.array(gains), np.array(stands_for, np.int64))


def _closest(points: Array, others: Array) -> Array:
    """The similarity of each point to the most similar of some others, at least 0."""
    closest = np.zeros(len(points))
    for start in range(0, len(others), NODES_AT_ONCE):
        part = points @ others[start : start + NODES_AT_ONCE].T
        closest = np.maximum(closest, part.max(axis=1, initial=0))
    return closest
