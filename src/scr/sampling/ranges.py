"""Compiled loops over ranges of rows, one Python thread for each range.

The loops release the interpreter lock, so plain threads suffice, and a sampler may be called from
several threads at once, which numba's own parallel loops forbid. No loop's result depends on how
the rows are cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from scr.graph.ordered_threads import default_threads

P = ParamSpec("P")
R = TypeVar("R")

_SMALL = 1 << 13
"""Edges below which waking a second thread costs more than it saves."""

_pools: dict[int, ThreadPoolExecutor] = {}
# A forked child inherits the dictionary but none of the threads.
os.register_at_fork(after_in_child=_pools.clear)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over NumPy arrays, once per machine; it runs without the interpreter lock."""
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True)(function))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: numba compiles once more for every mix of writable arguments."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def run_ranges(
    kernel: Callable[..., Any], ends: NDArray[np.int64], *arguments: Any, threads: int | None
) -> None:
    """Call ``kernel(*arguments, start, stop)`` for ranges of rows that together cover all.

    Args:
        kernel: A compiled loop over a range of rows.
        ends: Work before each row, ascending, and all of it. Shape (rows + 1,).
        *arguments: Passed on.
        threads: How many ranges at most; none: as many as numba may use.
    """
    rows, work = len(ends) - 1, int(ends[-1])
    threads = default_threads() if threads is None else threads
    if threads < 2 or work < _SMALL:
        kernel(*arguments, 0, rows)
        return
    cuts = np.searchsorted(ends, [work * part // threads for part in range(1, threads)])
    places = [0, *cuts.tolist(), rows]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools[threads] = ThreadPoolExecutor(threads - 1, "scr-sampling")
    others = [pool.submit(kernel, *arguments, start, stop) for start, stop in pairwise(places[1:])]
    kernel(*arguments, places[0], places[1])
    for other in others:
        other.result()


def ends_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Running totals that begin with 0, as row offsets do."""
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends


def equal_ends(rows: int, work: int = 1) -> NDArray[np.int64]:
    """Row offsets of rows that are equally much work."""
    return np.arange(rows + 1, dtype=np.int64) * work
