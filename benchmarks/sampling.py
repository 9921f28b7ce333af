"""Speed of the neighbor sampler beside what runs without compiled extras, in one run.

    python benchmarks/sampling.py

One power-law graph of a million nodes and ten million undirected edges, batches of 1024 seeds, the
fan-out 15, 10, 5 of GraphSAGE, the same number of threads for all. All draw without replacement and
give the nodes, the edges in their numbers, and the places of the edges in the graph:

    scr                 `scr.networks.sampling.NeighborSampler`
    torch CSR           gathers all neighbors of the frontier, sorts them by row and a random key,
                        takes the first of each row; `torch.unique` numbers the nodes
    PyG k_hop_subgraph  what torch_geometric has in pure Python: edges around the frontier, by
                        masks over the whole graph, of which some are taken
    PyG NeighborLoader  only where pyg-lib or torch-sparse is installed
    DGL NeighborSampler only where DGL is installed; it draws anew for nodes that it has drawn for
                        before, so its batches have more edges. Its last release for everyone, 2.1,
                        does not import on a current torch; its sampler does, without GraphBolt

Contestants take turns, so that a disturbance of the machine meets all of them; the median of the
batches counts. Threads that wait for each other suffer most from other work on the machine, so the
load before the run is recorded, and the processor's seconds beside those of the clock. Writes
results/sampling.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from rich.table import Table

from code_version import code_version
from harness import RESULTS, console, processor, shown_script, versions
from propagation import power_law_graph
from scr.graph import Graph
from scr.networks.sampling import NeighborSampler

OUT = RESULTS / "sampling.json"
Contestant = Callable[[np.ndarray, int], int]
"""From seeds and a step to the number of sampled edges."""
SLOW_BATCHES = 3
"""Of a contestant that needs more than a second for a batch."""


def scr_sampler(graph: Graph, fanouts: tuple[int, ...], threads: int) -> Contestant:
    """Ours."""
    sampler = NeighborSampler(graph, fanouts, threads=threads)
    return lambda seeds, step: sampler.sample(seeds, step).num_edges


def torch_sampler(graph: Graph, fanouts: tuple[int, ...]) -> Contestant:
    """What one would write with torch alone."""
    indptr, indices = torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices)

    def sample(seeds: np.ndarray, step: int) -> int:
        torch.manual_seed(step)
        frontier = nodes = torch.from_numpy(seeds)
        known = torch.zeros(graph.num_nodes, dtype=torch.bool)
        known[nodes] = True
        places, targets = [], []
        for fanout in fanouts:
            begins = indptr[frontier]
            degrees = indptr[frontier + 1] - begins
            rows = torch.repeat_interleave(degrees)
            within = torch.arange(len(rows)) - (degrees.cumsum(0) - degrees)[rows]
            chosen = first_of_each_row(rows, degrees, fanout)
            edges = (begins[rows] + within)[chosen]
            places.append(edges)
            targets.append(frontier[rows[chosen]])
            found = torch.unique(indices[edges].long())
            frontier = found[~known[found]]
            known[frontier] = True
            nodes = torch.cat([nodes, frontier])
        return number_edges(graph.num_nodes, nodes, indices[torch.cat(places)], torch.cat(targets))

    return sample


def first_of_each_row(rows: torch.Tensor, degrees: torch.Tensor, fanout: int) -> torch.Tensor:
    """Places of up to so many random entries of each row; rows are ascending."""
    order = torch.argsort(rows + torch.rand(len(rows), dtype=torch.float64))
    begins = (degrees.cumsum(0) - degrees)[rows]
    return order[torch.arange(len(rows)) - begins < fanout]


def number_edges(
    num_nodes: int, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor
) -> int:
    """Make the edges of a batch in its own numbers; returns how many there are."""
    numbers = torch.empty(num_nodes, dtype=torch.long)
    numbers[nodes] = torch.arange(len(nodes))
    return torch.stack([numbers[sources.long()], numbers[targets]]).shape[1]


def pyg_sampler(graph: Graph, fanouts: tuple[int, ...]) -> Contestant:
    """The route through `k_hop_subgraph`, one hop at a time."""
    from torch_geometric.utils import k_hop_subgraph

    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), rows]))

    def sample(seeds: np.ndarray, step: int) -> int:
        torch.manual_seed(step)
        frontier = nodes = torch.from_numpy(seeds)
        known = torch.zeros(graph.num_nodes, dtype=torch.bool)
        known[nodes] = True
        parts = []
        for fanout in fanouts:
            _, edges, _, _ = k_hop_subgraph(frontier, 1, edge_index, num_nodes=graph.num_nodes)
            into = torch.zeros(graph.num_nodes, dtype=torch.bool)
            into[frontier] = True
            edges = edges[:, into[edges[1]]]  # it gives those between the neighbors as well
            edges = edges[:, torch.argsort(edges[1], stable=True)]
            _, rows, degrees = torch.unique(edges[1], return_inverse=True, return_counts=True)
            edges = edges[:, first_of_each_row(rows, degrees, fanout)]
            parts.append(edges)
            found = torch.unique(edges[0])
            frontier = found[~known[found]]
            known[frontier] = True
            nodes = torch.cat([nodes, frontier])
        return number_edges(graph.num_nodes, nodes, *torch.cat(parts, dim=1))

    return sample


def pyg_loader(graph: Graph, fanouts: tuple[int, ...]) -> Contestant | None:
    """PyG's own loader, if what it needs is installed."""
    import torch_geometric.typing as installed

    if not (installed.WITH_PYG_LIB or installed.WITH_TORCH_SPARSE):
        return None
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), rows]))
    data = Data(edge_index=edge_index, num_nodes=graph.num_nodes)
    loader = NeighborLoader(data, list(fanouts), batch_size=1, is_sorted=True)
    return lambda seeds, _: int(loader.filter_fn(loader.collate_fn(seeds.tolist())).num_edges)


