"""The product of a normalized adjacency with a dense matrix, on all cores.

Work is cut into row ranges with about equal numbers of edges, not of rows: in a power-law graph
equal numbers of rows would leave most cores waiting for the one with the hubs. A row with very
many edges is cut itself. Where the cuts lie inside a row does not depend on the number of
threads, and each piece is summed in the order of its edges by one thread, so the result is the
same to the last bit for any number of threads.

The compiled code releases Python's lock, so plain threads run it: no threading layer to clash with
torch's, and safe after `fork`. It is cached on disk; later processes only load it.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel._vector import LANES, SHAPES, sum_rows

BLOCK_COLUMNS = max(lanes * vectors for lanes, vectors in SHAPES)
"""Columns summed at once."""
HUB_EDGES = 1 << 17
"""A row with more edges than this is cut into pieces of this many."""
TASK_COST = 1 << 17
"""Smallest piece of work worth a thread, in edges."""
ROW_COST = 2
"""What a row costs beside its edges, in edges."""
SCALED_ROWS = 1 << 21
"""Rows scaled at once, so that the empty bounds of their edges take little memory."""
_ONES = np.zeros(0, dtype=np.float32)
"""No scales: an empty array rather than none, since numba compiles once more for each type."""


def product(
    adjacency: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Multiply a matrix whose rows are scaled already: out = R (W + s I) scaled.

    The scales of the columns are not applied here. Reading one of them per edge, from an array
    that no cache level near the core can hold, costs up to a third more time than scaling the
    rows of the matrix once beforehand (`scale_rows`).

    Args:
        adjacency: The edges, their weights W, the row scales R, self-loops (s = 1) or none (0).
        scaled: C X. Shape (nodes, columns), float32 or float16; rows may lie apart, columns not.
        out: Another array of the same shape.
        threads: Cores to use; all that numba may use by default.

    Returns:
        False if a float16 result overflowed.
    """
    edges = EdgeChunk(0, adjacency.num_nodes, 0, adjacency.num_edges)
    return product_rows(
        adjacency, edges, adjacency.indices, adjacency.weights, scaled, out, [], threads=threads
    )


def product_of_first_rows(
    adjacency: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    rows: int,
    threads: int | None = None,
) -> bool:
    """As `product`; of `out`, only so many rows are written."""
    edges = EdgeChunk(0, rows, 0, int(adjacency.indptr[rows]))
    indices = adjacency.indices[: edges.stop]
    weights = None if adjacency.weights is None else adjacency.weights[: edges.stop]
    return product_rows(adjacency, edges, indices, weights, scaled, out, [], threads=threads)


class EdgeChunk(NamedTuple):
    """Rows whose edges are at hand, all of them; or one hub's row of which some pieces are."""

    first: int
    last: int
    """Row after the last."""
    start: int
    """First edge."""
    stop: int
    """Edge after the last."""


def product_rows(
    adjacency: NormalizedAdjacency,
    chunk: EdgeChunk,
    indices: NDArray[Any],
    weights: NDArray[np.float32] | None,
    scaled: NDArray[Any],
    out: NDArray[Any],
    pieces: list[NDArray[np.float32]],
    *,
    threads: int | None = None,
) -> bool:
    """Some rows of `product`, from a part of the edges.

    A hub with more edges than a chunk may hold comes in several chunks of whole pieces, so that
    its sum is the same to the last bit as if all of its edges were at hand.

    Args:
        adjacency: Its own edges and weights are not read, only `indptr` and what scales rows.
        chunk: Which rows and edges.
        indices: Neighbors of the edges of this chunk only.
        weights: Their weights; none: all are 1.
        scaled: As for `product`, all rows.
        out: As for `product`; only the rows of the chunk are written.
        pieces: Sums of the hub that is under way; an empty list at first, then the same again.
        threads: As for `product`.

    Returns:
        False if a float16 result overflowed.
    """
    arrays = _Arrays(indices, weights, scaled, out, chunk.start)
    indptr, scale, own = adjacency.indptr, adjacency.row_scale, adjacency.self_loops
    begin, end = int(indptr[chunk.first]), int(indptr[chunk.last])
    if (chunk.start, chunk.stop) == (begin, end):
        # Tiles are made of this module's pieces, so they cannot be imported before it.
        from scr.propagation.kernel._tiles import product_by_tiles, tiles_pay

        if out.size and tiles_pay(scaled, weights):
            count = numba.config.NUMBA_NUM_THREADS if threads is None else threads
            return product_by_tiles(adjacency, chunk, indices, scaled, out, count)
        return _run(indptr, arrays, scale, own, threads, (chunk.first, chunk.last))
    if arrays.out.size == 0:
        return True
    threads = numba.config.NUMBA_NUM_THREADS if threads is None else threads
    pieces += _hub_pieces(arrays, chunk.start, chunk.stop, threads)
    if chunk.stop < end:
        return True
    fits = arrays.finish(chunk.first, pieces, scale, own)
    pieces.clear()
    return fits


