"""What pages presuppose: small real files under the names that pages use, and Python names."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.runs import citation_graph, typed_graph

import scr

STORES = ("GRAPH", "STORE", "cora.store", "path-or-name")
RUNS = ("runs/cora", "runs/mine", "RUN")
"""Put where a command reads them, unless the page has made its own."""
UNLABELED = 20


def make_files(folder: Path) -> None:
    """Write stores, tables, a bundle and, as `run`, a finished run."""
    graph = partly_labeled_graph()
    for name in STORES:
        graph.save(folder / name)
    typed_graph().save(folder / "packages.store")
    np.savez(
        folder / "cora.npz", edge_index=np.stack(graph.adjacency().nonzero()), x=graph.features,
        y=graph.labels, train_idx=graph.train, val_idx=graph.valid, test_idx=graph.test,
    )  # fmt: skip
    (folder / "my-tables").mkdir()
    write_tables(graph, folder / "my-tables", label="label")
    write_tables(graph, folder, label="category")
    new = ["id,f0,f1,f2,f3", "new0,0.1,0.2,0.3,0.4", "new1,0.4,0.3,0.2,0.1"]
    (folder / "new_nodes.csv").write_text("\n".join(new) + "\n", encoding="utf-8")
    (folder / "new_edges.csv").write_text("source,target\nnew0,n1\nnew1,new0\n", encoding="utf-8")
    classifier = scr.NodeClassifier("ssgc", "scr", epochs=3)
    classifier.fit(scr.load_graph(folder / "cora.store")).save(folder / "run")


def partly_labeled_graph() -> scr.Graph:
    """Four classes, as the golden runs have them; the labels of some nodes are not known."""
    graph = citation_graph(nodes=240)
    labels = np.array(graph.labels)
    labels[graph.test[-UNLABELED:]] = -1
    return replace(graph, labels=labels, test=graph.test[:-UNLABELED])


def write_tables(graph: scr.Graph, folder: Path, *, label: str) -> None:
    """`nodes.csv` and `edges.csv` with text ids."""
    columns = [f"f{number}" for number in range(4)]
    with (folder / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", label, *columns])
        for node, number in enumerate(graph.labels):
            row = np.asarray(graph.features)[node, :4].round(3)
            table.writerow([f"n{node}", f"class {number}" if number >= 0 else "", *row])
    with (folder / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        pairs = zip(*graph.adjacency().nonzero(), strict=True)
        table.writerows([f"n{source}", f"n{target}"] for source, target in pairs)


def make_names() -> dict[str, Any]:
    """Every name that a page may take as given, all of the same small graph."""
    import torch
    from torch.nn.functional import cross_entropy

    graph = citation_graph(nodes=240)
    features = torch.tensor(np.asarray(graph.features))
    labels = torch.tensor(graph.labels)
    unlabeled = torch.ones(len(labels), dtype=torch.bool)
    unlabeled[torch.tensor(graph.train)] = False
    model = _Model(graph.num_features, graph.num_classes)
    edge_index = torch.tensor(np.stack(graph.adjacency().nonzero()))
    return {
        "np": np, "numpy": np, "torch": torch, "scr": scr, "cross_entropy": cross_entropy,
        "graph": graph, "other": citation_graph(nodes=160), "edge_index": edge_index,
        "X": graph.features, "y": labels, "x": features, "features": features,
        "new_features": graph.features[:2], "new_edges": [(240, 0), (241, 240)],
        "i": graph.train, "j": graph.valid, "k": graph.test,
        "train": graph.train, "valid": graph.valid, "test": graph.test, "unlabeled": unlabeled,
        "names": [f"n{node}" for node in range(len(labels))], "nodes": graph.test[:5],
        "model": model, "probabilities": model(features, edge_index).softmax(dim=1),
        "classifier": scr.NodeClassifier("ssgc", "none", preset="none", epochs=3).fit(graph),
    }  # fmt: skip


def _Model(features: int, classes: int) -> Any:
    """A torch model with dropout that takes `(x, edge_index)`."""
    from torch import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Dropout(0.5), nn.Linear(features, classes))

        def forward(self, x: Any, edge_index: Any = None) -> Any:
            return self.layers(x)

    return Model()
