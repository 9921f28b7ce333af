"""A stranger's graph: what one gets with no options, beside what others give on the same splits.

    python benchmarks/strangers.py                     run what is missing, then print the table
    python benchmarks/strangers.py --graph flickr --labels 20 --splits 1
    python benchmarks/strangers.py --table

Every graph is cut into splits with 5, 20 or 50 training labels per class, or with a tenth of all
labels; 30 validation nodes per class, or another tenth. `scr` is `NodeClassifier()` as it is,
`base` the same without the consistency term; peers are in `stranger_peers.py`. Settings of `auto`
were chosen on the graphs in `CHOSEN_ON`, by eye; the others were looked at by nothing but this
report.

Results are written row by row to results/strangers/GRAPH.json; what is there is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cells import cell, plain
from harness import RESULTS, Results, console
from scr import NodeClassifier, load_graph
from scr.experiments._runner import use_one_thread
from scr.graph import Graph, per_class_split, random_split
from scr.synth import SynthConfig, write_synth_store
from stranger_peers import PEERS, run_peer

DATA = Path(__file__).parents[2] / "shared" / "data"
FOLDER = RESULTS / "strangers"
CHOSEN_ON = ("cora", "cora_ml", "acm", "pubmed", "amazon_photo", "uai", "blogcatalog", "actor")
GRAPHS = (*CHOSEN_ON, "dblp_citation", "coauthor_cs", "flickr", "wordnet", "crowd")
LABELS = ("20", "5", "50", "10%")
"""Training labels per class, or a share of all labels."""
VALID_PER_CLASS = 30
SPLITS = 5
OURS = {"scr": None, "base": "none"}
"""Regularizers of our rows; none: the default."""
LARGE = 50_000
SLOW_PEERS = ("gcnii",)
"""Left out on graphs with more nodes."""

Cell = tuple[str, str, int]
"""Graph, labels, split."""


@cache
def whole_graph(name: str) -> Graph:
    """A graph without a split of ours."""
    if name != "crowd":
        return load_graph(DATA / f"{name}.npz")
    # Large neighborhoods of many classes, features that say little.
    store = Path(__file__).parent / ".cache" / "strangers" / "crowd"
    if not store.exists():
        config = SynthConfig(
            nodes=100_000, edges=5_000_000, features=64, classes=20, homophily=0.35, signal=0.4,
            seed=1,
        )  # fmt: skip
        write_synth_store(config, store)
    return load_graph(store)


def split_graph(of: Cell) -> Graph:
    """The graph of a cell with its split."""
    name, labels, split = of
    graph = whole_graph(name)
    if labels.endswith("%"):
        share = int(labels.removesuffix("%")) / 100
        nodes = random_split(graph.labels, share, share, seed=split)
    else:
        nodes = per_class_split(graph.labels, int(labels), VALID_PER_CLASS, seed=split)
    return dataclasses.replace(graph, train=nodes.train, valid=nodes.valid, test=nodes.test)


def run(of: Cell, method: str) -> dict[str, Any]:
    """Train one method on one cell."""
    graph, started = split_graph(of), time.perf_counter()
    found: dict[str, Any] = {}
    if method in OURS:
        classifier = NodeClassifier(regularizer=OURS[method], seed=of[2]).fit(graph)
        answer = classifier.predict()
        found["calibration_error"] = classifier.metrics("test")["calibration_error"]
        found["encoder"] = classifier.recipe_.encoder
        found["hops"] = classifier.recipe_.propagation.hops
        found["scale"] = classifier.recipe_.data.scale
    else:
        answer = run_peer(method, graph, of[2])
    found["seconds"] = round(time.perf_counter() - started, 2)
    return scores(graph, answer) | found


def scores(graph: Graph, answer: NDArray[Any]) -> dict[str, float]:
    """Accuracy and mean recall on test nodes, accuracy on validation nodes."""
    classes, right = graph.labels[graph.test], (answer == graph.labels)[graph.test]
    recalls = [float(right[classes == each].mean()) for each in np.unique(classes)]
    return {
        "valid_accuracy": round(float((answer == graph.labels)[graph.valid].mean()), 5),
        "test_accuracy": round(float(right.mean()), 5),
        "balanced_accuracy": round(statistics.fmean(recalls), 5),
    }


def fill(name: str, options: argparse.Namespace) -> None:
    """Run what is missing of one graph."""
    results = Results(FOLDER / f"{name}.json", {"valid_per_class": VALID_PER_CLASS})
    methods = options.method or (*OURS, *PEERS)
    missing = [
        ((name, labels, split), method)
        for split in range(options.splits)
        for labels in options.labels or LABELS
        for method in methods
        if not results.find(labels=labels, split=split, method=method)
        and not (method in SLOW_PEERS and whole_graph(name).num_nodes > LARGE)
    ]
    with ProcessPoolExecutor(options.jobs, initializer=use_one_thread) as pool:
        waiting = {pool.submit(run, *each): each for each in missing}
        for done in as_completed(waiting):
            (_, labels, split), method = waiting[done]
            row = results.add({"labels": labels, "split": split, "method": method}, done.result())
            console.print(
                f"{name}, {labels} labels, split {split}, {method}: "
                f"{100 * row['test_accuracy']:.1f}% in {row['seconds']:.1f} s"
            )


def rows_of(name: str) -> list[dict[str, Any]]:
    """What was measured on a graph."""
    path = FOLDER / f"{name}.json"
    return Results(path, {"valid_per_class": VALID_PER_CLASS}).rows if path.exists() else []


def table(labels: str) -> list[str]:
    """Lines of a Markdown table: one graph per line, the mean over its splits."""
    columns = (*OURS, *PEERS)
    lines = [
        f"| {labels} labels | {' | '.join(columns)} |",
        f"| --- {'| --- ' * len(columns)}|",
    ]
    for name in GRAPHS:
        rows = [row for row in rows_of(name) if row["labels"] == labels]
        if rows:
            mark = "" if name in CHOSEN_ON else " *"
            shown = (method_cell(rows, method) for method in columns)
            lines.append(f"| {plain(name)}{mark} | {' | '.join(shown)} |")
    return lines


def method_cell(rows: Sequence[Mapping[str, Any]], method: str) -> str:
    """Accuracy with its spread, balanced accuracy in parentheses."""
    mine = [row for row in rows if row["method"] == method]
    if not mine:
        return ""
    return cell([r["test_accuracy"] for r in mine], [r["balanced_accuracy"] for r in mine])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--labels", action="append", choices=LABELS, help="may be repeated")
    parser.add_argument("--method", action="append", choices=(*OURS, *PEERS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    if not options.table:
        for name in options.graph or GRAPHS:
            fill(name, options)
    for labels in LABELS:
        console.print("\n".join(table(labels)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
