"""Speed of propagation beside torch, SciPy, PyG and the memory's own limit, in one run.

    python benchmarks/propagation.py

One power-law graph of a million nodes and 24 million undirected edges, 128 columns, symmetric
normalization, the same number of threads for all. Two questions:

    one hop    A X from features in memory to a result in memory. Peers (`peers.py`) multiply with
               a matrix whose values were normalized before the clock started; ours scales rows
               first, within the clock.
    all hops   from a graph and features to the array (nodes, hops + 1, columns) that encoders
               read. Peers normalize, multiply, and stack; ours is `scr.propagate`.

Contestants take turns, so that a disturbance of the machine meets all of them; the median of the
rounds counts. Beside each is how many bytes of neighbors' rows it gathers per second, as a multiple
of the speed at which this machine reads memory in order (`bandwidth.py`). Writes
results/propagation.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from rich.table import Table

import scr
from bandwidth import memory_limits
from code_version import code_version
from harness import RESULTS, console, processor, shown_script, versions
from peers import INDEX_ADD, SCIPY, TORCH, one_hop_peers, pyg_sign, torch_hops
from scr.compute import aligned_empty
from scr.graph import Graph
from scr.propagation import NormalizedAdjacency, normalize
from scr.propagation._steps import advance, fill

OUT = RESULTS / "propagation.json"
TARGETS = {"scr float32": 1.5, "scr float16": 2.6}
"""Least speed of one hop, as a multiple of torch's CSR product."""
SLOW = (SCIPY, INDEX_ADD)


