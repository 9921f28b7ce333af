"""Hops over subsets of relations on a graph of the size of ogbn-mag, beside SciPy.

    python benchmarks/typed.py

Makes a graph of four types with the numbers of nodes and edges of ogbn-mag, drawn with a taste for
low numbers so that degrees are skewed. 128 features are propagated over 8 drawn subsets of
relations for 2 hops: by `scr` to disk and within a given memory, on all cores and on one; by `scr`
with the result in memory; and by SciPy with a CSR matrix per subset, in float32 and with the
result in memory. All start from the same features of all nodes, and the hops of SciPy are compared
with ours. Each runs in a process of its own. Writes results/typed.json.

Rows are kept as they come; a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

NODES = {"paper": 736_389, "author": 1_134_649, "institution": 8_740, "field": 59_965}
EDGES = {
    ("author", "writes", "paper"): 7_145_660,
    ("paper", "cites", "paper"): 5_416_271,
    ("paper", "has_topic", "field"): 7_505_078,
    ("author", "affiliated", "institution"): 1_043_998,
}
COLUMNS, CLASSES, SKEW = 128, 349, 2.0
STEPS = ("make", "propagate", "propagate with one thread", "in-memory", "scipy")
COMPARED_ROWS = 1 << 12


def main() -> None:
    """Read the options; measure every step, or do the work of one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    here = Path(__file__).parent
    parser.add_argument("--fraction", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--subsets", type=int, default=8)
    parser.add_argument("--hops", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16"))
    parser.add_argument("--memory", default="6GiB", help="of the propagation")
    parser.add_argument("--out", type=Path, default=here / "results" / "typed.json")
    parser.add_argument("--work", type=Path, default=Path("typed-work"), help="folder for data")
    parser.add_argument("--keep", action="store_true", help="do not remove the data at the end")
    parser.add_argument("--step", choices=tuple(WORK), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work = options.work.resolve()
    if options.step is None:
        measure_all(options)
        return
    print(json.dumps(WORK[options.step](options)))


def measure_all(options: argparse.Namespace) -> None:
    """One row per step."""
    from harness import Results, measure, remove, say

    names = ("fraction", "subsets", "hops", "dtype", "memory")
    settings = {name: getattr(options, name) for name in names}
    results = Results(options.out, {**settings, "columns": COLUMNS})
    given = [word for name in names for word in (f"--{name}", str(settings[name]))]
    options.work.mkdir(parents=True, exist_ok=True)
    is_made = (options.work / "store").exists() and (options.work / "features.npy").exists()
    for step in STEPS:
        done = results.find(step=step)
        if done and (step != "make" or is_made or all(results.find(step=each) for each in STEPS)):
            continue
        if step.startswith("propagate"):
            remove(options.work / "hops")
        command = [sys.executable, Path(__file__).resolve(), *given, "--work", options.work]
        measured = measure(
            [*command, "--step", step.partition(" ")[0]], folders=[options.work],
            threads=1 if step.endswith("one thread") else None,
        )  # fmt: skip
        found = json.loads(measured.output.splitlines()[-1])
        row = {**measured.row(), **found}
        del row["command"]  # of the child, with the folder of the work
        say(step, results.add({"step": step}, row))
    if not options.keep:
        remove(options.work)


def make(options: argparse.Namespace) -> dict[str, Any]:
    """A store, and features of all nodes."""
    from scr import Graph

    rng = np.random.default_rng(0)
    sizes = {kind: max(int(count * options.fraction), 4) for kind, count in NODES.items()}
    edges = {
        relation: _edges(rng, sizes[relation[0]], sizes[relation[2]], int(count * options.fraction))
        for relation, count in EDGES.items()
    }
    features = rng.standard_normal((sum(sizes.values()), COLUMNS), dtype=np.float32)
    np.save(options.work / "features.npy", features)
    papers = sizes["paper"]
    graph = Graph.from_relations(
        edges, {"paper": features[:papers]}, np.arange(papers) % CLASSES, "paper", num_nodes=sizes
    )
    graph.save(options.work / "store", overwrite=True)
    return {"nodes": graph.num_nodes, "stored_edges": graph.num_edges}


def _edges(rng: np.random.Generator, sources: int, targets: int, count: int) -> Any:
    """So many distinct pairs; the number of a node says how often it is drawn."""
    keys = np.zeros(0, np.int64)
    while len(keys) < count:
        drawn = rng.random((2, count)) ** SKEW * [[sources], [targets]]
        pairs = drawn[0].astype(np.int64) * targets + drawn[1].astype(np.int64)
        keys = np.unique(np.append(keys, pairs))
    return np.stack(np.divmod(rng.permutation(keys)[:count], targets))


def propagate(options: argparse.Namespace) -> dict[str, Any]:
    """Our own, out of core, or with the result in memory."""
    import scr

    graph, features, subsets = _read(options)
    in_memory = options.step == "in-memory"
    started = time.perf_counter()
    made = scr.propagate(
        graph, options.hops, dtype=options.dtype, features=features, subsets=subsets,
        memory="auto" if in_memory else options.memory,
        out=None if in_memory else options.work / "hops",
    )  # fmt: skip
    seconds = time.perf_counter() - started
    return {"work_seconds": round(seconds, 2), "shape": list(made.shape), "bytes": made.nbytes}


def propagate_by_scipy(options: argparse.Namespace) -> dict[str, Any]:
    """The same with a CSR matrix per subset; of the last hop, only target rows are computed."""
    import scipy.sparse as sp

    from scr.compute import peak_bytes
    from scr.propagation import Hops

    graph, features, subsets = _read(options)
    features, targets = np.array(features), graph.num_targets
    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    codes = np.array(graph.edge_types)
    started = time.perf_counter()
    made = [features[:targets].astype(options.dtype)]
    count = graph.num_nodes
    for subset in subsets:
        numbers = [graph.relations.index(relation) for relation in subset]
        chosen = np.isin(codes, [*numbers, *(len(graph.relations) + each for each in numbers)])
        bounds = np.concatenate([[0], np.cumsum(chosen)])[indptr]
        degrees = np.diff(bounds)
        scale = np.divide(1, degrees, where=degrees > 0, out=np.zeros(count)).astype(np.float32)
        values = np.repeat(scale, degrees)
        matrix = sp.csr_array((values, indices[chosen], bounds), shape=(count, count))
        current = features
        for hop in range(1, options.hops + 1):
            current = (matrix if hop < options.hops else matrix[:targets]) @ current
            made.append(current[:targets].astype(options.dtype))
    seconds, memory = time.perf_counter() - started, peak_bytes()  # before they are compared
    hops, worst = Hops.open(options.work / "hops"), 0.0
    for start in range(0, targets, COMPARED_ROWS):
        rows = np.stack([hop[start : start + COMPARED_ROWS] for hop in made], axis=1)
        found = hops.array[start : start + COMPARED_ROWS]
        worst = max(worst, float(np.abs(rows.astype(np.float32) - found).max()))
    return {
        "work_seconds": round(seconds, 2), "memory_bytes": memory, "largest_difference": worst,
    }  # fmt: skip


def _read(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """The graph, features of all nodes, and the subsets."""
    from scr.graph import open_store
    from scr.propagation._subsets import draw_subsets

    graph = open_store(options.work / "store")
    features = np.load(options.work / "features.npy", mmap_mode="r")
    return graph, features, draw_subsets(graph, options.subsets, seed=0)


WORK = {
    "make": make, "propagate": propagate, "in-memory": propagate, "scipy": propagate_by_scipy,
}  # fmt: skip


if __name__ == "__main__":
    main()
