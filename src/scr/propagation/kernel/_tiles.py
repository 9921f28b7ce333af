"""Products with a matrix far larger than any cache, gathered region by region.

A row that lies anywhere in several gigabytes costs more to find than to read: every gather misses
not only the cache but also the processor's table of memory pages. So the edges of a piece of rows
are sorted by the region of the matrix, a tile, that their neighbors lie in; each tile is gathered
from while its pages are at hand, and rows are added to sums in memory instead of registers.

Neighbors of a row ascend, so sorting by tile keeps their order, and every sum is the same to the
last bit as without tiles.
"""

from __future__ import annotations

import queue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import CACHE_LINE, aligned_empty, cut_rows, default_threads, run_on_threads
from scr.propagation.kernel import _rows
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, constant, scale_rows, sum_hubs
from scr.propagation.kernel._vector import LANES, add_rows, compiled_loop

TILED_BYTES = 1 << 30
"""Matrices from this size on may be gathered from tile by tile, if their rows are one cache line or
less. Measured with rows of one line, on 2 cores: on an Intel Xeon of 2.8 GHz 1.3 times as fast at
4 GB as sums in registers, up to 2.9 times where the system has no large pages to give; on an AMD
EPYC (Zen 4) half as fast, always. So `product_rows` measures which it is."""
TILE_BYTES = 1 << 25
"""Size of a tile; half and twice as much are as good."""
PIECE_EDGES = 1 << 21
"""Edges sorted at once."""
PIECE_ROWS = 1 << 17
"""Most rows whose sums are held at once: 16 MiB."""
TILE_COLUMNS = 2 * LANES
"""Columns summed at once: a cache line of float16."""


class _Buffers(NamedTuple):
    """What one thread needs."""

    neighbors: NDArray[Any]
    rows: NDArray[np.int32]
    sums: NDArray[np.float32]


def buffer_bytes(threads: int) -> int:
    """Memory that products by tiles take beside the matrices."""
    return threads * (2 * 4 * PIECE_EDGES + 4 * PIECE_ROWS * (1 + TILE_COLUMNS))


def tiles_may_pay(scaled: NDArray[Any], weights: NDArray[np.float32] | None) -> bool:
    """Whether a product may be worth the sorting; weighted edges are summed in registers always."""
    is_narrow = scaled.shape[1] * scaled.itemsize <= CACHE_LINE and scaled.shape[1] % LANES == 0
    return weights is None and is_narrow and scaled.nbytes >= TILED_BYTES


def product_by_tiles(
    indptr: NDArray[np.int64], chunk: EdgeChunk, arrays: RowArrays, threads: int | None
) -> bool:
    """As `kernel.product_rows` for whole rows without weights."""
    scaled, row_scale = arrays.x, arrays.row_scale
    edges, _, memory, row_pitch = arrays.read
    bounds = indptr[chunk.first : chunk.last + 1]
    hubs = chunk.first + np.flatnonzero(np.diff(bounds) > _rows.HUB_EDGES)
    starts, stops = [chunk.first, *(hubs + 1).tolist()], [*hubs.tolist(), chunk.last]
    pieces = [
        piece
        for start, stop in zip(starts, stops, strict=True)
        for piece in cut_rows(
            indptr, start, stop, edges=max(PIECE_EDGES, _rows.HUB_EDGES), rows=PIECE_ROWS
        )
    ]
    free: queue.SimpleQueue[_Buffers] = queue.SimpleQueue()
    rows = min(PIECE_ROWS, chunk.last - chunk.first)
    longest = max((int(indptr[last] - indptr[first]) for first, last in pieces), default=0)
    longest += rows if arrays.self_loops else 0
    for _ in range(min(threads or default_threads(), len(pieces))):
        neighbors = np.empty(longest, arrays.indices.dtype)
        sums = aligned_empty((rows * TILE_COLUMNS,), np.float32)
        free.put(_Buffers(neighbors, np.empty(longest, np.int32), sums))
    columns = [
        slice(at, min(at + TILE_COLUMNS, scaled.shape[1]))
        for at in range(0, scaled.shape[1], TILE_COLUMNS)
    ]
    shift = max((TILE_BYTES // (row_pitch * scaled.itemsize)).bit_length() - 1, 0)
    read = constant(indptr)

    def work(piece: tuple[int, int]) -> bool:
        first, last = piece
        buffers = free.get()
        try:
            ends = np.zeros((len(scaled) >> shift) + 2, np.int64)
            count = _sort_by_tile(
                read, first, last, edges, chunk.start, shift, arrays.self_loops, ends,
                buffers.neighbors, buffers.rows,
            )  # fmt: skip
            fits = True
            for block in columns:
                width = block.stop - block.start
                sums = buffers.sums[: (last - first) * width]
                sums[:] = 0
                add_rows(
                    buffers.neighbors, buffers.rows, count, memory, row_pitch, block.start,
                    width // LANES, sums, width,
                )  # fmt: skip
                scale = None if row_scale is None else row_scale[first:last]
                made = sums.reshape(last - first, width)
                fits &= scale_rows(made, scale, arrays.out[first:last, block], threads=1)
            return fits
        finally:
            free.put(buffers)

    fits = all(run_on_threads(work, pieces, threads))
    return sum_hubs(indptr, hubs, arrays, threads) and fits


@compiled_loop
def _sort_by_tile(  # type: ignore[no-untyped-def]
    indptr, first, last, indices, offset, shift, self_loops, ends, neighbors, rows
):
    """Edges of some rows by tile, and within a tile by row; edges to the rows themselves come last.

    Returns how many edges there are.
    """
    for edge in range(indptr[first] - offset, indptr[last] - offset):
        ends[(indices[edge] >> shift) + 1] += 1
    for tile in range(len(ends) - 1):
        ends[tile + 1] += ends[tile]
    for row in range(first, last):
        for edge in range(indptr[row] - offset, indptr[row + 1] - offset):
            tile = indices[edge] >> shift
            place = ends[tile]
            ends[tile] = place + 1
            neighbors[place] = indices[edge]
            rows[place] = row - first
    count = indptr[last] - indptr[first]
    if self_loops:
        for row in range(first, last):
            neighbors[count] = row
            rows[count] = row - first
            count += 1
    return count
