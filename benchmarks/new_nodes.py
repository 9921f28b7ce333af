"""Work of predicting new nodes: from their neighborhood beside the whole enlarged graph.

    python benchmarks/new_nodes.py --data /path/to/npz/files
    python benchmarks/new_nodes.py --table          prints what there is

From each graph, 1,000 random nodes are taken away with their edges, and `sign` is trained for one
epoch on the rest: weights do not matter here. Then 1, 10, 100 and 1,000 of these nodes join again:

    part     `NodeClassifier.predict_new`, which computes the neighborhood of the new nodes
    whole    `predict_proba` on the enlarged graph, which is built first

Seconds are those of the processor, of all threads together, so that other work on the machine has
little part in them. The best of some rounds counts, after one that compiles the kernels; `reach` is
the share of the graph's nodes that are in the neighborhood. Writes results/new_nodes.json; rows
that are there already are not measured again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness import HERE, RESULTS, Results, console

OUT = RESULTS / "new_nodes.json"
COUNTS = (1, 10, 100, 1000)
HOPS = (2, 4)
ROUNDS = 5
SYNTH = {"nodes": 200_000, "edges": 1_000_000, "features": 128, "classes": 10}


def load(name: str, data: Path) -> Any:
    """A graph with a split: one of the files, or the generated one."""
    from scr.graph import apply_split, open_store
    from scr.sources import load_graph
    from scr.synth import SynthConfig, write_synth_store

    if name == "synth":
        folder = tempfile.mkdtemp(prefix="new-nodes-")
        return open_store(write_synth_store(SynthConfig(**SYNTH), Path(folder) / "store"))
    graph = load_graph(str(data / f"{name}.npz"))
    return graph if len(graph.train) else apply_split(graph, "random:0.1,0.1")


def taken_apart(graph: Any, count: int) -> tuple[Any, Any, Any]:
    """The graph without some random nodes; features of these, and their edges as pairs."""
    from scr.graph import Graph

    taken = np.random.default_rng(0).choice(graph.num_nodes, count, replace=False)
    is_taken = np.zeros(graph.num_nodes, bool)
    is_taken[taken] = True
    number = np.empty(graph.num_nodes, np.int64)
    number[~is_taken] = np.arange(graph.num_nodes - count)
    number[taken] = graph.num_nodes - count + np.arange(count)
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    targets = np.asarray(graph.indices)
    stays = ~is_taken[sources] & ~is_taken[targets]
    splits = {
        name: number[nodes[~is_taken[nodes]]]
        for name in ("train", "valid", "test")
        for nodes in [np.asarray(getattr(graph, name))]
    }
    kept = Graph.from_edges(
        np.stack([number[sources[stays]], number[targets[stays]]]),
        features=graph.features[~is_taken], labels=np.asarray(graph.labels)[~is_taken],
        class_names=graph.class_names, num_nodes=graph.num_nodes - count, name=graph.name, **splits,
    )  # fmt: skip
    pairs = np.stack([number[sources[~stays]], number[targets[~stays]]], axis=1)
    return kept, graph.features[taken], pairs


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the cheapest round, and what it gave."""
    made, seconds = work(), []
    for _ in range(ROUNDS):
        started = time.process_time()
        made = work()
        seconds.append(time.process_time() - started)
    return min(seconds), made


def predict_whole(classifier: Any, known: Any, new: Any) -> Any:
    """The new nodes from all that there is."""
    from scr.graph import enlarged

    numbers = np.arange(known.num_nodes, known.num_nodes + new.count)
    return classifier.predict_proba(numbers, graph=enlarged(known, new))


def measure_graph(name: str, data: Path, results: Results) -> None:
    """All rows of a graph."""
    import scr
    from scr.graph import NewNodes
    from scr.prediction._new_nodes import _walks, models_of

    known, features, pairs = taken_apart(load(name, data), max(COUNTS))
    for hops in HOPS:
        if all(results.find(graph=name, hops=hops, new=count) for count in COUNTS):
            continue
        classifier = scr.NodeClassifier(
            "sign", "none", preset="none", epochs=1, propagation={"hops": hops}
        ).fit(known)
        predictor = classifier.new_node_predictor()
        for count in COUNTS:
            end = known.num_nodes + count
            chosen = pairs[(pairs < end).all(axis=1)]
            new = NewNodes.of(known, features[:count], chosen)
            ids = np.arange(known.num_nodes, end)
            part = predictor.neighborhoods.part(
                new, np.zeros(0, np.int64), *_walks(models_of(predictor.predictor))
            )
            ours, made = best(partial(predictor.predict_numbered, new, ids))
            whole, expected = best(partial(predict_whole, classifier, known, new))
            difference = float(np.abs(made.probabilities - expected).max())
            row = results.add(
                {"graph": name, "hops": hops, "new": count},
                {
                    "nodes": known.num_nodes, "edges": known.num_edges,
                    "reach": round(part.num_nodes / end, 4),
                    "part_seconds": round(ours, 5), "whole_seconds": round(whole, 5),
                    "difference": difference,
                },
            )  # fmt: skip
            console.print(row)


def table(rows: list[dict[str, Any]]) -> str:
    """As the guide shows it."""
    lines = [
        "| graph | nodes | hops | new nodes | reach | neighborhood | whole graph | times less |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        ours, whole = row["part_seconds"], row["whole_seconds"]
        lines.append(
            f"| {row['graph']} | {row['nodes']:,} | {row['hops']} | {row['new']:,} | "
            f"{row['reach']:.1%} | {ours * 1000:,.1f} ms | {whole * 1000:,.0f} ms | "
            f"{whole / ours:,.1f} |"
        )
    worst = max(row["difference"] for row in rows)
    return "\n".join([*lines, "", f"Largest difference of a probability: {worst:.1e}"])


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--graphs", nargs="+", default=["pubmed", "wordnet", "synth"])
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = Results(OUT, {"encoder": "sign", "rounds": ROUNDS, "synth": SYNTH})
    if options.table:
        sys.stdout.write(table(results.rows) + "\n")
        return
    for name in options.graphs:
        measure_graph(name, options.data, results)


if __name__ == "__main__":
    main()