def dgl_sampler(graph: Graph, fanouts: tuple[int, ...]) -> Contestant | None:
    """DGL's compiled sampler, if DGL is installed."""
    if importlib.util.find_spec("dgl") is None:
        return None
    # GraphBolt is compiled for a few old versions of torch; the sampler does not need it.
    sys.modules.setdefault("dgl.graphbolt", types.ModuleType("dgl.graphbolt"))
    import dgl

    # Edges point from neighbor to node, and are drawn by the node that they point to.
    parts = (torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices.astype(np.int64)), [])
    held = dgl.graph(("csc", parts), num_nodes=graph.num_nodes)
    sampler = dgl.dataloading.NeighborSampler(list(reversed(fanouts)))

    def sample(seeds: np.ndarray, step: int) -> int:
        dgl.seed(step)
        _, _, blocks = sampler.sample(held, torch.from_numpy(seeds))
        return sum(block.num_edges() for block in blocks)

    return sample


class Batch(NamedTuple):
    """What one batch of a contestant took."""

    edges: int
    seconds: float
    processor: float


def measure(
    contestants: dict[str, Contestant], nodes: int, seeds: int, batches: int
) -> dict[str, list[Batch]]:
    """Edges and seconds of each batch, after one that does not count; the same seeds for all."""
    rng = np.random.default_rng(0)
    found: dict[str, list[Batch]] = {name: [] for name in contestants}
    for step in range(batches + 1):
        chosen = rng.choice(nodes, seeds, replace=False)
        for name, sample in contestants.items():
            done = found[name]
            if len(done) >= SLOW_BATCHES and statistics.median(b.seconds for b in done) > 1:
                continue
            start, worked = time.perf_counter(), time.process_time()
            edges = sample(chosen, step)
            if step:
                seconds = time.perf_counter() - start
                done.append(Batch(edges, seconds, time.process_time() - worked))
    return found


def summarize(found: dict[str, list[Batch]]) -> list[dict[str, Any]]:
    """One row per contestant."""
    speeds = {
        name: statistics.median(batch.edges / batch.seconds for batch in batches)
        for name, batches in found.items()
    }
    return [
        {
            "name": name, "edges_per_second": round(speeds[name]), "batches": len(batches),
            "median_seconds": round(statistics.median(b.seconds for b in batches), 4),
            "median_processor_seconds": round(statistics.median(b.processor for b in batches), 4),
            "edges_per_batch": round(statistics.mean(b.edges for b in batches)),
            "times_torch": round(speeds[name] / speeds["torch CSR"], 2),
        }
        for name, batches in found.items()
    ]  # fmt: skip


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000, help="undirected")
    parser.add_argument("--seeds", type=int, default=1024, help="of a batch")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    torch.set_num_threads(options.threads)
    numba.set_num_threads(min(options.threads, numba.config.NUMBA_NUM_THREADS))
    with console.status("drawing a graph"):
        graph = power_law_graph(options.nodes, options.edges, columns=1)
    fanouts = tuple(options.fanouts)
    contestants = {"scr": scr_sampler(graph, fanouts, options.threads)}
    if options.threads > 1:
        contestants["scr, one thread"] = scr_sampler(graph, fanouts, 1)
    contestants["torch CSR"] = torch_sampler(graph, fanouts)
    contestants["PyG k_hop_subgraph"] = pyg_sampler(graph, fanouts)
    loader = pyg_loader(graph, fanouts)
    if loader is None:
        console.print("PyG's NeighborLoader needs pyg-lib or torch-sparse; neither is installed")
    else:
        contestants["PyG NeighborLoader"] = loader
    dgl = dgl_sampler(graph, fanouts)
    if dgl is None:
        console.print("DGL is not installed")
    else:
        contestants["DGL NeighborSampler"] = dgl
    with console.status("sampling"):
        found = measure(contestants, graph.num_nodes, options.seeds, options.batches)
    rows = summarize(found)
    table = Table("", "edges/s", "s per batch", "processor s", "edges per batch", "x torch")
    for row in rows:
        table.add_row(
            row["name"], f"{row['edges_per_second']:,}", f"{row['median_seconds']:.4f}",
            f"{row['median_processor_seconds']:.4f}", f"{row['edges_per_batch']:,}",
            f"{row['times_torch']:.1f}",
        )  # fmt: skip
    console.print(table)
    result = {
        "command": shown_script(), "nodes": graph.num_nodes, "undirected_edges": options.edges,
        "seeds": options.seeds, "fanouts": options.fanouts, "threads": options.threads,
        "load_before": round(load, 1), "pyg_neighbor_loader": loader is not None, "rows": rows,
        "processor": processor(), "versions": versions(), "code": code_version("sampling"),
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"Wrote {options.out}")


if __name__ == "__main__":
    main()
