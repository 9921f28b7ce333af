"""How far probabilities can be believed: calibration errors, and coverage and size of sets.

    python benchmarks/calibration.py                   run what is missing, then print the tables
    python benchmarks/calibration.py --graph cora --splits 1
    python benchmarks/calibration.py --table

`NodeClassifier()` as it is, on the graphs and splits of `strangers.py`: 20 training and 30
validation nodes per class, or a random tenth each. Of each run: the calibration error (ECE, 15
bins) on test nodes with and without its temperature; then the share of test nodes whose class is in
their set, and the mean size of sets, for each score, over all classes and per class. Scores:

    lac       1 - p(class), the one in use
    aps       probability of all likelier classes, and a random part of its own (Romano et al. 2020)
    daps      aps, mixed with its mean over neighbors (Zargarbashi et al. 2023)
    dlac      lac, mixed in the same way

Results are written row by row to results/calibration.json; what is there is not run again.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cells import plain
from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.engines import use_one_thread
from scr.errors import GraphError
from scr.graph import Graph
from scr.prediction.calibration import score_limit, set_scores
from strangers import VALID_PER_CLASS, split_graph

GRAPHS = (
    "cora", "cora_ml", "acm", "uai", "blogcatalog", "actor", "amazon_photo", "flickr", "pubmed",
    "dblp_citation", "coauthor_cs", "wordnet",
)  # fmt: skip
LABELS = ("20", "10%")
SPLITS = 3
COVERAGES = (0.8, 0.9, 0.95)
SHOWN = 0.9
MIXED = 0.5
"""Share of the neighbors in scores that are mixed along the edges (lambda)."""
SCORES = ("lac", "aps", "daps", "dlac")

Matrix = NDArray[np.float64]


def aps_scores(probabilities: Matrix, seed: int) -> Matrix:
    """Probability of the classes that are likelier, and a random part of the class's own."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    parts = np.random.default_rng(seed).random((len(probabilities), 1))
    cumulated = np.cumsum(ranked, axis=1) - ranked + parts * ranked
    scores = np.empty_like(cumulated)
    np.put_along_axis(scores, order, cumulated, axis=1)
    return scores


def mixed(graph: Graph, scores: Matrix) -> Matrix:
    """(1 - lambda) s_v + lambda mean of the neighbors' s, which a node without any keeps."""
    adjacency = sp.csr_array(graph.adjacency(), dtype=np.float64)
    adjacency = (adjacency + adjacency.T).tocsr()
    adjacency.data[:] = 1
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()[:, None]
    means = np.where(degrees > 0, adjacency @ scores / np.maximum(degrees, 1), scores)
    return (1 - MIXED) * scores + MIXED * means


def measures(graph: Graph, scores: Matrix) -> dict[str, Any]:
    """Coverage and size of the sets on test nodes."""
    labels = np.asarray(graph.labels)
    valid, test = (nodes[labels[nodes] >= 0] for nodes in (graph.valid, graph.test))
    known = scores[valid, labels[valid]]
    found: dict[str, Any] = {}
    for coverage in COVERAGES:
        for kind in ("all", "per_class"):
            try:
                if kind == "all":
                    limits = np.full(graph.num_classes, score_limit(known, coverage))
                else:
                    limits = np.array([
                        score_limit(known[labels[valid] == each], coverage)
                        for each in range(graph.num_classes)
                    ])  # fmt: skip
            except GraphError:  # too few validation nodes
                continue
            inside = scores[test] <= limits
            right = inside[np.arange(len(test)), labels[test]]
            of_class = [
                float(right[labels[test] == each].mean()) for each in np.unique(labels[test])
            ]
            found[f"{kind} {coverage}"] = {
                "coverage": round(float(right.mean()), 5),
                "class_coverage": round(statistics.fmean(of_class), 5),
                "lowest_class": round(min(of_class), 5),
                "size": round(float(inside.sum(axis=1).mean()), 4),
                "empty": round(float((~inside.any(axis=1)).mean()), 5),
            }
    return found


def run(name: str, labels: str, split: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train on one split; what each score gives, and the calibration as `temperature`."""
    graph = split_graph(name, labels, split)
    classifier = NodeClassifier(seed=split).fit(graph)
    summary = classifier.summary()
    error = summary["calibration_error"]["test"]
    yield (
        "temperature",
        {
            "temperature": round(summary["temperature"], 4),
            "error_before": round(error["before"], 5),
            "error": round(error["after"], 5),
            "log_loss": round(summary["test"]["log_loss"], 5),
            "test_accuracy": round(summary["test_accuracy"], 5),
            "encoder": classifier.recipe_.encoder,
        },
    )
    probabilities = classifier.predict_proba().astype(np.float64)
    lac, aps = set_scores(probabilities), aps_scores(probabilities, split)
    by_name = {"lac": lac, "aps": aps, "daps": mixed(graph, aps), "dlac": mixed(graph, lac)}
    for score in SCORES:
        yield score, measures(graph, by_name[score])


def table(results: Results, labels: str) -> Iterator[str]:
    """Lines of Markdown: one graph per line, means over its splits."""
    columns = {
        "splits": None,
        "ECE before": ("temperature", "error_before"),
        "ECE": ("temperature", "error"),
        "coverage": ("lac", f"all {SHOWN}", "coverage"),
        "coverage per class": ("lac", f"per_class {SHOWN}", "coverage"),
        **{f"size by {score}": (score, f"all {SHOWN}", "size") for score in SCORES},
        "size per class": ("lac", f"per_class {SHOWN}", "size"),
    }
    yield f"| {labels} labels | {' | '.join(columns)} |"
    yield "|" + " --- |" * (1 + len(columns))
    lines = []
    for name in GRAPHS:
        rows = [row for row in results.rows if (row["graph"], row["labels"]) == (name, labels)]
        if not rows:
            continue
        numbers = [_mean(rows, *path) for path in columns.values() if path is not None]
        lines.append(numbers)
        splits = len({row["split"] for row in rows})
        yield f"| {plain(name)} | {splits} | {' | '.join(map(_shown, numbers))} |"
    # A mean over some of the graphs could not be compared with those beside it.
    means = [
        None if None in column else statistics.fmean(filter(None, column))
        for column in zip(*lines, strict=True)
    ]
    if lines:
        yield f"| mean |  | {' | '.join(map(_shown, means))} |"


def _mean(rows: Sequence[Mapping[str, Any]], kind: str, *keys: str) -> float | None:
    values = [_at(row, *keys) for row in rows if row["kind"] == kind]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def _at(row: Mapping[str, Any], *keys: str) -> float | None:
    found: Any = row
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.3f}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--labels", action="append", choices=LABELS, help="may be repeated")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    settings = {"valid_per_class": VALID_PER_CLASS, "coverages": COVERAGES, "mixed": MIXED}
    results = Results(RESULTS / "calibration.json", settings)
    use_one_thread()
    cells = product(range(options.splits), options.graph or GRAPHS, options.labels or LABELS)
    for split, name, labels in () if options.table else cells:
        key = {"graph": name, "labels": labels, "split": split}
        if results.find(**key, kind=SCORES[-1]):
            continue
        for kind, values in run(name, labels, split):
            results.add({**key, "kind": kind}, values)
        console.print(f"{name}, {labels} labels, split {split}")
    for labels in LABELS:
        console.print("\n".join(table(results, labels)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
