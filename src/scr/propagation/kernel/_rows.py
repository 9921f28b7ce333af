"""Rows of a sparse-dense product, summed in pieces of about equal cost on all cores.

Work is cut into row ranges with about equal numbers of edges, not of rows: in a power-law graph
equal numbers of rows would leave most cores waiting for the one with the hubs. A row with very
many edges is cut itself. Where the cuts lie inside a row does not depend on the number of
threads, and each piece is summed in the order of its edges by one thread, so the result is the
same to the last bit for any number of threads.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from scr.compute import default_threads, read_only, run_on_threads
from scr.propagation.kernel._vector import LANES, SHAPES, sum_rows

BLOCK_COLUMNS = max(lanes * vectors for lanes, vectors in SHAPES)
"""Columns summed at once."""
HUB_EDGES = 1 << 17
"""A row with more edges than this is cut into pieces of this many."""
TASK_COST = 1 << 17
"""Smallest piece of work worth a thread, in edges."""
SMALL_COST = 1 << 13
"""Work for which starting threads takes longer than it saves, in edges."""
ROW_COST = 2
"""What a row costs beside its edges, in edges."""
SCALED_ROWS = 1 << 21
"""Rows scaled at once, so that the empty bounds of their edges take little memory."""
_ONES = np.zeros(0, dtype=np.float32)
"""No scales: an empty array rather than none, since numba compiles once more for each type."""


class EdgeChunk(NamedTuple):
    """Rows whose edges are at hand, all of them; or one hub's row of which some pieces are."""

    first: int
    last: int
    """Row after the last."""
    start: int
    """First edge."""
    stop: int
    """Edge after the last."""


@dataclass(eq=False)
class RowArrays:
    """What rows are summed from, also in the few types that the kernel is compiled for."""

    indices: NDArray[Any]
    weights: NDArray[np.float32] | None
    x: NDArray[Any]
    out: NDArray[Any]
    offset: int = 0
    """Number of the first of the edges, which may be a part of all."""
    row_scale: NDArray[np.float32] | None = None
    """One per row of `out`; none: all are 1."""
    self_loops: bool = False

    def __post_init__(self) -> None:
        if self.out.size:
            edges, x = (constant(self.indices), constant(self.weights)), constant(flat(self.x))
            self.read = *edges, x, pitch(self.x)
            self.write = flat(self.out), pitch(self.out)

    def finish(self, row: int, pieces: list[NDArray[np.float32]], place: int | None = None) -> bool:
        """Add the pieces of a row, in their order, and store it; false if it overflowed.

        `place` is that of the row in the output, where this has some rows only.
        """
        total, place = functools.reduce(np.add, pieces), row if place is None else place
        if self.self_loops:
            total = total + self.x[row].astype(np.float32)
        with np.errstate(over="ignore"):
            self.out[place] = total if self.row_scale is None else total * self.row_scale[row]
        return self.out.dtype != np.float16 or bool(np.isfinite(self.out[place]).all())


def sum_ranges(
    indptr: NDArray[np.int64],
    arrays: RowArrays,
    threads: int | None,
    within: tuple[int, int] | None = None,
) -> bool:
    """Run the kernel over all rows, or those within a range, and over all blocks of columns."""
    if arrays.out.size == 0:
        return True
    threads = default_threads() if threads is None else threads
    bounds, own = constant(indptr), arrays.self_loops
    scale = constant(_ONES if arrays.row_scale is None else arrays.row_scale)
    begin, end = (0, len(indptr) - 1) if within is None else within
    near = indptr[begin : end + 1]
    hubs = np.flatnonzero(np.diff(near) > HUB_EDGES)
    if near[-1] - near[0] + ROW_COST * (end - begin) < SMALL_COST:
        threads = 1
    ranges = [(begin + first, begin + last) for first, last in _row_ranges(near, hubs, threads)]
    pieces = itertools.product(_blocks(arrays.x.shape[1]), ranges)

    def rows(piece: tuple[_Block, tuple[int, int]]) -> int:
        block, (first, last) = piece
        return sum_rows(
            bounds, arrays.offset, first, last, *arrays.read, *block, own, scale, *arrays.write
        )  # fmt: skip

    fits = not any(run_on_threads(rows, list(pieces), threads))
    return sum_hubs(indptr, begin + hubs, arrays, threads) and fits


