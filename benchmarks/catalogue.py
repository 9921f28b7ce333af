"""From two CSV files to predictions: `scr fit` on a catalog as shops export it.

    python benchmarks/catalogue.py

The products of `amazon_photo`, which are linked where customers bought both, become `nodes.csv` and
`edges.csv` with what such files have: ids that are text, class names, labels that are missing for
half of the products, descriptions, a date, a brand, prices with gaps, a number of the warehouse
that means nothing, a weight that is not called weight, repeated rows of edges, and edges to
products that were taken out. `scr fit` runs on them in a process of its own, once before the clock
counts. Its predictions are scored on the products whose label is missing, beside a random forest
that reads the same prepared columns without the graph. Rows are written to
results/catalogue.json.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import HERE, RESULTS, Results, console, measure, scr_command

DATA = HERE.parent.parent / "shared" / "data" / "amazon_photo.npz"
CATEGORIES = (
    "Film Photography", "Digital Cameras", "Binoculars & Scopes", "Lenses", "Tripods, Monopods",
    "Video Surveillance", 'Lighting "Studio"', "Flashes",
)  # fmt: skip
"""Names for the eight classes, whose own are not in the file; some with commas and quotes."""
BRANDS = 40
UNKNOWN_EDGES, REPEATED_EDGES = 150, 80
MISSING = 0.03
"""Share of descriptions and prices that are missing."""
TREES = 300
SEED = 0


def write_catalogue(data: Path, folder: Path, seed: int = SEED) -> dict[str, str]:
    """Write `nodes.csv` and `edges.csv`; returns the emptied labels by id."""
    generator = np.random.default_rng(seed)
    with np.load(data, allow_pickle=False) as file:
        labels, edges = file["y"], file["edge_index"]
        indices, indptr = file["x_indices"], file["x_indptr"]
    count = len(labels)
    ids = [f"SKU-{number:05d}" for number in generator.permutation(count)]
    emptied = np.zeros(count, bool)
    emptied[generator.permutation(count)[: count // 2]] = True
    has_gap = generator.random((count, 2)) < MISSING
    first_day = datetime.date(2009, 1, 1)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(
            ["sku", "category", "description", "brand", "price", "rating", "added", "internal_id"]
        )
        for node in range(count):
            words = indices[indptr[node] : indptr[node + 1]]
            table.writerow([
                ids[node],
                "" if emptied[node] else CATEGORIES[labels[node]],
                "" if has_gap[node, 0] else " ".join(f"word{word}" for word in words),
                f"Brand {generator.integers(BRANDS)}",
                "" if has_gap[node, 1] else f"{np.exp(generator.normal(4, 1)):.2f}",
                f"{generator.uniform(1, 5):.1f}",
                first_day + datetime.timedelta(days=int(generator.integers(1800))),
                int(100_000 + 7 * node),
            ])  # fmt: skip
    pairs = edges[:, edges[0] < edges[1]].T.tolist()
    repeated = generator.choice(len(pairs), REPEATED_EDGES, replace=False)
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["product", "also_bought", "together"])
        for one, other in [*pairs, *(pairs[row] for row in repeated)]:
            table.writerow([ids[one], ids[other], int(generator.integers(1, 10))])
        for number in range(UNKNOWN_EDGES):
            table.writerow([ids[generator.integers(count)], f"OLD-{number:04d}", 1])
    return {ids[node]: CATEGORIES[labels[node]] for node in np.flatnonzero(emptied)}


def accuracy_of(file: Path, emptied: dict[str, str]) -> float:
    """Share of the products without a label whose category is predicted."""
    with file.open(newline="", encoding="utf-8") as stream:
        found = {row["id"]: row["prediction"] for row in csv.DictReader(stream)}
    return float(np.mean([found[name] == category for name, category in emptied.items()]))


def forest_accuracy(run: Path, emptied: dict[str, str], seed: int = SEED) -> float:
    """Of a random forest on the prepared columns, without the graph."""
    from sklearn.ensemble import RandomForestClassifier

    from scr.graph import open_store

    graph = open_store(run / "graph")
    features: Any = graph.features
    assert graph.ids is not None
    known: NDArray[np.bool_] = np.asarray(graph.labels) >= 0
    asked = np.array([str(name) in emptied for name in graph.ids])
    forest = RandomForestClassifier(TREES, random_state=seed, n_jobs=-1)
    forest.fit(features[known], np.asarray(graph.labels)[known])
    predicted = forest.predict(features[asked])
    names = [str(name) for name in np.asarray(graph.ids)[asked]]
    right = [
        graph.class_names[label] == emptied[name]
        for name, label in zip(names, predicted, strict=True)
    ]
    return float(np.mean(right))


def main() -> None:
    """Write the catalog, fit it twice, and score the second."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--threads", type=int, help="cores that it may use; all by default")
    given = parser.parse_args()
    results = Results(RESULTS / "catalogue.json", {"seed": SEED, "trees": TREES})
    if results.find(step="fit"):
        return
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        emptied = write_catalogue(given.data, work)
        for out in ("before", "run"):
            command = scr_command(
                "fit", work / "nodes.csv", work / "edges.csv", "--label", "category", "--out",
                work / out,
            )  # fmt: skip
            measured = measure(command, folders=[work], threads=given.threads)
        console.print(measured.output, highlight=False, markup=False, soft_wrap=True)
        run = work / "run"
        record = json.loads((run / "fit.json").read_text(encoding="utf-8"))
        row = {
            **measured.row(),
            "threads": given.threads or os.cpu_count(),
            "unlabeled": len(emptied),
            "accuracy": round(accuracy_of(run / "predictions.csv", emptied), 5),
            "held_out": record["held_out"]["accuracy"],
            "held_out_interval": record["held_out"]["interval"],
            "gain": record["gain"],
            "random_forest": round(forest_accuracy(run, emptied), 5),
        }
    results.add({"step": "fit"}, row)
    console.print(
        f"{row['accuracy']:.1%} of {row['unlabeled']:,} products without a label are right "
        f"({row['held_out']:.1%} of held-out labels), {row['random_forest']:.1%} by a random "
        f"forest without the graph; {row['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
