"""Memory and time of predicting all nodes: layer by layer beside a plain forward pass of PyG.

    python benchmarks/inference.py
    python benchmarks/inference.py --nodes 50000 --edges 500000     a tenth of it

One power-law graph of half a million nodes and five million edges, both directions counted, with
128 features; GraphSAGE with three layers of 256 columns, the same weights for all, no gradient:

    load                 interpreter, torch and the arrays of the graph: nothing is computed
    scr                  `graphsage`, layer by layer, a range of rows at a time
    PyG edge_index       `SAGEConv` as in PyG's examples: a message for each edge
    PyG sparse matrix    the same layers on a `torch.sparse_csr` adjacency, which PyG multiplies by

Each in a process of its own, whose largest resident memory is measured, with imports, and which
fails cleanly where it would need more than is free. Logits of some nodes are compared. Writes
results/inference.json; rows that are there already are not measured again.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from harness import RESULTS, Results, console, measure, size

OUT = RESULTS / "inference.json"
WORKERS = {"load": "load", "scr": "scr", "PyG edge_index": "edges", "PyG sparse matrix": "matrix"}
SAMPLE = 1000
TOLERANCE = 1e-3
"""Between logits of different orders of summation in float32."""
FREE_SHARE = 0.9


def make(folder: Path, options: argparse.Namespace) -> None:
    """Draw the graph and the weights, as files that every contestant reads."""
    import torch

    from propagation import power_law_graph
    from scr.encoders import ProblemShape
    from scr.networks import make_encoder

    graph = power_law_graph(options.nodes, options.edges // 2, options.features)
    for name in ("indptr", "indices", "features"):
        np.save(folder / f"{name}.npy", getattr(graph, name))
    torch.manual_seed(0)
    shape = ProblemShape(features=options.features, hops=1, classes=options.classes)
    encoder = make_encoder("graphsage", settings(options), shape)
    state = {name: value.numpy() for name, value in encoder.state_dict().items()}
    np.savez(folder / "weights.npz", **state)


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Of the encoder; that it is trained on drawn neighbors lets it predict by ranges of rows."""
    return {"hidden": options.hidden, "layers": options.layers, "neighbors": [10] * options.layers}


def scr_inference(folder: Path, options: argparse.Namespace) -> Callable[[], Any]:
    """Ours, as `NodeClassifier.predict_proba` does it."""
    import torch

    from scr.graph import Graph
    from scr.networks import make_encoder
    from scr.training import graph_facts, prepare, resolve
    from scr.training._rows import predict_logits

    arrays = {name: np.load(folder / f"{name}.npy") for name in ("indptr", "indices", "features")}
    graph = Graph(**arrays, labels=np.full(len(arrays["features"]), -1), name="power law")
    layer = {
        "encoder": {"name": "graphsage", **settings(options)},
        "data": {"scale": "none", "reduce": "none"},
    }
    recipe = resolve(graph_facts(graph), regularizer="none", layers=[layer], preset="none")
    rows = prepare(graph, recipe).rows(options.classes, None, torch.device("cpu"))
    encoder = make_encoder("graphsage", recipe.encoder_settings, rows.shape)
    with np.load(folder / "weights.npz") as stored:
        encoder.load_state_dict({name: torch.from_numpy(stored[name]) for name in stored})
    return lambda: predict_logits(encoder, rows, torch.arange(graph.num_nodes))


def pyg_inference(folder: Path, options: argparse.Namespace) -> Callable[[], Any]:
    """A model of torch_geometric with the same weights, all nodes at once."""
    import torch
    from torch_geometric.nn import SAGEConv

    widths = [options.features, *[options.hidden] * (options.layers - 1), options.classes]
    layers = [SAGEConv(widths[i], widths[i + 1]).eval() for i in range(options.layers)]
    with np.load(folder / "weights.npz") as stored, torch.no_grad():
        for number, layer in enumerate(layers):
            layer.lin_l.weight.copy_(torch.from_numpy(stored[f"layers.{number}.neighbor_weight"]))
            layer.lin_l.bias.copy_(torch.from_numpy(stored[f"layers.{number}.bias"]))
            layer.lin_r.weight.copy_(torch.from_numpy(stored[f"layers.{number}.own_weight"]))
    x = torch.from_numpy(np.load(folder / "features.npy"))
    edges = edge_index(folder) if options.worker == "edges" else sparse_matrix(folder)

    def run() -> Any:
        h = x
        with torch.no_grad():
            for layer in layers[:-1]:
                h = layer(h, edges).relu_()
            return layers[-1](h, edges)

    return run


def edge_index(folder: Path) -> Any:
    """Senders and receivers."""
    import torch

    indptr, indices = np.load(folder / "indptr.npy"), np.load(folder / "indices.npy")
    receivers = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return torch.from_numpy(np.stack([indices.astype(np.int64), receivers]))


