"""Products with a matrix most of whose rows are zero: edges to zero rows are left out beforehand.

Labels of one node in a hundred make a matrix of which the first hop gathers a hundred rows for one
that is not zero. One bit per row, for all rows together small enough for a cache, tells which edges
can be left out. Adding zero changes no sum, so the result is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import run_on_threads
from scr.propagation.kernel import _rows
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, sum_hubs, sum_ranges
from scr.propagation.kernel._vector import compiled_loop

ROWS_PER_STEP = 1 << 16
"""Rows looked at together; a multiple of 8, since their bits become whole bytes."""
ROWS_PER_TASK = 1 << 12
"""Rows whose edges one thread looks at, at a time."""
MOST_FILLED = 1 / 4
"""Share of rows beyond which leaving edges out costs more than it saves."""


def nonzero_bits(matrix: NDArray[Any]) -> NDArray[np.uint8] | None:
    """One bit per row, set where the row is not zero; none if too many rows are not."""
    bits = np.zeros(-(-len(matrix) // 8), dtype=np.uint8)
    most, found = MOST_FILLED * len(matrix), 0
    for start in range(0, len(matrix), ROWS_PER_STEP):
        filled = matrix[start : start + ROWS_PER_STEP].any(axis=1)
        found += int(np.count_nonzero(filled))
        if found > most:
            return None
        packed = np.packbits(filled, bitorder="little")
        bits[start // 8 : start // 8 + len(packed)] = packed
    return bits


def product_rows_of_nonzero(
    indptr: NDArray[np.int64],
    chunk: EdgeChunk,
    arrays: RowArrays,
    threads: int | None,
    *,
    nonzero: NDArray[np.uint8],
) -> bool:
    """As `kernel.product_rows`, where `nonzero` are the bits of the rows of the matrix."""
    if arrays.out.size == 0:
        return True
    rows, scale = slice(chunk.first, chunk.last), arrays.row_scale
    bounds = indptr[chunk.first : chunk.last + 1] - chunk.start
    # The sums of hubs are cut into pieces of all their edges.
    hubs = np.flatnonzero(np.diff(bounds) > _rows.HUB_EDGES)
    first = chunk.first if arrays.self_loops else -1
    kept_bounds, neighbors, values = _kept_edges(bounds, hubs, arrays, nonzero, first, threads)
    factors = None if scale is None else scale[rows]
    kept = RowArrays(neighbors, values, arrays.x, arrays.out[rows], row_scale=factors)
    fits = sum_ranges(kept_bounds, kept, threads)
    return sum_hubs(indptr, chunk.first + hubs, arrays, threads) and fits


def _kept_edges(
    bounds: NDArray[np.int64],
    hubs: NDArray[np.int64],
    arrays: RowArrays,
    bits: NDArray[np.uint8],
    own: int,
    threads: int | None,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float32] | None]:
    """Bounds, neighbors and weights of the edges that lead to rows that are not zero.

    If each row gets an edge to itself at its end, `own` is the number of the first row; else -1.
    """
    count, indices, weights = len(bounds) - 1, arrays.indices, arrays.weights
    is_hub = np.zeros(count, dtype=np.bool_)
    is_hub[hubs] = True
    found = np.zeros(count + 1, dtype=np.int64)
    tasks = [(at, min(at + ROWS_PER_TASK, count)) for at in range(0, count, ROWS_PER_TASK)]
    read = (bounds, is_hub, indices, bits, own)
    run_on_threads(lambda task: _count_kept(*task, *read, found), tasks, threads)
    kept_bounds = np.cumsum(found)
    neighbors = np.empty(int(kept_bounds[-1]), dtype=indices.dtype)
    run_on_threads(
        lambda task: _copy_kept(*task, *read, indices, kept_bounds, neighbors, True), tasks, threads
    )
    if weights is None:
        return kept_bounds, neighbors, None
    values = np.ones(len(neighbors), dtype=np.float32)  # an edge to itself weighs 1
    run_on_threads(
        lambda task: _copy_kept(*task, *read, weights, kept_bounds, values, False), tasks, threads
    )
    return kept_bounds, neighbors, values


@compiled_loop
def _count_kept(first, last, bounds, is_hub, indices, bits, own, found):  # type: ignore[no-untyped-def]
    """Count the kept edges of rows, each in the place after the row's own."""
    for row in range(first, last):
        if is_hub[row]:
            continue
        total = 0
        for edge in range(bounds[row], bounds[row + 1]):
            place = indices[edge]
            total += (bits[place >> 3] >> (place & 7)) & 1
        found[row + 1] = total + (1 if own >= 0 else 0)
    return 0


@compiled_loop
def _copy_kept(  # type: ignore[no-untyped-def]
    first, last, bounds, is_hub, indices, bits, own, values, kept_bounds, out, with_own
):
    """Copy what belongs to the kept edges: their neighbors, or their weights."""
    for row in range(first, last):
        if is_hub[row]:
            continue
        at = kept_bounds[row]
        for edge in range(bounds[row], bounds[row + 1]):
            place = indices[edge]
            if (bits[place >> 3] >> (place & 7)) & 1:
                out[at] = values[edge]
                at += 1
        if own >= 0 and with_own:
            out[at] = own + row
    return 0