def scale_rows(
    matrix: NDArray[Any],
    scale: NDArray[np.float32] | None,
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Copy a matrix with each row multiplied by its scale, between float32 and float16 as needed.

    This is the product with a matrix that has nothing but its diagonal.

    Returns:
        False if a float16 result overflowed.
    """
    no_edges = np.zeros(min(len(matrix), SCALED_ROWS) + 1, dtype=np.int64)
    fits = True
    for start in range(0, len(matrix), SCALED_ROWS):
        part = slice(start, min(start + SCALED_ROWS, len(matrix)))
        arrays = _Arrays(np.zeros(0, dtype=np.int32), None, matrix[part], out[part])
        bounds, factors = no_edges[: len(arrays.out) + 1], None if scale is None else scale[part]
        fits &= _run(bounds, arrays, factors, True, threads)
    return fits


def _run(
    indptr: NDArray[np.int64],
    arrays: _Arrays,
    row_scale: NDArray[np.float32] | None,
    self_loops: bool,
    threads: int | None,
    within: tuple[int, int] | None = None,
) -> bool:
    """Run the kernel over all rows, or those within a range, and over all blocks of columns."""
    if arrays.out.size == 0:
        return True
    threads = numba.config.NUMBA_NUM_THREADS if threads is None else threads
    bounds, scale = _constant(indptr), _constant(_ONES if row_scale is None else row_scale)
    begin, end = (0, len(indptr) - 1) if within is None else within
    near = indptr[begin : end + 1]
    hubs = np.flatnonzero(np.diff(near) > HUB_EDGES)
    ranges = [(begin + first, begin + last) for first, last in _row_ranges(near, hubs, threads)]
    pieces = itertools.product(_blocks(arrays.columns), ranges)

    def rows(piece: tuple[_Block, tuple[int, int]]) -> int:
        block, (first, last) = piece
        return sum_rows(
            bounds, arrays.offset, first, last, *arrays.read, *block, self_loops, scale,
            *arrays.write,
        )  # fmt: skip

    fits = [result == 0 for result in run_on_threads(rows, list(pieces), threads)]
    for hub in (begin + hubs).tolist():
        sums = _hub_pieces(arrays, int(indptr[hub]), int(indptr[hub + 1]), threads)
        fits.append(arrays.finish(hub, sums, row_scale, self_loops))
    return all(fits)


def run_on_threads(task: Callable[[Any], Any], pieces: list[Any], threads: int | None) -> list[Any]:
    """Call a function that releases Python's lock for all pieces; results in their order."""
    threads = numba.config.NUMBA_NUM_THREADS if threads is None else threads
    if threads == 1 or len(pieces) <= 1:
        return [task(piece) for piece in pieces]
    with ThreadPoolExecutor(min(threads, len(pieces))) as pool:
        return list(pool.map(task, pieces))


def _hub_pieces(arrays: _Arrays, start: int, stop: int, threads: int) -> list[NDArray[np.float32]]:
    """Sums of one row's edges, piece by piece."""
    bounds = np.array([*range(start, stop, HUB_EDGES), stop], dtype=np.int64)
    parts = np.empty((len(bounds) - 1, arrays.columns), dtype=np.float32)
    read, scale, write = _constant(bounds), _constant(_ONES), (_flat(parts), _pitch(parts))

    def piece(part: int) -> None:
        for block in _blocks(arrays.columns):
            sum_rows(
                read, arrays.offset, part, part + 1, *arrays.read, *block, False, scale, *write
            )  # fmt: skip

    run_on_threads(piece, list(range(len(parts))), threads)
    return list(parts)


class _Arrays:
    """The arrays of one product, in the few types that the kernel is compiled for."""

    def __init__(
        self,
        indices: NDArray[Any],
        weights: NDArray[np.float32] | None,
        x: NDArray[Any],
        out: NDArray[Any],
        offset: int = 0,
    ) -> None:
        self.x, self.out, self.columns, self.offset = x, out, x.shape[1], offset
        if out.size:
            self.read = _constant(indices), _constant(weights), _constant(_flat(x)), _pitch(x)
            self.write = _flat(out), _pitch(out)

    def finish(
        self,
        row: int,
        pieces: list[NDArray[np.float32]],
        row_scale: NDArray[np.float32] | None,
        self_loops: bool,
    ) -> bool:
        """Add the pieces of a row, in their order, and store it; false if it overflowed."""
        total = functools.reduce(np.add, pieces)
        if self_loops:
            total = total + self.x[row].astype(np.float32)
        with np.errstate(over="ignore"):
            self.out[row] = total if row_scale is None else total * row_scale[row]
        return self.out.dtype != np.float16 or bool(np.isfinite(self.out[row]).all())


class _Block(NamedTuple):
    """A range of columns, as vectors that the kernel knows."""

    column: int
    shape: int
    """Place in `SHAPES`."""
    overlap: int
    """Offset of the last vector."""


def _blocks(columns: int) -> list[_Block]:
    """Cut the columns into blocks; a short last one starts earlier and overlaps the one before."""
    blocks = []
    for first in range(0, columns, BLOCK_COLUMNS):
        width = max(min(BLOCK_COLUMNS, columns - first), min(LANES, columns))
        shape = next(
            place
            for place, (lanes, vectors) in enumerate(SHAPES)
            if lanes <= width <= lanes * vectors
        )
        blocks.append(_Block(min(first, columns - width), shape, width - SHAPES[shape][0]))
    return blocks


def _row_ranges(
    indptr: NDArray[np.int64], hubs: NDArray[np.int64], threads: int
) -> list[tuple[int, int]]:
    """Ranges of rows between the hubs, of about equal cost."""
    count = len(indptr) - 1

    def cost(row: int) -> int:
        return int(indptr[row]) - int(indptr[0]) + ROW_COST * row

    # Several tasks per thread: a core that is slowed down by another program gets fewer of them.
    tasks = min(max(cost(count) // TASK_COST, 1), 16 * threads)
    targets = (cost(count) * task // tasks for task in range(1, tasks))
    cuts = [0, *(bisect_left(range(count), target, key=cost) for target in targets), count]
    ranges = []
    for first, last in itertools.pairwise(cuts):
        inside = hubs[np.searchsorted(hubs, first) : np.searchsorted(hubs, last)]
        edges = [first, *(place for hub in inside for place in (int(hub), int(hub) + 1)), last]
        ranges += [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
    return ranges


def _constant(array: NDArray[Any] | None) -> NDArray[Any] | None:
    """A read-only view: numba compiles once more for every mix of writable arguments."""
    if array is None:
        return None
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _pitch(matrix: NDArray[Any]) -> int:
    return int(matrix.strides[0] // matrix.itemsize)


def _flat(matrix: NDArray[Any]) -> NDArray[Any]:
    """The memory between a matrix's first and last element as one flat array."""
    size = (matrix.shape[0] - 1) * _pitch(matrix) + matrix.shape[1]
    flat = as_strided(np.asarray(matrix), shape=(size,), strides=(matrix.itemsize,))
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat
