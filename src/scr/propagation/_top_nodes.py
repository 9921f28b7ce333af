"""Rows of a mixture of hops as sums over the few nodes that count most in them, as in GRAND+.

Paper: Feng et al. 2022, "GRAND+: Scalable Graph Random Neural Networks", arXiv:2203.06389.

A row of the mixture is a weighted sum of the features of all nodes within reach:

    (sum_k w_k A^k X)_v = sum_u Pi_vu X_u,    Pi = sum_k w_k A^k

Most of the weight is on few nodes. With these known for every row, a row with nodes dropped is a
sum over as many terms, and nothing is propagated again. Rows of Pi are walked hop by hop, each from
its own node, a few rows at a time; after each hop a row keeps its largest entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import check_memory, memory_budget
from scr.propagation._config import PropagationConfig
from scr.propagation._walks import adjacency_of, ways_of

if TYPE_CHECKING:
    from scr.graph import Graph

WALKED = 4
"""Times the nodes that are kept at last: so many are kept from hop to hop."""
MOST_ENTRIES = 1 << 22
"""Entries of the rows that are walked at once, before the largest are taken: some 50 MB."""


class TopNodes(NamedTuple):
    """The nodes that count most in each row, and their weights."""

    nodes: NDArray[np.int64]
    """Shape (rows, count), ascending in each row; 0 with a weight of 0 where there are fewer."""
    weights: NDArray[np.float32]
    """Shape (rows, count)."""


def top_nodes(
    graph: Graph,
    config: PropagationConfig,
    weights: Sequence[float] | NDArray[Any],
    count: int,
    *,
    memory: str | int = "auto",
) -> TopNodes:
    r"""The largest entries of each row of a mixture of powers of the adjacency.

    Equation: GRAND+, generalized mixed-order matrix (docs/equations.md#top-nodes)
        Pi = sum_k w_k A^k, of each row the `count` largest entries

    Exact where `count` is the number of nodes; else entries that are small after each hop are lost.

    Args:
        graph: Its target nodes are the rows.
        config: How features are propagated.
        weights: w, one per matrix that `propagate` would return, hop 0 first.
        count: Nodes of each row; at most all are taken.
        memory: Most memory to use.
    """
    rows, every = graph.num_targets, graph.num_nodes
    count = min(count, every)
    check_memory(
        f"The {count:,} most important nodes of {rows:,} rows need",
        12 * rows * count + 12 * MOST_ENTRIES, memory_budget(memory),
        hint="lower `consistency.top_nodes`, or leave `consistency.noise` at `dropout`",
    )  # fmt: skip
    factors = np.asarray(weights, np.float32)
    walks = [
        (adjacency_of(graph, config, way).to_scipy(), factors[way.places.start : way.places.stop])
        for way in ways_of(config)
    ]
    found = TopNodes(np.zeros((rows, count), np.int64), np.zeros((rows, count), np.float32))
    walked = min(WALKED * count, every)
    widest = max((int(np.diff(matrix.indptr).max(initial=1)) for matrix, _ in walks), default=1)
    step = max(MOST_ENTRIES // min(every, walked * widest), 1)
    for start in range(0, rows, step):
        part = np.arange(start, min(start + step, rows))
        own = sp.csr_array(
            (np.ones(len(part), np.float32), (np.arange(len(part)), part)), (len(part), every)
        )
        total = factors[0] * own
        for matrix, hop_weights in walks:
            reached = own
            for weight in hop_weights:
                reached = _largest(sp.csr_array(reached @ matrix), walked)
                total = total + weight * reached
        total = _largest(sp.csr_array(total), count)
        total.sort_indices()
        lengths = np.diff(total.indptr)
        places = part.repeat(lengths), np.arange(total.nnz) - total.indptr[:-1].repeat(lengths)
        found.nodes[places], found.weights[places] = total.indices, total.data
    return found


def _largest(matrix: sp.csr_array, count: int) -> sp.csr_array:
    """The matrix with at most so many entries in each row."""
    long = np.flatnonzero(np.diff(matrix.indptr) > count)
    if len(long) == 0:
        return matrix
    keep = np.ones(matrix.nnz, dtype=bool)
    for row in long:
        entries = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        smallest = np.argpartition(entries, len(entries) - count)[: len(entries) - count]
        keep[matrix.indptr[row] + smallest] = False
    kept = np.concatenate([[0], np.cumsum(keep)])[matrix.indptr]
    return sp.csr_array((matrix.data[keep], matrix.indices[keep], kept), matrix.shape)
