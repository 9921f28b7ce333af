"""What it costs to keep validation and test nodes out of training.

    python benchmarks/inductive.py                  run what is missing, then print the table
    python benchmarks/inductive.py --table

Two splits: 20 training labels and 30 validation nodes per class, as in strangers.py, where nearly
all other nodes are test nodes and thus unseen; and 60% training, 20% validation, 20% test nodes.
Settings are those that `auto` chooses. Results are written row by row to results/inductive.json;
what is there is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from cells import plain
from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.errors import InactiveTermWarning
from scr.graph import random_split
from strangers import split_graph

GRAPHS = ("cora", "amazon_photo")
LABELS = {"20 per class": None, "60%": (0.6, 0.2)}
SPLITS = 3


def run(name: str, labels: str, split: int, *, inductive: bool) -> dict[str, Any]:
    """Train once."""
    graph, shares = split_graph(name, "20", split), LABELS[labels]
    if shares is not None:
        nodes = random_split(graph.labels, *shares, seed=split)
        graph = dataclasses.replace(graph, train=nodes.train, valid=nodes.valid, test=nodes.test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InactiveTermWarning)
        classifier = NodeClassifier(seed=split, inductive=inductive).fit(graph)
    return {"test_accuracy": classifier.score("test"), "encoder": classifier.recipe_.encoder}


def fill(results: Results) -> None:
    """Run what is missing."""
    for name in GRAPHS:
        for labels in LABELS:
            for split in range(SPLITS):
                for inductive in (False, True):
                    key = {"graph": name, "labels": labels, "split": split, "inductive": inductive}
                    if results.find(**key):
                        continue
                    row = results.add(key, run(name, labels, split, inductive=inductive))
                    console.print(f"{key}: {100 * row['test_accuracy']:.1f}%", markup=False)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a Markdown table: the mean over splits, where all of them were run."""
    lines = ["| graph | training labels | transductive | inductive |", "| --- | --- | --- | --- |"]
    for name in GRAPHS:
        for labels in LABELS:
            shown = []
            for inductive in (False, True):
                mine = [
                    row["test_accuracy"]
                    for row in rows
                    if (row["graph"], row["labels"], row["inductive"]) == (name, labels, inductive)
                ]
                if len(mine) == SPLITS:
                    shown.append(f"{100 * statistics.fmean(mine):.1f}")
            if len(shown) == 2:
                lines.append(f"| {plain(name)} | {labels} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    results = Results(RESULTS / "inductive.json", {"labels": list(LABELS)})
    if not options.table:
        fill(results)
    console.print("\n".join(table(results.rows)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
