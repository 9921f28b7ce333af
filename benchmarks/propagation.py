"""Speed of propagation beside torch and SciPy, in one run.

    python benchmarks/propagation.py

One power-law graph of a million nodes and 24 million undirected edges, 128 columns, symmetric
normalization, the same number of threads for all. Two questions:

    one hop    A X from features in memory to a result in memory. Peers multiply with a matrix
               whose values were normalized before the clock started; ours scales rows first,
               within the clock.
    all hops   from a graph and features to the array (nodes, hops + 1, columns) that encoders
               read. Peers normalize, multiply, and stack; ours is `scr.propagate`.

Contestants take turns, so that a disturbance of the machine meets all of them; the median of the
rounds counts. Writes results/propagation.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

import scr
from scr.graph import Graph
from scr.propagation.memory import aligned_empty
from scr.propagation.normalization import NormalizedAdjacency, normalize
from scr.propagation.steps import advance, fill

RESULTS = Path(__file__).parent / "results" / "propagation.json"
TARGETS = {"scr float32": 1.4, "scr float16": 2.3}
"""Least speed of one hop, as a multiple of torch's CSR product."""

console = Console()


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


def normalized_values(graph: Graph) -> np.ndarray:
    """One float32 per edge: the normalized adjacency as peers store it."""
    scale = np.diff(graph.indptr).clip(1).astype(np.float32) ** -0.5
    return np.repeat(scale, np.diff(graph.indptr)) * scale[graph.indices]


def torch_matrix(graph: Graph, values: np.ndarray) -> torch.Tensor:
    """The adjacency of torch, with 32-bit indices, which are its fastest."""
    parts = (graph.indptr.astype(np.int32), graph.indices, values)
    size = (graph.num_nodes, graph.num_nodes)
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=size)


def torch_hops(graph: Graph, hops: int) -> torch.Tensor:
    """What people do without us: multiply, keep, stack."""
    matrix = torch_matrix(graph, normalized_values(graph))
    made = [torch.from_numpy(graph.features)]
    for _ in range(hops):
        made.append(matrix @ made[-1])
    return torch.stack(made, dim=1)


def one_hop_contestants(graph: Graph, threads: int) -> dict[str, Callable[[], Any]]:
    """Functions that compute A X once."""
    values = normalized_values(graph)
    features = torch.from_numpy(graph.features)
    matrix = torch_matrix(graph, values)
    shape = (graph.num_nodes, graph.num_nodes)
    scipy_matrix = sp.csr_array((values, graph.indices, graph.indptr.astype(np.int32)), shape=shape)
    adjacency = normalize(graph, norm="sym")
    return {
        "torch.sparse_csr float32": lambda: matrix @ features,
        "scr float32": _hop(graph, adjacency, "float32", threads),
        "scr float16": _hop(graph, adjacency, "float16", threads),
        "scipy csr float32, 1 thread": lambda: scipy_matrix @ graph.features,
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
    return {
        "torch.sparse_csr float32": lambda: torch_hops(graph, hops),
        "scr float32": lambda: scr.propagate(graph, hops, threads=threads),
        "scr float16": lambda: scr.propagate(graph, hops, dtype="float16", threads=threads),
    }


def measure(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant in each round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            # SciPy uses one thread and does not compete: two rounds are enough to tell.
            if "scipy" in name and turn > 2:
                continue
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def summarize(
    seconds: dict[str, list[float]], graph: Graph, products: int, targets: dict[str, float]
) -> list[dict[str, Any]]:
    """One row per contestant: median, ratio to torch, bytes of rows gathered per second."""
    base = statistics.median(seconds["torch.sparse_csr float32"])
    rows = []
    for name, values in seconds.items():
        median = statistics.median(values)
        row_bytes = graph.num_features * (2 if "float16" in name else 4)
        gathered = products * graph.num_edges * row_bytes
        rows.append({
            "name": name, "median_seconds": round(median, 4),
            "fastest_seconds": round(min(values), 4), "seconds": [round(v, 4) for v in values],
            "times_torch": round(base / median, 3), "target": targets.get(name),
            "gathered_gb_per_second": round(gathered / median / 1e9, 2),
        })  # fmt: skip
    return rows


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """Print one comparison."""
    table = Table(title=title)
    for heading in ("", "median s", "fastest s", "x torch", "target", "gathered GB/s"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:.1f}"
        table.add_row(
            row["name"], f"{row['median_seconds']:.3f}", f"{row['fastest_seconds']:.3f}",
            f"{row['times_torch']:.2f}", target, f"{row['gathered_gb_per_second']:.1f}",
        )  # fmt: skip
    console.print(table)


def largest_errors(graph: Graph, contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Largest difference to torch, to show that all compute the same."""
    expected = contestants["torch.sparse_csr float32"]().numpy()
    return {
        name: float(np.abs(run() - expected).max())
        for name, run in contestants.items()
        if name.startswith("scr")
    }


def processor() -> str:
    """Name of the processor, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(
            line.split(":")[1].strip() for line in text.splitlines() if "model name" in line
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=24_000_000, help="undirected")
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--hops", type=int, default=3, help="of the second question")
    parser.add_argument("--rounds", type=int, default=7, help="of the first question")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    torch.set_num_threads(options.threads)
    with console.status("drawing a graph"):
        graph = power_law_graph(options.nodes, options.edges, options.columns)
    size = (
        f"{graph.num_nodes:,} nodes, {options.edges:,} edges, {options.columns} columns, "
        f"{options.threads} threads"
    )
    with console.status("one hop"):
        contestants = one_hop_contestants(graph, options.threads)
        one = summarize(measure(contestants, options.rounds), graph, 1, TARGETS)
        errors = largest_errors(graph, contestants)
        del contestants
    print_rows(f"One hop: {size}", one)
    with console.status("all hops"):
        contestants = all_hops_contestants(graph, options.hops, options.threads)
        rounds = max(options.rounds // 2, 1)
        every = summarize(measure(contestants, rounds), graph, options.hops, {})
    print_rows(f"From graph to {options.hops} hops: {size}", every)
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "nodes": graph.num_nodes, "undirected_edges": options.edges,
        "columns": options.columns, "threads": options.threads, "norm": "sym",
        "largest_degree": int(np.diff(graph.indptr).max()),
        "one_hop": one, "all_hops": {"hops": options.hops, "rows": every},
        "largest_difference_to_torch": errors,
        "processor": processor(),
        "versions": {
            "scr": scr.__version__, "python": platform.python_version(),
            "torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__,
            "numba": numba.__version__,
        },
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"Wrote {options.out}")


if __name__ == "__main__":
    main()
