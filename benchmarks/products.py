"""A graph of the size of ogbn-products, whole, and beside the official preprocessing.

    git clone https://github.com/THUDM/SCR official
    python benchmarks/products.py --official official
    python benchmarks/products.py --official official --preprocessing     nothing but that

A synthetic graph with as many nodes, edges, features, classes and training nodes as the real one.
Ours: `scr synth`, `scr propagate`, `scr train` (a few epochs of GAMLP + SCR) and `scr predict`,
each a process of its own with its wall seconds and peak memory.

The official side is its own `ogbn-products/pre_processing.py`, unmodified, on the same graph: a
mean over neighbors per hop, all hops as full float32 matrices in a list, rows put into the order
of the splits, one file per hop. Two of its imports, old libraries that are not installed with
ours, are stood in for: OGB's loader, by arrays of the same store, and CogDL's sparse product, by
torch's CSR product. `matching` is our propagation with the same normalization, hops and type; the
last hops of both sides are compared. Writes results/products.json, or results/preprocessing.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

from harness import RESULTS, Results, console, measure, remove, say, scr_command
from scale import work_seconds

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
LABELS = (0.0803, 0.0161)
"""Shares of training and validation nodes of ogbn-products; the rest tests."""
HOPS = 5
COMPARED_ROWS = 10_000
SCRIPT = Path("ogbn-products") / "pre_processing.py"


def main() -> None:
    """Run every step that has no row yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, help="checkout of THUDM/SCR")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the nodes and edges")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("products-work"), help="folder for data")
    parser.add_argument("--keep", action="store_true", help="do not remove the data at the end")
    parser.add_argument("--preprocessing", action="store_true", help="synth, matching and official")
    parser.add_argument("--out", type=Path, help="JSON to write")
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store is not None:
        official_preprocessing(options.store, options.official)
        return
    names = ("fraction", "epochs", "hidden", "threads")
    out = (
        options.out or RESULTS / f"{'preprocessing' if options.preprocessing else 'products'}.json"
    )
    results = Results(out, {name: getattr(options, name) for name in names})
    work = options.work.resolve()
    steps = commands(options, work)
    if options.preprocessing:
        steps = {step: steps[step] for step in ("synth", "matching", "official") if step in steps}
    if all(results.find(step=step) for step in steps):
        return
    if not (work / "store").exists():  # then what the rows tell of is gone, too
        results.remove()
    work.mkdir(parents=True, exist_ok=True)
    for step, command in steps.items():
        if results.find(step=step):
            continue
        remove(work / {"synth": "store", "propagate": "store/hops", "train": "run"}.get(step, step))
        with console.status(step):
            measured = measure(command, folders=[work], threads=options.threads)
        row = measured.row()
        if step in ("propagate", "matching", "official"):
            row["work_seconds"] = work_seconds(measured)
        if step == "official":
            row["command"] = f"python {SCRIPT} --num_hops {HOPS}"
            (difference,) = re.findall(r"differ by at most (\S+)", measured.output)
            row["largest_difference"] = float(difference)
        if step == "train":
            metrics = json.loads((work / "run" / "metrics.json").read_text(encoding="utf-8"))
            row |= {name: metrics[name] for name in ("epochs", "train_seconds", "test_accuracy")}
        say(step, results.add({"step": step}, row))
    if not options.keep:
        remove(work)


