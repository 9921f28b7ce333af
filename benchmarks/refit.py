"""What a refit brings: the same model trained once more with the labels of validation nodes.

    python benchmarks/refit.py               run what is missing, then print the table
    python benchmarks/refit.py --table

Splits are those of `strangers.py` with 20 training and 30 validation labels per class. `without` is
`NodeClassifier()` as it is, `refit` is `NodeClassifier(refit=True)`. Rows are written one by one to
results/refit.json.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.engines import use_one_thread
from strangers import split_graph

GRAPHS = ("cora", "pubmed", "amazon_photo", "dblp_citation", "actor")
LABELS, SPLITS = "20", 3
METHODS = {"without": False, "refit": True}


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print")
    results = Results(RESULTS / "refit.json", {"labels": LABELS, "splits": SPLITS})
    if not parser.parse_args().table:
        use_one_thread()
        cells = [(graph, split) for graph in GRAPHS for split in range(SPLITS)]
        for graph, split in cells:
            for method in METHODS:
                if not results.find(graph=graph, split=split, method=method):
                    key = {"graph": graph, "split": split, "method": method}
                    console.print(results.add(key, run(graph, split, method)))
    print(table(results.rows))


def run(graph: str, split: int, method: str) -> dict[str, Any]:
    """Train one model on one split."""
    cut = split_graph(graph, LABELS, split)
    started = time.perf_counter()
    summary = NodeClassifier(seed=split, refit=METHODS[method]).fit(cut).summary()
    return {
        "test_accuracy": round(summary["test_accuracy"], 5),
        "calibration_error": round(summary["test"]["calibration_error"], 5),
        "seconds": round(time.perf_counter() - started, 2),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over the splits that both methods have, in Markdown."""
    lines = [
        "| graph | splits | test accuracy without | with a refit | difference | time |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for graph in GRAPHS:
        by_method = [
            {row["split"]: row for row in rows if (row["graph"], row["method"]) == (graph, method)}
            for method in METHODS
        ]
        common = sorted(by_method[0].keys() & by_method[1].keys())
        if not common:
            continue
        before, after = (
            statistics.fmean(100 * found[split]["test_accuracy"] for split in common)
            for found in by_method
        )
        seconds = [sum(found[split]["seconds"] for split in common) for found in by_method]
        lines.append(
            f"| {graph} | {len(common)} | {before:.1f} | {after:.1f} | {after - before:+.1f} | "
            f"×{seconds[1] / seconds[0]:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
