"""How fast this machine's memory can be read, whatever is computed: the limit of propagation.

Read, copy and triad are those of STREAM (McCalpin 1995), each over arrays far larger than the
cache, by all threads at once; the best of the rounds counts, as there. `random rows` reads rows of
a matrix in random order, which is what a hop does: with power-law degrees some rows are in the
cache, so a hop may be faster than this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_parallel: Callable[..., Any] = numba.njit(parallel=True, fastmath=True, cache=True)
_MIB = 2**20


@_parallel
def _read(array: Any) -> float:
    total = np.float32(0)
    for place in numba.prange(len(array)):
        total += array[place]
    return total


@_parallel
def _copy(source: Any, target: Any) -> None:
    for place in numba.prange(len(source)):
        target[place] = source[place]


@_parallel
def _triad(first: Any, second: Any, target: Any) -> None:
    for place in numba.prange(len(target)):
        target[place] = first[place] + np.float32(3) * second[place]


@_parallel
def _random_rows(matrix: Any, order: Any) -> float:
    total = np.float32(0)
    for place in numba.prange(len(order)):
        row = matrix[order[place]]
        sum_of_row = np.float32(0)
        for column in range(matrix.shape[1]):
            sum_of_row += row[column]
        total += sum_of_row
    return total


def memory_limits(
    *, columns: int, threads: int, megabytes: int = 512, rounds: int = 5
) -> dict[str, float]:
    """Gigabytes per second of each way to go through memory.

    Args:
        columns: Of the rows that are read in random order, in float32.
        threads: Cores to use.
        megabytes: Size of each array.
        rounds: Of which the best counts.
    """
    numba.set_num_threads(threads)
    count = megabytes * _MIB // 4
    first, second, target = (np.ones(count, np.float32) for _ in range(3))
    matrix = first[: count // columns * columns].reshape(-1, columns)
    order = np.random.default_rng(0).permutation(len(matrix)).astype(np.int32)
    moved = {
        "read": (first.nbytes, lambda: _read(first)),
        "copy": (2 * first.nbytes, lambda: _copy(first, target)),
        "triad": (3 * first.nbytes, lambda: _triad(first, second, target)),
        "random rows": (matrix.nbytes, lambda: _random_rows(matrix, order)),
    }
    found = {}
    for name, (size, run) in moved.items():
        run()  # compiles
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        found[name] = round(size / min(seconds) / 1e9, 2)
    return found