def power_law_graph(nodes: int, edges: int, columns: int, seed: int = 0) -> Graph:
    """Random edges whose ends have degrees like rank^-1/2, under shuffled node numbers."""
    rng = np.random.default_rng(seed)
    drawn = (nodes * rng.random((2, edges + edges // 10)) ** 2).astype(np.int64)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    keys = np.unique((low * nodes + high)[low != high])
    if len(keys) < edges:
        raise SystemExit(f"only {len(keys):,} different edges were drawn; use fewer edges")
    keep = np.ones(len(keys), dtype=bool)
    keep[rng.choice(len(keys), len(keys) - edges, replace=False)] = False
    keys = keys[keep]
    names = rng.permutation(nodes).astype(np.int32)
    one, other = names[keys // nodes], names[keys % nodes]
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    matrix = sp.coo_array((np.ones(2 * edges, dtype=np.int8), ends), shape=(nodes, nodes)).tocsr()
    matrix.sort_indices()
    return Graph(
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.int32),
        features=rng.standard_normal((nodes, columns), dtype=np.float32),
        labels=np.full(nodes, -1),
        name="power law",
    )


def one_hop_contestants(graph: Graph, threads: int) -> dict[str, Callable[[], Any]]:
    """Functions that compute A X once."""
    adjacency = normalize(graph, norm="sym")
    peers = one_hop_peers(graph)
    return {
        TORCH: peers.pop(TORCH),
        "scr float32": _hop(graph, adjacency, "float32", threads),
        "scr float16": _hop(graph, adjacency, "float16", threads),
        **peers,
    }


def _hop(graph: Graph, adjacency: NormalizedAdjacency, dtype: str, threads: int) -> Any:
    shape = (graph.num_nodes, graph.num_features)
    source, spare, out = (aligned_empty(shape, dtype) for _ in range(3))
    fill(source, graph.features)

    def run() -> np.ndarray:
        advance(adjacency, source, out, spare, threads=threads)
        return out

    return run


def all_hops_contestants(graph: Graph, hops: int, threads: int) -> dict[str, Callable[[], Any]]:
    """Functions that make the array of all hops."""
    found: dict[str, Callable[[], Any]] = {
        TORCH: lambda: torch_hops(graph.indptr, graph.indices, graph.features, hops),
        "scr float32": lambda: scr.propagate(graph, hops, threads=threads),
        "scr float16": lambda: scr.propagate(graph, hops, dtype="float16", threads=threads),
    }
    sign = pyg_sign(graph, hops)
    return found if sign is None else {**found, "PyG SIGN float32": sign}


def measure(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant in each round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            # What does not compete needs no more than two rounds to tell.
            if name in SLOW and turn > 2:
                continue
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def summarize(
    seconds: dict[str, list[float]],
    graph: Graph,
    products: int,
    targets: dict[str, float],
    limits: dict[str, float],
) -> list[dict[str, Any]]:
    """One row per contestant: median, ratio to torch, bytes of rows gathered per second."""
    base = statistics.median(seconds[TORCH])
    rows = []
    for name, values in seconds.items():
        median = statistics.median(values)
        row_bytes = graph.num_features * (2 if "float16" in name else 4)
        gathered = products * graph.num_edges * row_bytes / median / 1e9
        rows.append({
            "name": name, "median_seconds": round(median, 4),
            "fastest_seconds": round(min(values), 4), "seconds": [round(v, 4) for v in values],
            "times_torch": round(base / median, 3), "target": targets.get(name),
            "gathered_gb_per_second": round(gathered, 2),
            "times_read_bandwidth": round(gathered / limits["read"], 3),
        })  # fmt: skip
    return rows


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """Print one comparison."""
    table = Table(title=title)
    for heading in ("", "median s", "fastest s", "x torch", "target", "gathered GB/s", "x reading"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:.1f}"
        table.add_row(
            row["name"], f"{row['median_seconds']:.3f}", f"{row['fastest_seconds']:.3f}",
            f"{row['times_torch']:.2f}", target, f"{row['gathered_gb_per_second']:.1f}",
            f"{row['times_read_bandwidth']:.2f}",
        )  # fmt: skip
    console.print(table)


def largest_errors(graph: Graph, contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Largest difference to torch, to show that all compute the same."""
    expected = contestants[TORCH]().numpy()
    return {
        name: float(np.abs(np.asarray(run()) - expected).max())
        for name, run in contestants.items()
        if name != TORCH
    }


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=24_000_000, help="undirected")
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--hops", type=int, default=3, help="of the second question")
    parser.add_argument("--rounds", type=int, default=7, help="of the first question")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    torch.set_num_threads(options.threads)
    with console.status("drawing a graph"):
        graph = power_law_graph(options.nodes, options.edges, options.columns)
    size = (
        f"{graph.num_nodes:,} nodes, {options.edges:,} edges, {options.columns} columns, "
        f"{options.threads} threads"
    )
    with console.status("memory"):
        limits = memory_limits(columns=options.columns, threads=options.threads)
    found = ", ".join(f"{name} {speed:.1f}" for name, speed in limits.items())
    console.print(f"Memory, GB/s: {found}")
    with console.status("one hop"):
        contestants = one_hop_contestants(graph, options.threads)
        one = summarize(measure(contestants, options.rounds), graph, 1, TARGETS, limits)
        errors = largest_errors(graph, contestants)
        del contestants
    print_rows(f"One hop: {size}", one)
    with console.status("all hops"):
        contestants = all_hops_contestants(graph, options.hops, options.threads)
        rounds = max(options.rounds // 2, 1)
        every = summarize(measure(contestants, rounds), graph, options.hops, {}, limits)
    print_rows(f"From graph to {options.hops} hops: {size}", every)
    result = {
        "command": shown_script(),
        "nodes": graph.num_nodes, "undirected_edges": options.edges,
        "columns": options.columns, "threads": options.threads, "norm": "sym",
        "largest_degree": int(np.diff(graph.indptr).max()),
        "memory_gb_per_second": limits,
        "one_hop": one, "all_hops": {"hops": options.hops, "rows": every},
        "largest_difference_to_torch": errors,
        "processor": processor(),
        "versions": versions(),
        "code": code_version("propagation"),
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"Wrote {options.out}")


if __name__ == "__main__":
    main()
