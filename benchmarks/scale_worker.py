"""Work of `scale.py` that needs large arrays, in a process of its own so that it can be measured.

    python benchmarks/scale_worker.py torch|scipy STORE --hops K    a peer propagates in memory
    python benchmarks/scale_worker.py hash STORE --hops K           of the hops beside the store
    python benchmarks/scale_worker.py check STORE --hops K          are these hops right?

Peers do what people do who have the memory: read the graph whole, make the features float32, keep
a matrix per hop.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SAMPLE = 2000
COLUMNS = 16
READ_BYTES = 1 << 26


def main() -> None:
    """Do one of the works; what it found is the last line that it prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", choices=("torch", "scipy", "hash", "check"))
    parser.add_argument("store", type=Path)
    parser.add_argument("--hops", type=int, required=True)
    options = parser.parse_args()
    if options.work == "hash":
        print(json.dumps({"hash": hops_hash(options.store)}))
    elif options.work == "check":
        print(json.dumps(check(options.store, options.hops)))
    else:
        seconds = propagate_in_memory(options.work, options.store, options.hops)
        print(f"Multiplied in {seconds:.3f} s")


def propagate_in_memory(peer: str, store: Path, hops: int) -> float:
    """Seconds of normalizing and multiplying, all hops kept."""
    import scipy.sparse as sp

    from peers import normalized_values, torch_matrix
    from scr.graph import open_store

    graph = open_store(store)
    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    features: Any = graph.features.astype(np.float32)
    if peer == "torch":
        import torch

        warnings.filterwarnings("ignore", message="Sparse")
        features = torch.from_numpy(features)
    started = time.perf_counter()
    values = normalized_values(indptr, indices)
    shape = (graph.num_nodes, graph.num_nodes)
    matrix: Any = (
        torch_matrix(indptr, indices, values)
        if peer == "torch"
        else sp.csr_array((values, indices, indptr), shape=shape)
    )
    made = [features]
    for _ in range(hops):
        made.append(matrix @ made[-1])
    return time.perf_counter() - started


def hops_file(store: Path) -> Path:
    """The only hops beside a store."""
    (file,) = (store / "hops").glob("*/hops.npy")
    return file


def hops_hash(store: Path) -> str:
    """BLAKE2 of the file of hops."""
    found = hashlib.blake2b(digest_size=20)
    with hops_file(store).open("rb", buffering=0) as stream:
        while block := stream.read(READ_BYTES):
            found.update(block)
    return found.hexdigest()


def check(store: Path, hops: int) -> dict[str, Any]:
    """Compare hops on disk with NumPy on some rows, and with the engine in memory.

    Some columns of all hops must be equal bit for bit to what `scr.propagate` makes of those
    columns in memory. Sampled rows of hop 1 are compared with sums that NumPy takes in float64;
    hops are stored in float16, whose steps are at most 2^-10 of a number, and neighbors are rounded
    to it once before they are added, so errors are counted in such steps of the largest
    neighbor's share and of the result.
    """
    import scr
    from scr.graph import open_store

    graph, found = open_store(store), np.load(hops_file(store), mmap_mode="r")
    nodes = np.sort(
        np.random.default_rng(0).choice(
            graph.num_nodes, min(SAMPLE, graph.num_nodes), replace=False
        )
    )
    degrees = np.diff(graph.indptr).astype(np.float64)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    worst = 0.0
    for node in nodes:
        neighbors = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        shares = scale[neighbors, None] * graph.features[neighbors].astype(np.float64)
        expected = scale[node] * shares.sum(axis=0)
        # Rounding of every share and of the result, half a step each; float32 sums add little.
        steps = scale[node] * np.abs(shares).sum(axis=0) + np.abs(expected)
        allowed = 2.0**-11 * steps * 1.01 + 2.0**-24 * (1 + scale[node] * len(neighbors))
        worst = max(worst, float((np.abs(found[node, 1] - expected) / allowed).max(initial=0)))
    columns = np.empty((graph.num_nodes, min(COLUMNS, graph.num_features)), graph.features.dtype)
    for start in range(0, graph.num_nodes, 1 << 20):
        part = slice(start, start + (1 << 20))
        columns[part] = graph.features[part, : columns.shape[1]]
    made = scr.propagate(graph, hops, dtype="float16", features=columns)
    equal = all(
        np.array_equal(
            found[start : start + (1 << 18), :, : columns.shape[1]].view(np.uint16),
            made.array[start : start + (1 << 18)].view(np.uint16),
        )
        for start in range(0, graph.num_nodes, 1 << 18)
    )
    return {
        "rows_compared_with_numpy": len(nodes),
        "worst_error": round(worst, 3),
        "columns_compared_in_memory": columns.shape[1],
        "in_memory_equal": equal,
    }


if __name__ == "__main__":
    main()
