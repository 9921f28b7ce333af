"""Products of which only some rows are needed: the last hops, where few rows are kept.

The edges of the chosen rows are copied together, so that what is fetched ahead is what will be
used. Rows are summed as in `kernel.product_rows`, in the same order, so they are the same to the
last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import ends_of, run_ranges
from scr.propagation.kernel import _rows
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, constant, sum_hubs, sum_ranges
from scr.propagation.kernel._vector import compiled_loop

PART_EDGES = 1 << 22
"""Edges that are copied together: 16 MiB, and as much for their weights. A hub's are not copied."""
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
    """As `kernel.product_rows`, of some rows of the chunk, which are sorted.

    The arrays have an output of as many rows, in this order.
    """
    out, scale = arrays.out, arrays.row_scale
    if out.size == 0:
        return True
    lengths = indptr[rows + 1] - indptr[rows]
    hubs = np.flatnonzero(lengths > _rows.HUB_EDGES)
    counts = lengths + arrays.self_loops
    counts[hubs] = 0
    fits = True
    for start, stop in _parts(counts, out.shape[1]):
        some, bounds = rows[start:stop], ends_of(counts[start:stop])
        neighbors, values = np.empty(int(bounds[-1]), arrays.indices.dtype), None
        copy_edges(indptr, chunk, some, bounds, arrays.indices, neighbors, threads)
        if arrays.self_loops:  # last, where the kernel adds the row itself
            is_there = counts[start:stop] > 0
            neighbors[bounds[1:][is_there] - 1] = some[is_there]
        if arrays.weights is not None:
            values = np.ones(len(neighbors), np.float32)  # an edge to itself weighs 1
            copy_edges(indptr, chunk, some, bounds, arrays.weights, values, threads)
        factors = None if scale is None else scale[some]
        copied = RowArrays(neighbors, values, arrays.x, out[start:stop], row_scale=factors)
        fits &= sum_ranges(bounds, copied, threads)
    return sum_hubs(indptr, rows[hubs], arrays, threads, places=hubs) and fits


def copy_edges(
    indptr: NDArray[np.int64],
    chunk: EdgeChunk,
    rows: NDArray[np.int64],
    bounds: NDArray[np.int64],
    values: NDArray[Any],
    out: NDArray[Any],
    threads: int | None,
) -> None:
    """Copy what belongs to the edges of some rows, those of each to between its bounds.

    Args:
        indptr: Of all rows.
        chunk: Whose edges are at hand; it may have a part of those of a row.
        rows: Sorted numbers.
        bounds: Of each of the rows in `out`, with room for its edges, or for none of them.
        values: One for each edge of the chunk.
        out: One for each edge of the rows.
        threads: Cores to use.
    """
    run_ranges(
        _copy_edges, bounds - bounds[0], constant(rows), constant(indptr), chunk.start, chunk.stop,
        constant(bounds), constant(values), out, threads=threads,
    )  # fmt: skip


@compiled_loop
def _copy_edges(  # type: ignore[no-untyped-def]
    rows, indptr, start, stop, bounds, values, out, first, last
):
    """Copy what belongs to those of the edges `start` to `stop` that are edges of the rows."""
    for place in range(first, last):
        begin, target = indptr[rows[place]], bounds[place]
        end = min(indptr[rows[place] + 1], begin + bounds[place + 1] - target, stop)
        # Unsigned, for which numba tests no index for being negative: twice as fast.
        edge, after = np.uint64(max(begin, start) - start), np.uint64(max(end, start) - start)
        shift = np.uint64(target - begin + start)
        while edge < after:
            out[shift + edge] = values[edge]
            edge += np.uint64(1)
    return 0


def _parts(counts: NDArray[np.int64], columns: int) -> Iterator[tuple[int, int]]:
    """Cut rows with so many edges so that the copies of these and the sums stay small."""
    ends = np.cumsum(counts + max(columns // VALUES_PER_EDGE, 1))
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + PART_EDGES, side="right")), start + 1)
        yield start, stop
        start = stop
