"""SCR whose views drop nodes before propagation, beside SCR with dropout alone.

    python benchmarks/dropped_nodes.py                     run what is missing, then print the table
    python benchmarks/dropped_nodes.py --graph cora --splits 1
    python benchmarks/dropped_nodes.py --table

20 training labels and 30 validation nodes per class, as in strangers.py; all other settings are
those that `auto` chooses. Results are written row by row to results/dropped_nodes.json; what is
there is not run again.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from cells import cell, plain
from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.engines import use_one_thread
from scr.errors import InactiveTermWarning
from strangers import VALID_PER_CLASS, scores, split_graph

GRAPHS = ("cora", "cora_ml", "pubmed", "amazon_photo")
LABELS = "20"
SPLITS = 3
NOISES: dict[str, dict[str, Any]] = {
    "dropout": {},
    "dropped-nodes": {"noise": "dropped-nodes"},
}


def run(name: str, split: int, noise: str) -> dict[str, Any]:
    """Train once."""
    graph, started = split_graph(name, LABELS, split), time.perf_counter()
    processor = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InactiveTermWarning)  # recorded instead
        classifier = NodeClassifier(consistency=NOISES[noise], seed=split).fit(graph)
    seconds = time.perf_counter() - started
    return {
        **scores(graph, classifier.predictor_.predict(None, None)),
        "encoder": classifier.recipe_.encoder,
        "hops": classifier.recipe_.propagation.hops,
        "inactive": classifier.inactive_,
        "epochs": len(classifier.history_),
        "seconds": round(seconds, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
    }


def fill(results: Results, options: argparse.Namespace) -> None:
    """Run what is missing."""
    missing = [
        (name, split, noise)
        for name in options.graph or GRAPHS
        for split in range(options.splits)
        for noise in NOISES
        if not results.find(graph=name, split=split, noise=noise)
    ]
    with ProcessPoolExecutor(options.jobs, initializer=use_one_thread) as pool:
        waiting = {pool.submit(run, *each): each for each in missing}
        for done in as_completed(waiting):
            name, split, noise = waiting[done]
            key = {"graph": name, "split": split, "noise": noise}
            row = results.add(key, done.result())
            console.print(
                f"{name}, split {split}, {noise}: {100 * row['test_accuracy']:.1f}% in "
                f"{row['processor_seconds']:.1f} s of one core{', inactive' * row['inactive']}"
            )


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a Markdown table: one graph per line, the mean over its splits."""
    headings = " | ".join(f"{noise}, accuracy | seconds" for noise in NOISES)
    lines = [f"| graph | {headings} | difference |", f"| --- {'| --- ' * (2 * len(NOISES) + 1)}|"]
    for name in GRAPHS:
        shown, means = [], []
        for noise in NOISES:
            mine = [row for row in rows if (row["graph"], row["noise"]) == (name, noise)]
            if not mine:
                break
            accuracies = [row["test_accuracy"] for row in mine]
            seconds = statistics.fmean(row["processor_seconds"] for row in mine)
            shown += [cell(accuracies, [row["balanced_accuracy"] for row in mine])]
            shown += [f"{seconds:.0f}"]
            means.append(statistics.fmean(accuracies))
        else:
            change = f"{100 * (means[1] - means[0]):+.1f}"
            lines.append(f"| {plain(name)} | {' | '.join(shown)} | {change} |")
    return lines


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    settings = {"labels": LABELS, "valid_per_class": VALID_PER_CLASS, "noises": NOISES}
    results = Results(RESULTS / "dropped_nodes.json", settings)
    if not options.table:
        fill(results, options)
    console.print("\n".join(table(results.rows)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
