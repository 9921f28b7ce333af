"""How fast this machine's memory can be read, whatever is computed: the limit of propagation.

    python benchmarks/bandwidth.py

Read, copy and triad are those of STREAM (McCalpin 1995), each over arrays far larger than the
cache, by all threads at once; the best of the rounds counts, as there. `random rows` reads rows of
a matrix in random order, which is what a hop does: with power-law degrees some rows are in the
cache, so a hop may be faster than this.

As a program, it measures what bounds a hop of narrow rows on a large graph, and writes
results/roofline.json: cache lines gathered from anywhere in some gigabytes, with prefetches some
lines ahead, in large and in small pages; the first touch of fresh memory; memory read in order;
writes through the page cache, long ones and short ones, each after the memory had been free for as
long as the host of a virtual machine takes to fetch it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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


LINE = 64
LINES_AHEAD = (16, 64, 256, 512)
"""Lines between a prefetch and its use that are tried; the best counts."""


@intrinsic
def _prefetch(typingctx: Any, array: Any, element: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0",
        )
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [pointer, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@numba.njit(nogil=True, fastmath=True)
def _gather(lines: Any, order: Any, ahead: int) -> float:
    total, last, width = np.float32(0), len(order) - 1, LINE // 4
    for place in range(len(order)):
        _prefetch(lines, np.int64(order[min(place + ahead, last)]) * width)
        total += lines[np.int64(order[place]) * width]  # one number brings the line
    return total


def gathered_lines(
    *, gigabytes: float, threads: int, large_pages: bool, count: int = 1 << 24, rounds: int = 3
) -> dict[str, float]:
    """Nanoseconds per cache line gathered from anywhere, and gigabytes per second first touched."""
    kept = np._core.multiarray._set_madvise_hugepage(large_pages)  # type: ignore[attr-defined]
    try:
        lines = np.empty(int(gigabytes * 2**30) // 4, np.float32)
        with ThreadPoolExecutor(threads) as pool:
            started = time.perf_counter()
            list(pool.map(lambda part: part.fill(1), np.array_split(lines, threads)))
            touched = time.perf_counter() - started
            rng, places = np.random.default_rng(0), len(lines) * 4 // LINE
            orders = [rng.integers(0, places, count, dtype=np.int32) for _ in range(threads)]
            _gather(lines, orders[0][:100], 1)  # compiles
            best = float("inf")
            for ahead in LINES_AHEAD:
                for _ in range(rounds):
                    started = time.perf_counter()
                    list(pool.map(lambda order, n=ahead: _gather(lines, order, n), orders))
                    best = min(best, time.perf_counter() - started)
    finally:
        np._core.multiarray._set_madvise_hugepage(kept)  # type: ignore[attr-defined]
    return {
        "ns_per_line": round(best / (count * threads) * 1e9, 2),
        "touched_gb_per_second": round(lines.nbytes / touched / 1e9, 2),
    }


def cached_writes(size: int, *, gigabytes: float, rest: float = 15.0) -> float:
    """Gigabytes per second that are written to a file through the page cache, in such writes."""
    data = memoryview(np.ones(size, np.uint8))
    with tempfile.TemporaryFile(buffering=0, dir=".") as file:
        time.sleep(rest)
        count = int(gigabytes * 2**30) // size
        started = time.perf_counter()
        for _ in range(count):
            os.write(file.fileno(), data)
        return round(count * size / (time.perf_counter() - started) / 1e9, 2)


def main() -> None:
    """Measure the limits of a hop of narrow rows."""
    from harness import RESULTS, Results, console

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=6.0, help="of the matrix, in 2^30")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    results = Results(RESULTS / "roofline.json", {"gigabytes": options.gigabytes})
    for size in (1 << 26, 1 << 17):
        key = {"what": "cached writes", "bytes": size}
        row = {"gb_per_second": cached_writes(size, gigabytes=options.gigabytes / 4)}
        console.print(key, results.add(key, row))
    for threads in options.threads:
        for large in (True, False):
            row = gathered_lines(gigabytes=options.gigabytes, threads=threads, large_pages=large)
            key = {"what": "random lines", "threads": threads, "large_pages": large}
            console.print(key, results.add(key, row))
        limits = memory_limits(columns=32, threads=threads)
        key = {"what": "in order", "threads": threads}
        console.print(key, results.add(key, limits))


if __name__ == "__main__":
    main()
