"""Small runs through every path of the program, by its public surface alone.

    python -m tests.golden.runs            # compare with what is recorded
    python -m tests.golden.runs --record   # record anew: only where results are meant to change

Reorganizing code must not change one bit of any of them. Predictions are hashed; on another
processor or with other versions bits differ, and mean log-probabilities are compared instead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import scr

RECORD = Path(__file__).with_name("runs.json")
SHORT: dict[str, Any] = {
    "epochs": 12, "evaluate_every": 3, "patience": 0, "batch_size": 24, "unlabeled_per_batch": 40,
    "consistency": {"warmup": 3, "threshold": 0.4, "refresh": 2, "trust": "full"},
}  # fmt: skip


def citation_graph(nodes: int = 400) -> scr.Graph:
    """Four classes; neighbors and features tell them; a tenth of the nodes has a label."""
    generator = np.random.default_rng(7)
    labels = np.arange(nodes) % 4
    ends = generator.integers(0, nodes, (2, 6 * nodes))
    same = labels[ends[0]] == labels[ends[1]]
    ends = ends[:, same | (generator.random(ends.shape[1]) < 0.2)]
    features = generator.standard_normal((nodes, 24)) + 0.7 * (labels[:, None] == np.arange(24) % 4)
    order = generator.permutation(nodes)
    return scr.Graph.from_edges(
        ends, features=features.astype(np.float32), labels=labels,
        train=order[:40], valid=order[40:120], test=order[120:], name="golden",
    )  # fmt: skip


def typed_graph(papers: int = 240) -> scr.Graph:
    """Papers, authors and topics; papers alone have features, topics tell the class."""
    generator = np.random.default_rng(11)
    labels = np.arange(papers) % 3
    features = generator.standard_normal((papers, 12)) + 0.8 * (
        labels[:, None] == np.arange(12) % 3
    )
    every = np.arange(papers)
    relations = {
        ("author", "writes", "paper"): np.stack(
            [generator.integers(0, papers // 2, 3 * papers), np.repeat(every, 3)]
        ),
        ("paper", "cites", "paper"): generator.integers(0, papers, (2, 2 * papers)),
        ("paper", "has_topic", "topic"): np.stack(
            [every, 3 * labels + generator.integers(0, 3, papers)]
        ),
    }
    order = generator.permutation(papers)
    return scr.Graph.from_relations(
        relations, {"paper": features.astype(np.float32)}, labels, "paper",
        num_nodes={"paper": papers, "author": papers // 2, "topic": 9},
        train=order[:60], valid=order[60:120], test=order[120:], name="golden-typed",
    )  # fmt: skip


def _fitted(graph: scr.Graph, **settings: Any) -> np.ndarray:
    consistency = {**SHORT["consistency"], **settings.pop("consistency", {})}
    classifier = scr.NodeClassifier(seed=3, **{**SHORT, "consistency": consistency, **settings})
    return classifier.fit(graph).predict_proba()


def _by_commands(*train: str, propagate: tuple[str, ...] = (), smooth: bool = False) -> np.ndarray:
    """Synthesize, propagate within a budget, train and predict, as a shell would."""
    from typer.testing import CliRunner

    from scr.cli import app

    def run(*arguments: object, fails: bool = False) -> str:
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == (2 if fails else 0), (arguments, result.output, result.exception)
        return result.output

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, out = folder / "store", folder / "run"
        run("synth", store, "--nodes", 3000, "--edges", 20000, "--features", 16, "--classes", 5,
            "--seed", 1)  # fmt: skip
        if propagate:
            refused = run("propagate", store, *propagate, "--memory", "1MiB", fails=True)
            smallest = refused.partition("the smallest that works is `")[2].partition("`")[0]
            run("propagate", store, *propagate, "--memory", smallest)
        run("train", store, "--out", out, "--seed", 2, "--set", "training.epochs=6", *train)
        if smooth:
            run("smooth", out)
        run("predict", out, "--out", folder / "all.parquet", "--probabilities", "all")
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(folder / "all.parquet")
        columns = [each for each in table.column_names if each.startswith("probability_")]
        found = np.stack([table[each].to_numpy() for each in columns], axis=1)
        if smooth:
            table = pyarrow.parquet.read_table(out / "smooth" / "predictions.parquet")
            smoothed = table["confidence"].to_numpy().astype(np.float32)
            found = np.concatenate([found, smoothed[:, None]], axis=1)
        return found


def _store(*ingest: str, shards: bool = False) -> np.ndarray:
    """Tables, or raw shards, read into a store: its arrays, one after the other."""
    from typer.testing import CliRunner

    from scr.cli import app

    with tempfile.TemporaryDirectory() as name:
        source, store = Path(name) / "source", Path(name) / "store"
        if shards:
            made = ["synth", "--source", str(source), "--nodes", "3000", "--edges", "20000",
                    "--features", "6", "--classes", "4"]  # fmt: skip
            result = CliRunner().invoke(app, made)
            assert result.exit_code == 0, result.output
        else:
            _write_tables(source)
        result = CliRunner().invoke(app, ["ingest", str(source), str(store), *ingest])
        assert result.exit_code == 0, result.output
        arrays = [np.load(path, allow_pickle=False) for path in sorted(store.rglob("*.npy"))]
        return np.concatenate([np.frombuffer(each.tobytes(), np.uint8) for each in arrays])


def _write_tables(folder: Path) -> None:
    generator = np.random.default_rng(5)
    folder.mkdir()
    ends = generator.integers(0, 300, (1500, 2))
    lines = ["source,target", *(f"n{a},n{b}" for a, b in ends)]
    (folder / "edges.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    values = generator.standard_normal((300, 3)).round(3)
    lines = ["id,a,b,c,label", *(
        f"n{node},{a},{b},{c},{'xyz'[node % 3] if node % 4 else ''}"
        for node, (a, b, c) in enumerate(values)
    )]  # fmt: skip
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _resumed(graph: scr.Graph) -> np.ndarray:
    """Stopped after five epochs and continued from its checkpoint, saved, loaded."""
    with tempfile.TemporaryDirectory() as name:
        epochs: list[Any] = []
        settings = {"encoder": "sagn", "regularizer": "scr-m", "seed": 3, **SHORT}
        checkpoint = Path(name) / "checkpoint"
        scr.NodeClassifier(**settings).fit(
            graph, checkpoint=checkpoint, on_epoch=epochs.append,
            should_stop=lambda: len(epochs) >= 5,
        )  # fmt: skip
        classifier = scr.NodeClassifier(**settings).fit(graph, checkpoint=checkpoint)
        return classifier.predict_proba()


def _hops(**settings: Any) -> np.ndarray:
    return np.asarray(scr.propagate(citation_graph(), hops=3, **settings)).astype(np.float32)


def _runs() -> dict[str, Callable[[], np.ndarray]]:
    graphs: dict[str, scr.Graph] = {}

    def on(name: str, **settings: Any) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            if name not in graphs:
                graphs[name] = {"plain": citation_graph, "typed": typed_graph}[name]()
            return _fitted(graphs[name], **settings)

        return run

    labels = {"label_hops": 2}
    stages = {"count": 2, "epochs": 6, "threshold": 0.5}
    return {
        "defaults": on("plain", encoder="ssgc"),
        "auto": on("plain"),
        "mlp-none": on("plain", encoder="mlp", regularizer="none"),
        "sgc-entropy": on("plain", encoder="sgc", regularizer="entropy"),
        "ssgc-scr": on("plain", encoder="ssgc", regularizer="scr"),
        "sign-fixmatch": on("plain", encoder="sign", regularizer="fixmatch"),
        "sagn-scr-m": on("plain", encoder="sagn", regularizer="scr-m", propagation=labels),
        "gamlp-scr": on("plain", encoder="gamlp", regularizer="scr", propagation=labels),
        "gamlp-jk-r-drop": on("plain", encoder="gamlp-jk", regularizer="r-drop"),
        "sign-freematch": on("plain", encoder="sign", regularizer="freematch"),
        "sign-softmatch": on("plain", encoder="sign", regularizer="softmatch"),
        "ssgc-pi": on("plain", encoder="ssgc", regularizer="pi"),
        "mlp-grand": on("plain", encoder="mlp", regularizer="grand"),
        "gcn-scr": on("plain", encoder="gcn", regularizer="scr"),
        "gat-none": on("plain", encoder="gat", regularizer="none"),
        "graphsage-scr-m": on("plain", encoder="graphsage", regularizer="scr-m"),
        "cluster-gcn-scr": on(
            "plain", encoder={"name": "cluster-gcn", "clusters": 6}, regularizer="scr"
        ),
        "graph-saint-scr": on("plain", encoder="graph-saint", regularizer="scr"),
        "gamlp-rlu-scr": on(
            "plain", encoder="gamlp", regularizer="scr", propagation=labels,
            stages={"method": "rlu", **stages},
        ),
        "sagn-sle": on(
            "plain", encoder="sagn", regularizer="none", propagation=labels,
            stages={"method": "sle", **stages},
        ),
        "nars-sign-scr": on("typed", encoder="nars-sign", regularizer="scr"),
        "nars-gamlp-scr-m": on(
            "typed", encoder="nars-gamlp", regularizer="scr-m", propagation=labels
        ),
        "rgcn-scr": on("typed", encoder="rgcn", regularizer="scr"),
        "sign-embeddings": on(
            "typed", encoder="sign", regularizer="none", data={"missing": "complex"}
        ),
        "hops-sym": lambda: _hops(norm="sym"),
        "hops-row-half": lambda: _hops(norm="row", dtype="float16"),
        "store-tables": lambda: _store("--splits", "random:0.2,0.2"),
        "store-shards": lambda: _store(shards=True),
        "store-within-a-budget": lambda: _store("--memory", "2GiB", shards=True),
        "resumed": lambda: _resumed(citation_graph()),
        "commands-out-of-core": lambda: _by_commands(
            "--encoder", "gamlp", "--regularizer", "scr",
            "--set", "propagation.hops=4", "--set", "propagation.norm=row",
            "--set", "propagation.dtype=float16", "--set", "propagation.label_hops=2",
            propagate=("--dtype", "float16", "--hops", "4", "--norm", "row"),
        ),
        "commands-smooth": lambda: _by_commands(
            "--encoder", "sign", "--regularizer", "none", smooth=True
        ),
    }  # fmt: skip


RUNS = _runs()
"""What is run, by name; each gives an array of floats."""


def machine() -> dict[str, str]:
    """What bits depend on."""
    import torch

    names = ("flags", "Features")
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    flags = next((line for line in lines if line.split("\t")[0] in names), platform.processor())
    model = next((line for line in lines if line.startswith("model name")), "")
    described = hashlib.blake2b((flags + model).encode(), digest_size=8).hexdigest()
    return {"processor": described, "torch": torch.__version__, "numpy": np.__version__}


def measured(name: str) -> dict[str, Any]:
    """Run one, on one thread, and describe what it gave."""
    import torch

    # Numba's parallel loops share OpenMP with torch, and leave it with their number of threads.
    torch.set_num_threads(1)
    started = time.perf_counter()
    values = np.ascontiguousarray(RUNS[name]())
    seconds = time.perf_counter() - started
    digest = hashlib.blake2b(values.tobytes() + str(values.dtype).encode(), digest_size=16)
    mean = float(np.log(np.abs(values.astype(np.float64)) + 1e-3).mean())
    return {
        "shape": list(values.shape),
        "hash": digest.hexdigest(),
        "mean": mean,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    """Compare all runs with the record, or record them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    before = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    found = {}
    for name in RUNS:
        found[name] = measured(name)
        known = before.get("runs", {}).get(name)
        state = (
            "new"
            if known is None
            else "same"
            if known["hash"] == found[name]["hash"]
            else "DIFFERENT"
        )
        earlier = "" if known is None else f" (recorded: {known['seconds']} s)"
        print(f"{name:24} {state:10} {found[name]['seconds']} s{earlier}")
    if options.record:
        RECORD.write_text(
            json.dumps({"machine": machine(), "runs": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
