"""Folds over all known labels: each label trains some models and scores the others."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph import Graph

FOLDS = 5
MANY_LABELS = 20_000
"""Training nodes from which one more hardly counts: the graph's own split is the only fold."""


def fold_graphs(graph: Graph, *, seed: int = 0, folds: int = FOLDS) -> list[Graph]:
    """The graph once for each fold, whose nodes validate; all other known labels train.

    Known labels are those of training and validation nodes; test nodes stay what they are. Folds
    are stratified by class.
    """
    if graph.is_multilabel:
        raise GraphError(
            f"The graph `{graph.name}` has several targets per node; expected one class per node "
            'for `effort="best"`'
        )
    if len(graph.train) >= MANY_LABELS and len(graph.valid):
        return [graph]
    known = np.union1d(graph.train, graph.valid).astype(np.int64)
    known = known[np.asarray(graph.labels[known]) >= 0]
    labels = np.asarray(graph.labels[known])
    folds = min(folds, len(known))
    if folds < 2 or len(np.unique(labels)) < 2:
        raise GraphError(
            f"The graph `{graph.name}` has {len(known)} known labels of {len(np.unique(labels))} "
            "classes; expected at least two of each to choose settings by",
            hint='train without `effort="best"`',
        )
    fold = stratified_folds(labels, folds, seed=seed)
    return [
        dataclasses.replace(graph, train=known[fold != each], valid=known[fold == each])
        for each in range(folds)
    ]


def stratified_folds(
    labels: NDArray[np.integer[Any]], folds: int, *, seed: int = 0
) -> NDArray[np.int64]:
    """The fold of each label; classes and folds are of equal size, as far as numbers allow."""
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold
