"""Propagate training labels, without handing a training node its own label back.

A cycle brings a node's own label back to it: over one edge and back it is in hop 2 already. An
encoder then learns to read the answer off its input, on training nodes only. The guards:

    none    nothing is done
    far     only the farthest hop is kept, in which the own label is diluted (GAMLP's choice)
    exact   hops 1 and 2 lose the own label's part, (A)_ii y_i and (A^2)_ii y_i, by subtraction
    folds   training nodes are cut into folds; a fold's rows are computed without that fold's
            labels, all other rows with all labels. No cycle of any length leaks.

`exact` cannot go beyond two hops, since the diagonal of A^3 costs a triangle count; `folds` can,
at the price of one more propagation per fold. Both hide labels from training rows only, so those
rows carry slightly less label mass than others.

Only labels of the given training nodes are ever read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.propagation.config import PropagationConfig
from scr.propagation.memory import aligned_empty
from scr.propagation.normalization import NormalizedAdjacency, normalize
from scr.propagation.steps import walk

if TYPE_CHECKING:
    from scr.graph.graph import Graph

FOLDS = 5


def label_hops(
    graph: Graph,
    config: PropagationConfig,
    *,
    labels: NDArray[Any] | None = None,
    train: NDArray[Any] | None = None,
    targets: NDArray[Any] | None = None,
    classes: int | None = None,
    seed: int = 0,
    folds: int = FOLDS,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Multiply the training labels by powers of the adjacency; `config.label_*` says which.

    Args:
        graph: The graph.
        config: Its fields that start with `label_` count.
        labels: Class numbers of shape (nodes,), or soft labels of shape (nodes, classes); the
            graph's own by default. Rows outside `train` are not read.
        train: Nodes whose labels may be read; the graph's training nodes by default. Later stages
            add the nodes that they trust.
        targets: Soft labels of the nodes in `train`, in their order, instead of `labels`; shape
            (len(train), classes).
        classes: Number of classes; the graph's by default.
        seed: Decides the folds.
        folds: How many, for the guard `folds`.
        threads: Cores to use; all by default.

    Returns:
        Hops 1 to `label_hops` (or only the last), shape (nodes, `config.label_matrices`, classes).
    """
    nodes = np.asarray(graph.train if train is None else train)
    if targets is None:
        targets = _targets(
            graph.labels if labels is None else labels,
            nodes,
            graph.num_classes if classes is None else classes,
        )
    shape = (graph.num_nodes, config.label_matrices, targets.shape[1])
    if shape[1] == 0:
        return np.zeros(shape, dtype=np.float32)
    adjacency = normalize(
        graph,
        norm=config.label_norm,
        self_loops=config.label_self_loops,
        direction=config.label_direction,
    )
    every = np.ones(len(nodes), dtype=bool)
    result = _propagate(adjacency, nodes, targets, every, config, threads)
    if config.label_guard == "exact":
        _subtract_own(result, adjacency, nodes, targets, config)
    elif config.label_guard == "folds":
        for held_out in _folds(len(nodes), folds, seed):
            without = _propagate(adjacency, nodes, targets, ~held_out, config, threads)
            result[nodes[held_out]] = without[nodes[held_out]]
    return result


def _targets(labels: NDArray[Any], nodes: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """One distribution per training node: its one-hot label, or its soft label as given."""
    given = np.asarray(labels)[nodes]
    if given.ndim == 2:
        return np.asarray(given, dtype=np.float32)
    if given.size and not (given.min() >= 0 and given.max() < classes):
        wrong = given[(given < 0) | (given >= classes)][0]
        raise GraphError(
            f"A training node has the label {wrong}; expected a class from 0 to {classes - 1}",
            hint="drop nodes without a label from the training nodes",
        )
    return np.asarray(np.eye(classes, dtype=np.float32)[given])


def _propagate(
    adjacency: NormalizedAdjacency,
    nodes: NDArray[Any],
    targets: NDArray[np.float32],
    visible: NDArray[np.bool_],
    config: PropagationConfig,
    threads: int | None,
) -> NDArray[np.float32]:
    """Label hops of all nodes, from the labels of the visible training nodes."""
    classes, kept = targets.shape[1], config.label_matrices
    result = np.empty((adjacency.num_nodes, kept, classes), dtype=np.float32)
    current = aligned_empty((adjacency.num_nodes, classes), np.float32)
    spare = aligned_empty((adjacency.num_nodes, classes), np.float32)
    current[...] = 0
    current[nodes[visible]] = targets[visible]
    hops = walk(adjacency, current, spare, config.label_hops, threads=threads)
    for place, hop in enumerate(hops, start=kept - config.label_hops):
        if place >= 0:
            result[:, place] = hop
    return result


def _subtract_own(
    result: NDArray[np.float32],
    adjacency: NormalizedAdjacency,
    nodes: NDArray[Any],
    targets: NDArray[np.float32],
    config: PropagationConfig,
) -> None:
    """Take (A)_ii y_i from hop 1 and (A^2)_ii y_i from hop 2, in place."""
    matrix = adjacency.to_scipy()
    # (A^2)_ii = sum_j A_ij A_ji: no product of sparse matrices is needed for its diagonal.
    returns = [matrix.diagonal(), matrix.multiply(matrix.T.tocsr()).sum(axis=1)]
    kept = config.label_matrices
    for place, diagonal in enumerate(returns[config.label_hops - kept : config.label_hops]):
        result[nodes, place] -= diagonal[nodes, None].astype(np.float32) * targets


def _folds(count: int, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Masks that cut the training nodes into parts of nearly equal size.

    Not stratified: folds that depend on labels would leak them through the choice of fold.
    """
    fold = np.random.default_rng(seed).permutation(count) % max(min(folds, count), 1)
    return [fold == part for part in range(min(folds, count))]
