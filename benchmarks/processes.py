"""What a machine gives to several processes that multiply: the limit of workers on one machine.

    python benchmarks/processes.py STORE

A hop of the features of a store, by nothing but products in memory: no cluster, no disk, no start.
In turns, one process computes all columns with one thread; as many processes as there are cores
compute a block of columns each, at once, as workers of a cluster do; and one process computes all
columns with as many threads, in the blocks of the local engine. Processes have a matrix each,
threads share one, so the first need more of a cache that cores share. On one virtual machine their
time changed by a fifth every few seconds, so the rounds are many, and all are kept. Writes
results/processes.json.

`benchmarks/cluster.py propagate --keep` leaves such a store in its folder `large`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from harness import RESULTS, Results, console
from scr import load_graph
from scr.compute import aligned_empty, default_threads
from scr.propagation import normalize
from scr.propagation._plan import fast_block, padded
from scr.propagation.kernel import product
from scr.storage import ranges

MOST_SECONDS = 600
"""That a round may take; beyond, a process has ended."""


def main() -> None:
    """Measure the rounds that are not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--processes", type=int, default=default_threads())
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS / "processes.json")
    options = parser.parse_args()
    graph = load_graph(str(options.store))
    settings = {
        "nodes": graph.num_nodes, "edges": graph.num_edges // (1 if graph.directed else 2),
        "columns": graph.num_features, "dtype": options.dtype, "processes": options.processes,
    }  # fmt: skip
    results = Results(options.out, settings)
    missing = [n for n in range(options.rounds) if results.find(round=n) is None]
    for number, seconds in zip(missing, rounds(options, len(missing)), strict=True):
        row = results.add({"round": number}, seconds)
        console.print(row)
    console.print(summary(results.rows, options.processes))


def rounds(options: argparse.Namespace, count: int) -> Iterator[dict[str, float]]:
    """Yield the seconds of each round."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(options.processes, timeout=MOST_SECONDS)
    found: Any = context.Queue()
    arguments = options.store, options.dtype, options.processes, count, barrier, found
    others = [
        context.Process(target=take_part, args=(number, *arguments), daemon=True)
        for number in range(options.processes)
    ]
    for each in others:
        each.start()
    for _ in range(count):
        yield found.get(timeout=MOST_SECONDS)
    for each in others:
        each.join()


def take_part(
    number: int, store: Path, dtype: str, processes: int, count: int, barrier: Barrier, found: Any
) -> None:
    """Be one of the processes; the first one also does what one does alone, and tells all."""
    graph = load_graph(str(store))
    adjacency = normalize(graph)
    columns = graph.num_features
    share = padded(-(-columns // processes))
    whole = [padded(columns)]
    blocks = [padded(last - first) for first, last in ranges(columns, fast_block(columns, dtype))]
    mine = _Hop(adjacency, [share], dtype)
    alone = {
        "one process": partial(_Hop(adjacency, whole, dtype).seconds, threads=1),
        "threads": partial(_Hop(adjacency, blocks, dtype).seconds, threads=processes),
    } if number == 0 else {}  # fmt: skip
    for work in (*alone.values(), partial(mine.seconds, threads=1)):
        work()  # compiles, and touches the memory
    for _ in range(count):
        seconds = {name: round(work(), 4) for name, work in alone.items()}
        barrier.wait()
        started = time.perf_counter()
        mine.seconds(threads=1)
        barrier.wait()  # until the last one
        seconds["processes"] = round(time.perf_counter() - started, 4)
        if number == 0:
            found.put(seconds)


class _Hop:
    """A hop of matrices of some widths, one after the other."""

    def __init__(self, adjacency: Any, widths: list[int], dtype: str) -> None:
        self._adjacency, self._widths = adjacency, widths
        size = adjacency.num_nodes * max(widths)
        self._memory = [aligned_empty((size,), dtype) for _ in range(2)]
        for memory in self._memory:
            memory[:] = 1

    def seconds(self, *, threads: int) -> float:
        started = time.perf_counter()
        for width in self._widths:
            size = self._adjacency.num_nodes * width
            x, out = (memory[:size].reshape(-1, width) for memory in self._memory)
            product(self._adjacency, x, out, threads=threads)
        return time.perf_counter() - started


def summary(rows: list[dict[str, Any]], processes: int) -> str:
    """What several processes gain over one, and cost beside as many threads."""
    gains = sorted(row["one process"] / row["processes"] for row in rows)
    costs = sorted(row["processes"] / row["threads"] for row in rows)
    return (
        f"{processes} processes are {statistics.median(gains):.2f} ({gains[0]:.2f} to "
        f"{gains[-1]:.2f}) times as fast as one, and take {statistics.median(costs):.2f} "
        f"({costs[0]:.2f} to {costs[-1]:.2f}) times the time of as many threads"
    )


if __name__ == "__main__":
    main()
