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

import itertools
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from scr.propagation.normalization import NormalizedAdjacency
from scr.propagation.vector import row_product

BLOCK_COLUMNS = 128
"""Columns summed at once: eight registers of AVX-512."""
HUB_EDGES = 1 << 17
"""A row with more edges than this is cut into pieces of this many."""
TASK_COST = 1 << 17
"""Smallest piece of work worth a thread, in edges."""
ROW_COST = 2
"""What a row costs beside its edges, in edges."""


def product(
    adjacency: NormalizedAdjacency,
    matrix: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Write the normalized adjacency times `matrix` into `out`.

    Args:
        adjacency: The graph's edges and scales.
        matrix: Shape (nodes, columns), float32 or float16; rows may lie apart, columns not.
        out: As `matrix`, another array.
        threads: Cores to use; all that numba may use by default.

    Returns:
        False if a float16 result overflowed.
    """
    if out.shape[0] == 0 or out.shape[1] == 0:
        return True
    threads = numba.config.NUMBA_NUM_THREADS if threads is None else threads
    task = _Task(adjacency, matrix, out)
    hubs = np.flatnonzero(np.diff(adjacency.indptr) > HUB_EDGES)
    work: list[Callable[[], bool]] = []
    for block in _blocks(matrix.shape[1]):
        for first, last in _row_ranges(adjacency.indptr, hubs, threads):
            work.append(lambda block=block, first=first, last=last: task.rows(first, last, block))  # type: ignore[misc]
    if len(work) == 1 or threads == 1:
        fits = [job() for job in work]
    else:
        with ThreadPoolExecutor(min(threads, len(work))) as pool:
            fits = list(pool.map(lambda job: job(), work))
    return all(fits) and all(task.hub(int(row), threads) for row in hubs)


class _Block(NamedTuple):
    """A range of columns, as vectors that the kernel knows."""

    column: int
    lanes: int
    vectors: int
    overlap: int


def _blocks(columns: int) -> list[_Block]:
    """Cut the columns into blocks; a short last one starts earlier and overlaps the one before."""
    blocks = []
    for first in range(0, columns, BLOCK_COLUMNS):
        width = min(BLOCK_COLUMNS, columns - first)
        width = max(width, min(16, columns))
        lanes = min(16, 1 << (width.bit_length() - 1))
        vectors = -(-width // lanes)
        blocks.append(_Block(min(first, columns - width), lanes, vectors, width - lanes))
    return blocks


def _row_ranges(
    indptr: NDArray[np.int64], hubs: NDArray[np.int64], threads: int
) -> list[tuple[int, int]]:
    """Ranges of rows between the hubs, of about equal cost."""
    count = len(indptr) - 1

    def cost(row: int) -> int:
        return int(indptr[row]) + ROW_COST * row

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


class _Task:
    """The arrays of one product, in the few types that the kernel is compiled for."""

    def __init__(
        self, adjacency: NormalizedAdjacency, matrix: NDArray[Any], out: NDArray[Any]
    ) -> None:
        self.adjacency, self.out, self.columns = adjacency, out, matrix.shape[1]
        self.edges = (
            _constant(adjacency.indices),
            _constant(adjacency.weights),
            _constant(adjacency.column_scale),
        )
        self.x = _constant(_flat(matrix)), _pitch(matrix)
        self.target = _flat(out), _pitch(out)

    def rows(self, first: int, last: int, block: _Block) -> bool:
        bounds, scale = _constant(self.adjacency.indptr), _constant(self.adjacency.row_scale)
        own = self.adjacency.self_loops
        return bool(
            _rows(bounds, first, last, *self.edges, *self.x, *block, own, scale, *self.target) == 0
        )

    def hub(self, row: int, threads: int) -> bool:
        """One row, piece by piece; the pieces are added in order."""
        start, stop = (int(edge) for edge in self.adjacency.indptr[row : row + 2])
        bounds = _constant(np.array([*range(start, stop, HUB_EDGES), stop], dtype=np.int64))
        parts = np.empty((len(bounds) - 1, self.columns), dtype=np.float32)
        target = _flat(parts), _pitch(parts)

        def piece(part: int) -> None:
            for block in _blocks(self.columns):
                _rows(bounds, part, part + 1, *self.edges, *self.x, *block, False, None, *target)

        with ThreadPoolExecutor(min(threads, len(parts))) as pool:
            list(pool.map(piece, range(len(parts))))
        total = parts.sum(axis=0)
        return self._finish(row, total)

    def _finish(self, row: int, total: NDArray[np.float32]) -> bool:
        flat, pitch = self.x
        adjacency = self.adjacency
        if adjacency.self_loops:
            own = flat[row * pitch : row * pitch + self.columns]
            own = own.view(np.float16) if own.dtype == np.uint16 else own
            scale = adjacency.column_scale
            total += own.astype(np.float32) * (np.float32(1) if scale is None else scale[row])
        if adjacency.row_scale is not None:
            total *= adjacency.row_scale[row]
        with np.errstate(over="ignore"):
            self.out[row] = total
        return bool(np.isfinite(self.out[row]).all())


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


@numba.njit(nogil=True, cache=True)
def _rows_compiled(  # type: ignore[no-untyped-def]
    bounds, first, last, indices, weights, column_scale, x, pitch, column, lanes, vectors, overlap,
    self_loops, row_scale, out, out_pitch,
):  # fmt: skip
    """Rows `first` to `last` of a product, for one block of columns; counts overflowing rows."""
    overflows = 0
    for row in range(first, last):
        own = np.float32(0.0)
        if self_loops:
            own = np.float32(1.0) if column_scale is None else column_scale[row]
        scale = np.float32(1.0) if row_scale is None else row_scale[row]
        start, stop = bounds[row], bounds[row + 1]
        target = row * out_pitch + column
        if lanes == 16 and vectors == 8:
            overflows += row_product(
                16, 8, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 7:
            overflows += row_product(
                16, 7, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 6:
            overflows += row_product(
                16, 6, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 5:
            overflows += row_product(
                16, 5, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 4:
            overflows += row_product(
                16, 4, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 3:
            overflows += row_product(
                16, 3, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 2:
            overflows += row_product(
                16, 2, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 16 and vectors == 1:
            overflows += row_product(
                16, 1, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 8 and vectors == 2:
            overflows += row_product(
                8, 2, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 8 and vectors == 1:
            overflows += row_product(
                8, 1, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 4 and vectors == 2:
            overflows += row_product(
                4, 2, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 4 and vectors == 1:
            overflows += row_product(
                4, 1, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 2 and vectors == 2:
            overflows += row_product(
                2, 2, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 2 and vectors == 1:
            overflows += row_product(
                2, 1, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
        elif lanes == 1 and vectors == 1:
            overflows += row_product(
                1, 1, start, stop, indices, weights, column_scale, x, pitch,
                column, overlap, row, own, scale, out, target,
            )  # fmt: skip
    return overflows


_rows = cast(Callable[..., int], _rows_compiled)
