"""Trust in pseudo labels, estimated from a few labels, beside how often they are right.

    python benchmarks/trust.py --data DIR

For 1 to 5 and 20 labels per class, drawn anew each time: the share of the consistency weight that
`consistency.trust = "measured"` leaves, and the agreement beyond chance of the same linear model
with all other labels, which nothing reads but this table. The thresholds of the agreement of
neighbors (`scr.consistency._trust`) were set with the graphs of this table in view. Writes
results/trust.json, row by row; what is there is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from harness import RESULTS, Results, console
from scr.consistency import ConsistencyConfig
from scr.graph import Graph
from scr.sources import load_graph
from scr.training import Prepared, graph_facts, prepare, resolve
from scr.training._trust import judge_trust

GRAPHS = (
    "cora", "pubmed", "amazon_photo", "dblp_citation", "coauthor_cs", "cora_ml", "acm", "uai",
    "blogcatalog", "flickr", "actor",
)  # fmt: skip
LABELS = (1, 2, 3, 4, 5, 20)
DRAWS = 6
MOST_OTHERS = 3_000
"""Nodes that the agreement with all other labels is measured on."""


def draw(graph: Graph, per_class: int, seed: int) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with so many training nodes per class, and some of its other labeled nodes."""
    labels = np.asarray(graph.labels)
    generator = np.random.default_rng([per_class, seed])
    train = np.concatenate(
        [
            generator.permutation(np.flatnonzero(labels == each))[:per_class]
            for each in range(graph.num_classes)
        ]
    )
    others = generator.permutation(np.setdiff1d(np.flatnonzero(labels >= 0), train))[:MOST_OTHERS]
    return dataclasses.replace(graph, train=np.sort(train), valid=others[:1], test=others), others


def agreement_with(prepared: Prepared, graph: Graph, others: NDArray[np.int64]) -> float:
    """Accuracy of a linear model of the training nodes on others, from chance (0) to 1."""
    rows = prepared.averages(np.asarray(graph.train)).astype(np.float64)
    center = rows.mean(axis=0)
    scale = max(float(np.sqrt(np.square(rows - center).sum(axis=1).mean())), 1e-12)
    labels = np.asarray(graph.labels)
    model = LogisticRegression(C=100.0, max_iter=40)
    model.fit((rows - center) / scale, labels[graph.train])
    right = model.predict((prepared.averages(others) - center) / scale) == labels[others]
    chance = np.bincount(labels[others]).max() / len(others)
    return float((right.mean() - chance) / (1 - chance))


def main() -> None:
    """Run what is missing and print a line per graph."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=RESULTS.parents[2] / "shared" / "data")
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    options = parser.parse_args()
    results = Results(RESULTS / "trust.json", {"draws": DRAWS, "labels": list(LABELS)})
    for name in options.graph or GRAPHS:
        graph = load_graph(options.data / f"{name}.npz")
        prepared = None
        for per_class in LABELS:
            key = {"graph": name, "labels_per_class": per_class}
            if results.find(**key):
                continue
            shares, agreements = [], []
            for seed in range(DRAWS):
                drawn, others = draw(graph, per_class, seed)
                if prepared is None:
                    recipe = resolve(graph_facts(drawn), encoder="ssgc", regularizer="scr")
                    prepared = prepare(drawn, recipe)
                judged, _ = judge_trust(ConsistencyConfig(weight=1.0), prepared, drawn)
                shares.append(0.0 if judged is None else round(judged.weight, 3))
                agreements.append(round(agreement_with(prepared, drawn, others), 3))
            results.add(key, {"shares": shares, "agreements": agreements})
            console.print(f"{name}, {per_class} per class: weight {shares}, right {agreements}")


if __name__ == "__main__":
    main()
