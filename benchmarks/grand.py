"""GRAND with its published settings on Cora and PubMed, beside the published accuracies.

    python benchmarks/grand.py --data DIR

Public splits, one run per seed; the authors' numbers are means of 100. Settings are those of the
scripts that come with their code, which does not scale up what dropping nodes leaves, as the paper
does, but scales down what predictions read: its inputs are half as large. So are Cora's here; of
PubMed's, the normalization of the input takes any scale away.

Writes results/grand.json, row by row, and runs only seeds that are not there: take a row out of the
file to run it again.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from cells import cell
from harness import Results, console
from scr.experiments import Runner, Task
from scr.features import FeatureConfig, fit_features
from scr.graph import Graph
from scr.sources import load_graph

HERE = Path(__file__).parent
SEEDS = 10
DROP_NODE = 0.5
PUBLISHED = {"cora": 85.4, "pubmed": 82.7}
"""Feng et al. 2020, arXiv:2005.11079, Table 1: mean test accuracy in percent."""

COMMON: dict[str, Any] = {
    "data": {"scale": "row", "reduce": "none"},
    "training": {
        "epochs": 5000,
        "batch_size": 1_000_000,  # all nodes in one step
        "unlabeled_per_batch": "proportional",
        "weight_decay": 5e-4,
        "evaluate_every": 1,
        "select": "lowest-loss",
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    "cora": {
        "data": {"scale": "none"},  # see `load`
        "propagation": {"hops": 8, "self_loops": True},
        "encoder": {"hidden": 32, "layers": 2, "dropout": 0.5, "input_dropout": 0.5},
        "consistency": {"temperature": 0.5, "trust": "full"},
        "training": {"learning_rate": 0.01, "patience": 200},
    },
    "pubmed": {
        "propagation": {"hops": 5, "self_loops": True},
        "encoder": {
            "hidden": 32, "layers": 2, "dropout": 0.8, "input_dropout": 0.6,
            "input_norm": "batch", "norm": "batch",
            "norm_place": "after",
        },
        "consistency": {"temperature": 0.2, "trust": "full"},
        "training": {"learning_rate": 0.2, "patience": 100},
    },
}  # fmt: skip


def load(name: str, folder: Path) -> Graph:
    """A graph with features as large as those that the authors' code gives the encoder."""
    graph = load_graph(folder / f"{name}.npz")
    if name != "cora":
        return graph
    row_scale = FeatureConfig(scale="row", reduce="none")
    by_row = fit_features(graph.features, row_scale).transform(graph.features)
    return dataclasses.replace(graph, features=by_row * np.float32(1 - DROP_NODE), source=None)


def main() -> None:
    """Run what is missing and say how it compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--graph", action="append", choices=tuple(SETTINGS), help="may be repeated")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "grand.json")
    options = parser.parse_args()
    results = Results(options.out, {"common": COMMON, **SETTINGS})
    for name in options.graph or SETTINGS:
        run(name, options, results)


def task(name: str, seed: int) -> Task:
    """One run."""
    return Task("ssgc", "grand", seed, (COMMON, SETTINGS[name]), "none")


def run(name: str, options: argparse.Namespace, results: Results) -> None:
    """All seeds of one graph."""
    tasks = [
        task(name, seed)
        for seed in range(options.seeds)
        if results.find(graph=name, seed=seed) is None
    ]

    def keep(record: Any) -> None:
        key = {"graph": name, "seed": record["seed"]}
        if not results.find(**key):
            kept = (
                "valid_accuracy", "test_accuracy", "balanced_accuracy", "best_epoch", "epochs",
                "train_seconds",
            )  # fmt: skip
            results.add(key, {each: record[each] for each in kept})

    if tasks:
        folder = HERE / ".cache" / "grand" / name / results.code
        graph = load(name, options.data)
        for record in Runner(graph, out=folder, jobs=options.jobs, on_run=keep).run(tasks):
            keep(record)
    found = [row["test_accuracy"] for row in results.rows if row["graph"] == name]
    console.print(
        f"{name}: {cell(found)} % on test ({len(found)} seeds); published {PUBLISHED[name]}"
    )


if __name__ == "__main__":
    main()
