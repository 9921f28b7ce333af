"""The product of a normalized adjacency with a dense matrix, on all cores.

The compiled code releases Python's lock, so plain threads run it: no threading layer to clash with
torch's, and safe after `fork`. It is cached on disk; later processes only load it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, sum_ranges
from scr.propagation.kernel._tiles import product_by_tiles, tiles_may_pay

PROBE_EDGES, PROBES = 1 << 22, 3
"""Edges by which the speed of a way is measured, tens of milliseconds, and how often: the fastest
counts, since whatever else runs on the machine only makes it slower."""


def product(
    adjacency: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Multiply a matrix whose rows are scaled already: out = R (W + s I) scaled.

    Returns false if a float16 result overflowed.

    The scales of the columns are not applied here. Reading one of them per edge, from an array
    that no cache level near the core can hold, costs up to a third more time than scaling the
    rows of the matrix once beforehand (`scale_rows`).

    Args:
        adjacency: The edges, their weights W, the row scales R, self-loops (s = 1) or none (0).
        scaled: C X. Shape (nodes, columns), float32 or float16; rows may lie apart, columns not.
        out: Another array of the same shape.
        threads: Cores to use; all that numba may use by default.
    """
    chunk = EdgeChunk(0, adjacency.num_nodes, 0, adjacency.num_edges)
    arrays = RowArrays(
        adjacency.indices, adjacency.weights, scaled, out, 0, adjacency.row_scale,
        adjacency.self_loops,
    )  # fmt: skip
    return product_rows(adjacency.indptr, chunk, arrays, threads)


def product_rows(
    indptr: NDArray[np.int64], chunk: EdgeChunk, arrays: RowArrays, threads: int | None
) -> bool:
    """The rows of a chunk of `product`, from all of their edges, which are those of the arrays."""
    if arrays.out.size and tiles_may_pay(arrays.x, arrays.weights):
        return _by_the_faster(indptr, chunk, arrays, threads)
    return _in_registers(indptr, chunk, arrays, threads)


def _in_registers(
    indptr: NDArray[np.int64], chunk: EdgeChunk, arrays: RowArrays, threads: int | None
) -> bool:
    return sum_ranges(indptr, arrays, threads, (chunk.first, chunk.last))


_WAYS: tuple[Callable[..., bool], ...] = (_in_registers, product_by_tiles)
_seconds: dict[int, list[float]] = {}
"""Per edge, of the ways in turns, by the bits of a matrix' size; as far as measured."""


def _by_the_faster(
    indptr: NDArray[np.int64], chunk: EdgeChunk, arrays: RowArrays, threads: int | None
) -> bool:
    """Go the way that was faster on this machine; both give the same to the last bit.

    Which one is depends on the processor and on whether the system had large pages to give.
    """
    seconds = _seconds.setdefault(arrays.x.nbytes.bit_length(), [])
    rest, fits, ways, most = chunk, True, len(_WAYS), PROBES * len(_WAYS)
    while len(seconds) < most and int(indptr[rest.last] - indptr[rest.first]) >= PROBE_EDGES:
        probe, rest = _cut(indptr, rest)
        way = _WAYS[len(seconds) % ways]
        # First without a clock: that compiles, and has the system give memory for the result.
        way(indptr, probe, arrays, threads)
        start = time.perf_counter()
        fits &= way(indptr, probe, arrays, threads)
        edges = int(indptr[probe.last] - indptr[probe.first])
        seconds.append((time.perf_counter() - start) / edges)
    if rest.first == rest.last:
        return fits
    way = _in_registers
    if len(seconds) >= ways:
        way = _WAYS[int(np.argmin(seconds)) % ways]
    return way(indptr, rest, arrays, threads) and fits


def _cut(indptr: NDArray[np.int64], chunk: EdgeChunk) -> tuple[EdgeChunk, EdgeChunk]:
    """The first rows of a chunk, as many as a measurement takes, and the others."""
    bounds = indptr[chunk.first : chunk.last + 1]
    row = chunk.first + int(np.searchsorted(bounds, bounds[0] + PROBE_EDGES))
    return chunk._replace(last=row), chunk._replace(first=row)
