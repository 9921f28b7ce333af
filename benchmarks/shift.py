"""Class shares of unlabeled nodes, estimated without labels, and what correcting by them does.

    python benchmarks/shift.py                     run what is missing, then print the tables
    python benchmarks/shift.py --graph cora --splits 1
    python benchmarks/shift.py --table

Training and validation nodes are as many of each class (20 and 30), test nodes are all others: they
have the classes as common as the graph does. `NodeClassifier()` as it is; the shares that it
estimates among the test nodes are compared with the true ones, and accuracies with and without the
correction. Results are written row by row to results/shift.json; what is there is not run again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np

from cells import plain
from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.engines import use_one_thread
from scr.prediction._class_shares import label_shares
from strangers import VALID_PER_CLASS, scores, split_graph

GRAPHS = (
    "cora", "cora_ml", "acm", "pubmed", "amazon_photo", "uai", "blogcatalog", "actor",
    "dblp_citation", "coauthor_cs", "flickr", "wordnet",
)  # fmt: skip
LABELS = "20"
SPLITS = 3
ESTIMATES = ("predicted", "em", "bbse")
CORRECTIONS = ("none", "em", "bbse")


def run(name: str, split: int) -> dict[str, Any]:
    """Train on one split, estimate, correct."""
    graph, started = split_graph(name, LABELS, split), time.perf_counter()
    classifier = NodeClassifier(seed=split).fit(graph)
    seconds = time.perf_counter() - started
    recorded = classifier.summary()["class_shares"]
    estimating = time.perf_counter() - started - seconds
    true = label_shares(graph.labels[graph.test], graph.num_classes)
    found: dict[str, Any] = {
        "encoder": classifier.recipe_.encoder,
        "seconds": round(seconds, 2),
        "estimate_seconds": round(estimating, 2),
        "calibration_error": classifier.metrics("test")["calibration_error"],
        # Half of the sum of differences: the nodes that would have to change class.
        "shift": float(np.abs(true - recorded["training"]).sum() / 2),
        "gains": recorded["gains"],
    }
    for estimate in ESTIMATES:
        found[f"error_{estimate}"] = float(np.abs(true - recorded[estimate]).mean())
    for correction in CORRECTIONS:
        answer = classifier.predict_proba(class_shares=correction).argmax(axis=1)
        measured = scores(graph, answer)
        found[f"accuracy_{correction}"] = measured["test_accuracy"]
        found[f"balanced_{correction}"] = measured["balanced_accuracy"]
    return found


def fill(results: Results, options: argparse.Namespace) -> None:
    """Run what is missing."""
    missing = [
        (name, split)
        for name in options.graph or GRAPHS
        for split in range(options.splits)
        if not results.find(graph=name, split=split)
    ]
    with ProcessPoolExecutor(options.jobs, initializer=use_one_thread) as pool:
        waiting = {pool.submit(run, *each): each for each in missing}
        for done in as_completed(waiting):
            name, split = waiting[done]
            row = results.add({"graph": name, "split": split}, done.result())
            shown = ", ".join(f"{each} {100 * row[f'accuracy_{each}']:.1f}" for each in CORRECTIONS)
            console.print(f"{name}, split {split}: {shown} in {row['seconds']:.1f} s")


def mean(rows: Sequence[Mapping[str, Any]], field: str) -> float:
    """In percent, over splits."""
    return 100 * statistics.fmean(row[field] for row in rows)


def tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Markdown: errors of the estimates, then what corrections change."""
    per_graph = {
        name: [row for row in rows if row["graph"] == name]
        for name in GRAPHS
        if any(row["graph"] == name for row in rows)
    }
    lines = ["| graph | shift | mean prediction | EM | BBSE |", "| --- | --- | --- | --- | --- |"]
    for name, mine in per_graph.items():
        errors = (f"{mean(mine, f'error_{each}'):.1f}" for each in ESTIMATES)
        lines.append(f"| {plain(name)} | {mean(mine, 'shift'):.0f} | {' | '.join(errors)} |")
    lines += [
        "", "| graph | as predicted | EM | BBSE | check says, EM | check says, BBSE |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, mine in per_graph.items():
        cells = [
            f"{mean(mine, f'accuracy_{each}'):.1f} ({mean(mine, f'balanced_{each}'):.1f})"
            for each in CORRECTIONS
        ]
        lines.append(
            f"| {plain(name)} | {' | '.join(cells)} | {said(mine, 'em')} | {said(mine, 'bbse')} |"
        )
    return [*lines, "", *agreements(rows)]


def said(rows: Sequence[Mapping[str, Any]], estimate: str) -> str:
    """How often the check on validation nodes gave which verdict."""
    verdicts = [row["gains"][estimate]["verdict"] for row in rows]
    each = {name: verdicts.count(name) for name in ("helps", "unclear", "harms")}
    return ", ".join(f"{count} {name}" for name, count in each.items() if count)


def agreements(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What test accuracy did where the check said something."""
    lines = []
    for estimate in CORRECTIONS[1:]:
        for verdict in ("helps", "unclear", "harms"):
            mine = [row for row in rows if row["gains"][estimate]["verdict"] == verdict]
            changes = [row[f"accuracy_{estimate}"] - row["accuracy_none"] for row in mine]
            rose = sum(change > 0 for change in changes)
            if mine:
                lines.append(
                    f"{estimate}, {verdict}: test accuracy rose in {rose} of {len(mine)} runs, by "
                    f"{100 * statistics.fmean(changes):+.1f} points on average"
                )
    return lines


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    settings = {"labels": LABELS, "valid_per_class": VALID_PER_CLASS}
    results = Results(RESULTS / "shift.json", settings)
    if not options.table:
        fill(results, options)
    console.print("\n".join(tables(results.rows)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
