"""Products of which only some rows are needed: the last hop, where few rows are kept.

Every other hop needs all rows, because the next one gathers from them. The rows are summed as in
`kernel.product_rows`, in the same order, so they are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scr.propagation.kernel import _rows
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, sum_hubs, sum_ranges

PART_EDGES = 1 << 20
"""Edges whose neighbors are copied together: some 40 MB with all that it takes. A hub's are not."""
VALUES_PER_EDGE = 8
"""Sums of a row that take about as much memory as what is copied for one edge."""


def product_of_chosen_rows(
    indptr: NDArray[np.int64],
    chunk: EdgeChunk,
    arrays: RowArrays,
    threads: int | None,
    *,
    rows: NDArray[np.int64],
) -> bool:
    """As `kernel.product_rows`; of the result, only `rows` are written, which are sorted."""
    indices, weights, out = arrays.indices, arrays.weights, arrays.out
    chosen = rows[np.searchsorted(rows, chunk.first) : np.searchsorted(rows, chunk.last)]
    if len(chosen) == 0 or out.size == 0:
        return True
    is_hub = indptr[chosen + 1] - indptr[chosen] > _rows.HUB_EDGES
    fits = sum_hubs(indptr, chosen[is_hub], arrays, threads)
    for some in _parts(indptr, chosen[~is_hub], out.shape[1]):
        bounds, edges, is_own = _edges_of(indptr, some, chunk.start, own=arrays.self_loops)
        neighbors = np.empty(len(edges), indices.dtype)
        neighbors[~is_own], neighbors[is_own] = indices[edges[~is_own]], some[: is_own.sum()]
        values = None
        if weights is not None:
            values = np.ones(len(edges), np.float32)  # an edge to itself weighs 1
            values[~is_own] = weights[edges[~is_own]]
        made = np.empty((len(some), out.shape[1]), out.dtype)
        scale = None if arrays.row_scale is None else arrays.row_scale[some]
        copied = RowArrays(neighbors, values, arrays.x, made, row_scale=scale)
        fits &= sum_ranges(bounds, copied, threads)
        out[some] = made
    return fits


def _parts(
    indptr: NDArray[np.int64], rows: NDArray[np.int64], columns: int
) -> Iterator[NDArray[np.int64]]:
    """Cut rows so that the copies of their edges and of their sums stay small."""
    for at in range(0, len(rows), PART_EDGES):
        near = rows[at : at + PART_EDGES]
        costs = indptr[near + 1] - indptr[near] + max(columns // VALUES_PER_EDGE, 1)
        yield from np.split(near, np.flatnonzero(np.diff(np.cumsum(costs) // PART_EDGES)) + 1)


def _edges_of(
    indptr: NDArray[np.int64], rows: NDArray[np.int64], start: int, *, own: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Bounds of the rows, the place of each of their edges, and which are edges to themselves.

    A row's edge to itself, if asked for, comes last, where the kernel adds the row itself.
    """
    counts = indptr[rows + 1] - indptr[rows] + own
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    edges = np.arange(bounds[-1]) + np.repeat(indptr[rows] - start - bounds[:-1], counts)
    is_own = np.zeros(len(edges), np.bool_)
    if own:
        is_own[bounds[1:] - 1] = True
    return bounds, edges, is_own
