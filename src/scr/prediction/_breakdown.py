"""Where predictions are right: by the degree of a node and by its distance to a known label.

Reads the graph and the table of predictions, writes `breakdown.json`, from which a report is made
without the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.graph import Graph, known_labels
from scr.runs import BREAKDOWN, PREDICTIONS, write_json
from scr.storage import numpy_array

MOST_EDGES = 50_000_000
"""Of a graph with more stored edges no distances are computed: they would take minutes."""
FARTHEST = 8
"""Steps beyond which distances are not told apart."""
_GATHERED = 4_000_000
"""Edges that are followed at once."""


def write_breakdown(
    run: Path, graph: Graph, labeled: NDArray[np.int64], nodes: NDArray[np.int64] | None = None
) -> None:
    """Write `breakdown.json` of a run whose predictions are written.

    Args:
        run: The run directory.
        graph: Of the training.
        labeled: Nodes whose labels the model has seen; distances are to the nearest of these.
        nodes: The nodes of the rows of the predictions, ascending; none: all.
    """
    chosen = np.arange(graph.num_targets) if nodes is None else nodes
    split, measured = _measured(graph, labeled, chosen)
    content: dict[str, Any] = {"split": split}
    if graph.is_multilabel:
        content["targets"] = _by_target(run / PREDICTIONS, graph, chosen, measured)
    else:
        right, unlabeled = _right(run / PREDICTIONS)
        outcomes = {"nodes": measured, "right": measured & right, "unlabeled": unlabeled}
        content["degree"] = _by_degree(graph, chosen, outcomes)
        if graph.num_edges <= MOST_EDGES:
            steps = label_distances(graph, labeled)[chosen]
            content["distance"] = _by_distance(steps, outcomes)
    write_json(run / BREAKDOWN, content)


def _measured(
    graph: Graph, labeled: NDArray[np.int64], nodes: NDArray[np.int64]
) -> tuple[str | None, NDArray[np.bool_]]:
    """Which rows are measured: test nodes, or else validation nodes whose labels were not seen."""
    for split in ("test", "valid"):
        inside = np.zeros(graph.num_targets, bool)
        inside[getattr(graph, split)] = True
        inside[labeled] = False
        rows = inside[nodes] & known_labels(np.asarray(graph.labels[nodes]))
        if rows.any():
            return split, rows
    return None, np.zeros(len(nodes), bool)


def _right(path: Path) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of the predictions are as labeled, and which have no label."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    right, unlabeled = [], []
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["prediction", "label"]):
            label = batch.column("label")
            same = pc.and_kleene(pc.equal(batch.column("prediction"), label), label.is_valid())
            right.append(numpy_array(same))
            unlabeled.append(numpy_array(label.is_null()))
    return np.concatenate(right), np.concatenate(unlabeled)


def _by_target(
    path: Path, graph: Graph, nodes: NDArray[np.int64], measured: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Of each yes-or-no target, over measured nodes whose label of it is known: how many of them
    are 1, are predicted as 1, and are both.
    """
    import pyarrow.parquet as pq

    labels = np.asarray(graph.labels[nodes[measured]])
    rows = []
    for place, name in enumerate(graph.class_names):
        column = pq.read_table(path, columns=[f"probability_{name}"]).column(0).to_numpy()
        known, predicted = labels[:, place] >= 0, column[measured] > 0.5
        positive = labels[:, place] == 1
        counts = {"known": known, "positive": positive, "predicted": predicted & known}
        counts["right"] = positive & predicted
        rows.append({"target": name} | {key: int(each.sum()) for key, each in counts.items()})
    return rows


def _by_degree(
    graph: Graph, nodes: NDArray[np.int64], outcomes: dict[str, NDArray[np.bool_]]
) -> list[dict[str, Any]]:
    """Counts by degree: 0, 1, 2, 3 to 4, 5 to 8, and so on in powers of two."""
    degrees = np.diff(graph.indptr)
    if graph.directed:
        degrees = degrees + np.bincount(graph.indices, minlength=graph.num_nodes)
    own = degrees[nodes]
    groups = np.where(own > 0, 1 + np.ceil(np.log2(np.maximum(own, 1))).astype(np.int64), 0)
    rows = []
    for group, counts in _counted(groups, outcomes):
        low = group if group < 2 else 2 ** (group - 2) + 1
        rows.append({"from": low, "to": 2 ** (group - 1) if group else 0, **counts})
    return rows


def _by_distance(
    steps: NDArray[np.int64], outcomes: dict[str, NDArray[np.bool_]]
) -> list[dict[str, Any]]:
    """Counts by distance; null: farther than `FARTHEST` steps, or not connected."""
    return [
        {"distance": None if group > FARTHEST else group, **counts}
        for group, counts in _counted(steps, outcomes)
    ]


def _counted(
    groups: NDArray[np.int64], outcomes: dict[str, NDArray[np.bool_]]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Per group that has nodes which are measured or unlabeled, how many of each kind."""
    counts = {name: np.bincount(groups[mask]) for name, mask in outcomes.items()}
    longest = max(len(each) for each in counts.values())
    padded = {name: np.pad(each, (0, longest - len(each))) for name, each in counts.items()}
    for group in range(longest):
        numbers = {name: int(each[group]) for name, each in padded.items()}
        if numbers["nodes"] or numbers["unlabeled"]:
            yield group, numbers


def label_distances(graph: Graph, labeled: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges from each node to the nearest of some nodes, in either direction.

    `FARTHEST` + 1 stands for all that are farther, or not connected.
    """
    tables: list[tuple[NDArray[Any], NDArray[Any]]] = [(np.asarray(graph.indptr), graph.indices)]
    if graph.directed:
        ones = np.ones(graph.num_edges, np.int8)
        shape = (graph.num_nodes, graph.num_nodes)
        against = sp.csr_array((ones, graph.indices, graph.indptr), shape=shape).tocsc()
        tables.append((against.indptr, against.indices))
    steps = np.full(graph.num_nodes, FARTHEST + 1, dtype=np.int64)
    frontier = np.unique(labeled)
    steps[frontier] = 0
    for step in range(1, FARTHEST + 1):
        for indptr, indices in tables:
            for others in _neighbors(indptr, indices, frontier):
                steps[others] = np.minimum(steps[others], step)
        frontier = np.flatnonzero(steps == step)
        if len(frontier) == 0:
            break
    return steps


def _neighbors(
    indptr: NDArray[Any], indices: NDArray[Any], nodes: NDArray[np.int64]
) -> Iterator[NDArray[Any]]:
    """Neighbors of some nodes, at most about `_GATHERED` at once unless one node has more."""
    counts = indptr[nodes + 1] - indptr[nodes]
    parts = np.cumsum(counts) // _GATHERED
    for part in np.split(np.arange(len(nodes)), np.flatnonzero(np.diff(parts)) + 1):
        size = counts[part]
        starts = np.repeat(indptr[nodes[part]] - (np.cumsum(size) - size), size)
        yield indices[starts + np.arange(len(starts))]
