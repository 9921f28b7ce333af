"""Run a compiled loop on all cores: rows are cut into ranges, one thread takes each.

The loops release the interpreter lock, so plain Python threads suffice. That compiles ten times
faster than numba's own parallel loops, may be called from several threads at once, and follows
`torch.set_num_threads`. No kernel's result depends on how the rows are cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar, cast

import numba
import torch

P = ParamSpec("P")
R = TypeVar("R")

_SMALL = 1 << 15
"""Numbers below which waking a second thread costs more than it saves (about 20 us)."""

_pools: dict[int, ThreadPoolExecutor] = {}
# A forked child inherits the dictionary but none of the threads.
os.register_at_fork(after_in_child=_pools.clear)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over numpy arrays, once per machine; it runs without the interpreter lock.

    Sums along a row may be reordered and products fused, so that they use vector registers.
    """
    jit = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
    return cast("Callable[P, R]", jit(function))


def run_ranges(kernel: Callable[..., None], count: int, size: int, *arguments: Any) -> None:
    """Call ``kernel(*arguments, start, stop)`` for ranges that together cover ``0..count``.

    Args:
        kernel: A compiled loop over a range of rows.
        count: Rows, or blocks of rows.
        size: Numbers touched in all, which decides whether threads pay.
        *arguments: Passed on.
    """
    threads = min(torch.get_num_threads(), count)
    if threads < 2 or size < _SMALL:
        kernel(*arguments, 0, count)
        return
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools[threads] = ThreadPoolExecutor(threads - 1, "scr-kernel")
    edges = [count * part // threads for part in range(threads + 1)]
    others = [pool.submit(kernel, *arguments, start, stop) for start, stop in pairwise(edges[1:])]
    kernel(*arguments, edges[0], edges[1])
    for other in others:
        other.result()
