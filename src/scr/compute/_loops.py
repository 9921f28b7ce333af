"""Compiled loops over ranges of rows, one Python thread for each range.

The loops release the interpreter lock, so plain threads suffice: they compile ten times faster than
numba's own parallel loops and may be called from several threads at once. No loop's result depends
on how the rows are cut.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

SMALL = 1 << 13
"""Numbers below which waking a second thread costs more than it saves (about 20 us)."""
REORDERED = frozenset({"reassoc", "contract", "nsz"})
"""Freedom to reorder sums along a row and to fuse products, so that they use vector registers."""

CACHE_LINE = 64

_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    # A forked child inherits the dictionary but none of the threads.
    os.register_at_fork(after_in_child=_pools.clear)


def compiled(function: Function, **settings: Any) -> Function:
    """Compile a loop over NumPy arrays when it is first called; it runs without Python's lock.

    The result is cached on disk, unless there is no folder that may be written, or none any more
    when there is something to keep.
    """
    try:
        loop = numba.njit(nogil=True, cache=True, **settings)(function)
    except RuntimeError:  # numba found no folder for its cache
        return cast(Function, numba.njit(nogil=True, **settings)(function))
    if hasattr(loop, "_cache"):  # not where compilation is switched off
        _forgive(loop._cache)
    return cast(Function, loop)


def _forgive(cache: Any) -> None:
    """Let a loop run uncached if the disk of its cache is full, or may no longer be written."""

    def forgiving(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except OSError:
                cache.disable()
                return None

        return call

    cache.save_overload, cache.load_overload = map(
        forgiving, (cache.save_overload, cache.load_overload)
    )


def compiled_reordered(function: Function) -> Function:
    """As `compiled`, where the order of floating-point sums within a row may change."""
    return compiled(function, fastmath=set(REORDERED))


def compiled_parallel(function: Function) -> Function:
    """As `compiled`, with numba's own threads for its `prange` loops."""
    return compiled(function, parallel=True)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: numba compiles once more for every mix of writable arguments."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialized array whose first element starts on a cache line.

    A vector load that straddles two cache lines costs two. NumPy's large arrays start 16 bytes into
    a page, so every 64-byte load of an aligned-looking row would straddle.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(kind).reshape(shape)


def default_threads() -> int:
    """As many threads as numba may use."""
    return int(numba.config.NUMBA_NUM_THREADS)


def run_ranges(
    kernel: Callable[..., Any], ends: NDArray[np.int64], *arguments: Any, threads: int | None
) -> None:
    """Call ``kernel(*arguments, start, stop)`` for ranges of rows that together cover all.

    `ends` is the work before each row, ascending, and all of it: shape (rows + 1,). There are at
    most `threads` ranges; none: as many as numba may use.
    """
    rows, work = len(ends) - 1, int(ends[-1])
    threads = default_threads() if threads is None else threads
    if threads < 2 or work < SMALL:
        kernel(*arguments, 0, rows)
        return
    cuts = np.searchsorted(ends, [work * part // threads for part in range(1, threads)])
    run_between(kernel, [0, *cuts.tolist(), rows], *arguments)


def run_between(kernel: Callable[..., Any], bounds: Sequence[int], *arguments: Any) -> None:
    """Call ``kernel(*arguments, start, stop)`` between each two bounds, each on its own thread."""
    threads = len(bounds) - 1
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools[threads] = ThreadPoolExecutor(threads - 1, "scr-loops")
    others = [pool.submit(kernel, *arguments, start, stop) for start, stop in pairwise(bounds[1:])]
    kernel(*arguments, bounds[0], bounds[1])
    for other in others:
        other.result()


def ends_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Running totals that begin with 0, as row offsets do."""
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends


def cut_rows(
    indptr: NDArray[np.int64], first: int, last: int, *, edges: int, rows: int
) -> list[tuple[int, int]]:
    """Ranges of the rows `first` to `last`, each with at most so many edges and rows, or of a
    single longer row.
    """
    cuts = []
    while first < last:
        near = indptr[first : min(first + rows, last) + 1]
        count = int(np.searchsorted(near, near[0] + edges, side="right")) - 1
        cuts.append((first, first + max(count, 1)))
        first = cuts[-1][1]
    return cuts


def equal_ends(rows: int, work: int = 1) -> NDArray[np.int64]:
    """Row offsets of rows that are equally much work."""
    return np.arange(rows + 1, dtype=np.int64) * work