def sum_hubs(
    indptr: NDArray[np.int64],
    hubs: NDArray[np.int64],
    arrays: RowArrays,
    threads: int | None,
    places: NDArray[np.int64] | None = None,
) -> bool:
    """Sum rows that are each cut into pieces; false if a float16 result overflowed."""
    fits = True
    for hub, place in zip(
        hubs.tolist(), (hubs if places is None else places).tolist(), strict=True
    ):
        sums = hub_pieces(arrays, int(indptr[hub]), int(indptr[hub + 1]), threads)
        fits &= arrays.finish(hub, sums, place)
    return fits


def scale_rows(
    matrix: NDArray[Any],
    scale: NDArray[np.float32] | None,
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Copy a matrix with each row multiplied by its scale, between float32 and float16 as needed.

    This is the product with a matrix that has nothing but its diagonal; false if it overflowed.
    """
    no_edges = np.zeros(min(len(matrix), SCALED_ROWS) + 1, dtype=np.int64)
    no_neighbors, fits = np.zeros(0, dtype=np.int32), True
    for start in range(0, len(matrix), SCALED_ROWS):
        part = slice(start, min(start + SCALED_ROWS, len(matrix)))
        factors = None if scale is None else scale[part]
        arrays = RowArrays(no_neighbors, None, matrix[part], out[part], 0, factors, True)
        fits &= sum_ranges(no_edges[: len(arrays.out) + 1], arrays, threads)
    return fits


def hub_pieces(
    arrays: RowArrays, start: int, stop: int, threads: int | None
) -> list[NDArray[np.float32]]:
    """Sums of one row's edges, piece by piece."""
    bounds = np.array([*range(start, stop, HUB_EDGES), stop], dtype=np.int64)
    parts = np.empty((len(bounds) - 1, arrays.x.shape[1]), dtype=np.float32)
    read, scale, write = constant(bounds), constant(_ONES), (flat(parts), pitch(parts))

    def piece(part: int) -> None:
        for block in _blocks(arrays.x.shape[1]):
            sum_rows(
                read, arrays.offset, part, part + 1, *arrays.read, *block, False, scale, *write
            )  # fmt: skip

    run_on_threads(piece, list(range(len(parts))), threads)
    return list(parts)


class _Block(NamedTuple):
    """A range of columns, as vectors that the kernel knows."""

    column: int
    shape: int
    """Place in `SHAPES`."""
    overlap: int
    """Offset of the last vector."""


def blocks_overlap(columns: int) -> bool:
    """Whether some columns are written twice, so that rows cannot be scaled in place."""
    blocks = _blocks(columns)
    return any(
        second.column < first.column + SHAPES[first.shape][0] + first.overlap
        for first, second in itertools.pairwise(blocks)
    )


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


def constant(array: NDArray[Any] | None) -> NDArray[Any] | None:
    """`read_only` of an array that may be missing."""
    return None if array is None else read_only(array)


def pitch(matrix: NDArray[Any]) -> int:
    """Elements from the start of one row to that of the next."""
    return int(matrix.strides[0] // matrix.itemsize)


def flat(matrix: NDArray[Any]) -> NDArray[Any]:
    """The memory between a matrix's first and last element as one flat array."""
    size = (matrix.shape[0] - 1) * pitch(matrix) + matrix.shape[1]
    memory = as_strided(np.asarray(matrix), shape=(size,), strides=(matrix.itemsize,))
    return memory.view(np.uint16) if memory.dtype == np.float16 else memory
