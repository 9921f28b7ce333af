"""How wide a block of columns is best multiplied: the measurements behind `scr.propagation._plan`.

    python benchmarks/block_widths.py

On a random graph, one hop for blocks of several widths, all vectors whole and not; then all hops of
features in memory, computed in their places in the result (`whole`) and in blocks apart from it
(`apart`), whose hops must be the same bytes; and label hops, whose classes are padded to whole
vectors, or not. Both ways take turns, and the medians of the rounds count. Writes
results/block-widths.json.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import RESULTS, Results, console
from scr import Graph
from scr.compute import aligned_empty
from scr.propagation import PropagationConfig, _labels, label_hops, normalize
from scr.propagation._in_memory import hops_in_memory
from scr.propagation.kernel import product

WIDTHS = {"float16": (32, 36, 48, 64, 96, 100, 128, 256), "float32": (16, 32, 64, 100, 128)}
CLASSES, TRAIN_SHARE = 47, 0.08
"""Of ogbn-products."""
FEATURES = (("float16", 100), ("float16", 128), ("float32", 100), ("float32", 128))


def main() -> None:
    """Measure what has no row yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2_400_000)
    parser.add_argument("--degree", type=int, default=25)
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = ("nodes", "degree", "hops", "threads", "rounds")
    settings = {name: getattr(options, name) for name in names}
    results = Results(RESULTS / "block-widths.json", settings)
    ends = np.random.default_rng(0).integers(0, options.nodes, (2, options.nodes * options.degree))
    labels = np.zeros(options.nodes, np.int64)
    graph = Graph.from_edges(ends, labels=labels, num_nodes=options.nodes, undirected=False)
    for dtype, widths in WIDTHS.items():
        for columns in widths:
            key = {"what": "one hop", "dtype": dtype, "columns": columns}
            if results.find(**key) is None:
                console.print(key, results.add(key, one_hop(graph, dtype, columns, options)))
    for dtype, columns in FEATURES:
        key = {"what": "all hops", "dtype": dtype, "columns": columns}
        if results.find(**key) is None:
            console.print(key, results.add(key, all_hops(graph, dtype, columns, options)))
    key = {"what": "label hops", "dtype": "float32", "columns": CLASSES}
    if results.find(**key) is None:
        console.print(key, results.add(key, padded_labels(graph, options)))


def one_hop(
    graph: Graph, dtype: str, columns: int, options: argparse.Namespace
) -> dict[str, float]:
    """Seconds of a product, and nanoseconds per edge and column."""
    adjacency = normalize(graph, norm="row", direction="out")
    x, out = (aligned_empty((graph.num_nodes, columns), dtype) for _ in range(2))
    x[...], out[...] = 1, 0
    seconds = _medians(
        {"hop": lambda: product(adjacency, x, out, threads=options.threads)}, options.rounds
    )["hop"]
    per_column = 1e9 * seconds / graph.num_edges / columns
    return {"seconds": round(seconds, 3), "ns_per_edge_and_column": round(per_column, 4)}


def all_hops(
    graph: Graph, dtype: str, columns: int, options: argparse.Namespace
) -> dict[str, float]:
    """Seconds of all hops in their places, and in blocks apart from them."""
    config: Any = PropagationConfig(hops=options.hops, direction="out", dtype=dtype)
    features = np.random.default_rng(0).random((graph.num_nodes, columns), np.float32)
    made: dict[bool, bytes] = {}

    def run(apart: bool) -> None:
        hops = hops_in_memory(
            graph, config, features, kept=None, subsets=None, width=columns, apart=apart,
            threads=options.threads,
        )  # fmt: skip
        made[apart] = hops[:: graph.num_nodes // 1000].tobytes()

    seconds = _medians({"whole": lambda: run(False), "apart": lambda: run(True)}, options.rounds)
    if made[False] != made[True]:
        raise SystemExit("the hops are not the same bytes")
    return {name: round(found, 2) for name, found in seconds.items()}


def padded_labels(graph: Graph, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the last label hop with classes as they are, and padded."""
    config = PropagationConfig(label_hops=options.hops, label_guard="far", label_direction="out")
    generator = np.random.default_rng(0)
    train = generator.permutation(graph.num_nodes)[: round(TRAIN_SHARE * graph.num_nodes)]
    targets = np.eye(CLASSES, dtype=np.float32)[generator.integers(0, CLASSES, len(train))]
    made: dict[str, bytes] = {}

    def run(name: str, padded: Callable[[int], int]) -> None:
        usual, _labels.padded = _labels.padded, padded
        try:
            hops = label_hops(graph, config, train=train, targets=targets)
        finally:
            _labels.padded = usual
        made[name] = hops[:: graph.num_nodes // 1000].tobytes()

    usual = _labels.padded
    works = {"as they are": lambda: run("as they are", lambda columns: columns),
             "padded": lambda: run("padded", usual)}  # fmt: skip
    seconds = _medians(works, options.rounds)
    if len(set(made.values())) > 1:
        raise SystemExit("the label hops are not the same bytes")
    return {name: round(found, 2) for name, found in seconds.items()}


def _medians(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of each, which take turns, after one round that compiles and touches memory."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if number:
                found[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


if __name__ == "__main__":
    main()
