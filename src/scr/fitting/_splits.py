"""Which known labels train and which are held out, so that none is thrown away.

A part of the labels chooses settings and says how good they are; then all of them train. Few labels
are held out in turns, fold by fold, since a fifth of them would say little.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph import Graph, apply_split, known_labels

MANY_CLASSES = 10
"""Labels of which at least two must be of the same class."""
FEW_LABELS = 500
"""With fewer, folds: a fifth of so many says an accuracy of 80% within eight points."""
HELD_OUT_PART = 5
"""Otherwise one in so many labels of each class is held out."""


@dataclass(frozen=True)
class SplitPlan:
    """A graph with its split, and how it came about."""

    graph: Graph
    """Of folds, all known labels are training nodes."""
    kind: Literal["own", "drawn", "folds"]

    @property
    def known(self) -> int:
        """Labels that train in the end."""
        return len(self.graph.train) + len(self.graph.valid)


def plan_split(graph: Graph, splits: str | Path | None = None, *, seed: int = 0) -> SplitPlan:
    """Split the known labels of a graph.

    Args:
        graph: Its own training and validation nodes are respected; test nodes always.
        splits: A rule or a file as of `load_graph`; wins over the graph's own split.
        seed: Of what is drawn.
    """
    if splits is not None:
        graph = apply_split(graph, splits, seed=seed)
    if len(graph.train) and len(graph.valid):
        return SplitPlan(graph, "own")
    known, labels = _known(graph), np.asarray(graph.labels)
    test = graph.test if len(graph.test) else None
    if len(known) < FEW_LABELS and not graph.is_multilabel:
        return SplitPlan(graph.with_split(known, test=test), "folds")
    if graph.is_multilabel:
        labels = np.zeros(len(labels), np.int64)  # there are no classes to draw by
    valid = held_out_part(labels, known, seed=seed)
    split = graph.with_split(np.setdiff1d(known, valid), valid, test)
    step = (
        f"held out {len(valid):,} of {len(known):,} known labels, drawn by class with seed {seed}"
    )
    return SplitPlan(dataclasses.replace(split, steps=(*split.steps, step)), "drawn")


def _known(graph: Graph) -> NDArray[np.int64]:
    """Labeled nodes that may train: training nodes, or where there are none, all but test nodes."""
    labels = np.asarray(graph.labels)
    if len(graph.train):
        nodes = np.asarray(graph.train)
    else:
        nodes = np.setdiff1d(np.arange(len(labels)), graph.test)
    known = nodes[known_labels(labels[nodes])].astype(np.int64)
    classes = 2 if graph.is_multilabel else len(np.unique(labels[known]))
    if len(known) < 2 or classes < 2:
        raise GraphError(
            f"The graph `{graph.name}` has {len(known):,} known labels of {classes} "
            f"{'class' if classes == 1 else 'classes'}; expected labels of at least two classes",
            hint="is `label` the column of the classes?",
        )
    if not graph.is_multilabel and classes == len(known) and len(known) >= MANY_CLASSES:
        raise GraphError(
            f"The {len(known):,} known labels of the graph `{graph.name}` are all different; "
            "expected classes that several nodes have",
            hint="is `label` the column of the classes, and not of a number?",
        )
    return known


def held_out_part(
    labels: NDArray[np.integer[Any]], known: NDArray[np.int64], *, seed: int = 0
) -> NDArray[np.int64]:
    """One in `HELD_OUT_PART` nodes of each class, rounded, at least one; a single one trains."""
    generator = np.random.default_rng(seed)
    parts = []
    for label in np.unique(labels[known]):
        nodes = generator.permutation(known[labels[known] == label])
        count = min(max(1, round(len(nodes) / HELD_OUT_PART)), len(nodes) - 1)
        parts.append(nodes[:count])
    return np.sort(np.concatenate(parts))