def sparse_matrix(folder: Path) -> Any:
    """The transposed adjacency, which PyG takes as it is."""
    import warnings

    import torch

    warnings.filterwarnings("ignore", message="Sparse")
    indptr = torch.from_numpy(np.load(folder / "indptr.npy"))
    indices = torch.from_numpy(np.load(folder / "indices.npy").astype(np.int64))
    nodes = len(indptr) - 1
    return torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), (nodes, nodes))


def work(folder: Path, options: argparse.Namespace) -> None:
    """One contestant; what it found is the last line that it prints."""
    limit = int(FREE_SHARE * free_bytes())
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import torch

    torch.set_num_threads(options.threads)
    if options.worker == "load":
        for name in ("indptr", "indices", "features"):
            np.load(folder / f"{name}.npy")
        print(json.dumps({"inference_seconds": 0.0}))
        return
    run = (scr_inference if options.worker == "scr" else pyg_inference)(folder, options)
    started, worked = time.perf_counter(), time.process_time()
    logits = run()
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    np.save(folder / f"{options.worker}.npy", logits[sample(options.nodes)].numpy())
    found = {
        "inference_seconds": round(seconds, 2),
        "inference_processor_seconds": round(processor, 2),
    }
    print(json.dumps(found))


def sample(nodes: int) -> np.ndarray:
    """Nodes whose logits are compared."""
    return np.random.default_rng(0).choice(nodes, min(SAMPLE, nodes), replace=False)


def free_bytes() -> int:
    """Memory that could be had now."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/meminfo does not say how much memory is free")


def run_worker(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one contestant in a process of its own."""
    asked = {key: getattr(options, key) for key in options.sizes}
    words = [f"--{key}={value}" for key, value in asked.items()]
    words += [f"--threads={options.threads}", f"--worker={WORKERS[name]}", f"--work={folder}"]
    measured = measure(
        [sys.executable, Path(__file__).resolve(), *words], check=False, threads=options.threads
    )
    row = {"seconds": round(measured.seconds, 2), "memory_bytes": measured.memory_bytes}
    if measured.code:
        reason = measured.output.strip().rpartition("\n")[2][:200]
        if not any(word in measured.output for word in ("allocate memory", "MemoryError")):
            raise SystemExit(f"{name} ended with {measured.code}:\n{measured.output[-4000:]}")
        return {**row, "failed": f"needed more memory than was free: {reason}"}
    found = json.loads(measured.output.strip().rpartition("\n")[2])
    if name != "load":
        found["largest_difference"] = difference(folder, WORKERS[name])
    return {**row, **found}


def difference(folder: Path, worker: str) -> float:
    """Largest difference of a sample's logits to ours; too large a one ends the benchmark."""
    ours, theirs = np.load(folder / "scr.npy"), np.load(folder / f"{worker}.npy")
    largest = float(np.abs(ours - theirs).max())
    if largest > TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise SystemExit(f"logits of {worker} are off by {largest:g}: they must be the same")
    return round(largest, 7)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    sizes = {"nodes": 500_000, "edges": 5_000_000, "features": 128, "hidden": 256, "classes": 40,
             "layers": 3}  # fmt: skip
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--work", type=Path, help="folder for the graph; none: a temporary one")
    parser.add_argument("--worker", choices=(*WORKERS.values(), "make"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.sizes = tuple(sizes)
    if options.worker == "make":
        make(options.work, options)
        return
    if options.worker:
        work(options.work, options)
        return
    asked = {key: getattr(options, key) for key in (*sizes, "threads")}
    results = Results(options.out, asked)
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        words = [f"--{key}={getattr(options, key)}" for key in sizes]
        script = [sys.executable, Path(__file__).resolve(), *words]
        with console.status("drawing a graph"):
            measure([*script, "--worker=make", f"--work={folder}"])
        for contestant in WORKERS:
            # Others are compared with ours, so that it is run whenever one of them is.
            missing = [each for each in WORKERS if not results.find(name=each)]
            if contestant in missing or (contestant == "scr" and missing):
                with console.status(contestant):
                    row = run_worker(contestant, folder, options)
                results.add({"name": contestant}, row)
    table = Table("", "seconds", "peak memory", "above load")
    base = (results.find(name="load") or {})["memory_bytes"]
    for row in results.rows:
        peak = row["memory_bytes"]
        shown = row.get("failed", f"{row.get('inference_seconds', 0):.1f}")
        table.add_row(row["name"], shown, size(peak), size(peak - base))
    console.print(table)
    console.print(f"Wrote {options.out}")


if __name__ == "__main__":
    main()