def commands(options: argparse.Namespace, work: Path) -> dict[str, list[str]]:
    """The command of every step, in order."""
    store, run = work / "store", work / "run"
    settings = (
        f"propagation.hops={HOPS}", "propagation.dtype=float16", "data.scale=none",
        f"encoder.hidden={options.hidden}", f"training.epochs={options.epochs}",
        f"consistency.warmup={max(options.epochs // 3, 1)}",
    )  # fmt: skip
    found = {
        "synth": scr_command(
            "synth", store, "--nodes", round(options.fraction * NODES),
            "--edges", round(options.fraction * EDGES), "--features", FEATURES,
            "--classes", CLASSES, "--label-fraction", LABELS[0], "--valid-fraction", LABELS[1],
        ),
        "propagate": scr_command(
            "propagate", store, "--hops", HOPS, "--dtype", "float16", "--scale", "none",
        ),
        "train": scr_command(
            "train", store, "--out", run, "--encoder", "gamlp", "--regularizer", "scr",
            "--preset", "many-labels", *(word for text in settings for word in ("--set", text)),
        ),
        "predict": scr_command(
            "predict", run, "--out", work / "predictions.parquet", "--probabilities", "none"
        ),
        "matching": scr_command(
            "propagate", store, "--hops", HOPS, "--norm", "row", "--scale", "none",
            "--out", work / "matching",
        ),
    }  # fmt: skip
    if options.official is not None:
        found["official"] = [sys.executable, str(Path(__file__).resolve()), "--store", str(store),
                             "--official", str(options.official.resolve())]  # fmt: skip
    return found


def official_preprocessing(store: Path, checkout: Path) -> None:
    """Run the official script in a folder beside the store, where it writes its files."""
    import numpy as np
    import torch

    from peers import torch_matrix
    from scr.graph import open_store

    warnings.filterwarnings("ignore", message="Sparse")
    graph = open_store(store)
    spent = 0.0

    class Dataset:
        """OGB's loader, as far as the script needs it."""

        def __init__(self, name: str, root: str) -> None:
            del name, root

        def __getitem__(self, _: int) -> tuple[dict[str, Any], Any]:
            rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
            edges = np.stack([rows, graph.indices.astype(np.int64)])
            return {"node_feat": graph.features, "edge_index": edges}, graph.labels[:, None]

        def get_idx_split(self) -> dict[str, Any]:
            return {name: torch.tensor(getattr(graph, name)) for name in ("train", "valid", "test")}

    class CogDLGraph:
        """CogDL's graph: it keeps the edges in CSR form, here taken from the store."""

        def __init__(self, *, x: Any, edge_index: Any, y: Any) -> None:
            self.x, self.edge_index, self.y = x, edge_index, y

        def row_norm(self) -> None:
            degrees = np.diff(graph.indptr)
            values = np.repeat(1 / degrees.clip(1).astype(np.float32), degrees)
            self.matrix = torch_matrix(graph.indptr, graph.indices, values)

    def spmm_cpu(official: CogDLGraph, features: Any) -> Any:
        nonlocal spent
        started = time.perf_counter()
        product = official.matrix @ features
        spent += time.perf_counter() - started
        return product

    stubs = {
        "ogb": {}, "ogb.nodeproppred": {"NodePropPredDataset": Dataset},
        "cogdl": {}, "cogdl.data": {"Graph": CogDLGraph}, "cogdl.utils": {"spmm_cpu": spmm_cpu},
        # Only a bar; the script does not need it to work.
        "tqdm": {"tqdm": lambda items: items},
    }  # fmt: skip
    for name, members in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    folder = store.parent / "official"
    folder.mkdir()
    os.chdir(folder)
    sys.argv = [str(SCRIPT), "--num_hops", str(HOPS)]
    started = time.perf_counter()
    runpy.run_path(str(checkout / SCRIPT), run_name="__main__")
    print(f"of which {spent:.1f} s of products; all of it in {time.perf_counter() - started:.1f} s")
    order = np.concatenate([graph.train, graph.valid, graph.test])
    ours = np.load(store.parent / "matching" / "hops.npy", mmap_mode="r")
    (file,) = folder.rglob(f"*_feat_{HOPS}.pt")
    theirs = torch.load(file, mmap=True)
    places = np.arange(0, len(order), max(len(order) // COMPARED_ROWS, 1))
    difference = np.abs(theirs[places].numpy() - ours[order[places], HOPS]).max()
    print(f"the last hops of {len(places):,} rows differ by at most {difference:.3g}")


if __name__ == "__main__":
    main()
