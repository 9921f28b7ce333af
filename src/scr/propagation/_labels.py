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

Labels also come along metapaths (`_label_paths.py`), each of which is one matrix more behind those
of the hops; the same guards hold for them, with their own steps.

Only labels of the given training nodes are ever read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import NAMED_SLACK, aligned_empty, process_budget, resident_bytes
from scr.errors import GraphError
from scr.graph import GraphPart, edge_bytes
from scr.propagation._config import EXACT_GUARD_HOPS, PropagationConfig
from scr.propagation._label_paths import path_adjacencies, path_bytes
from scr.propagation._normalization import NormalizedAdjacency, normalize, turned_bytes
from scr.propagation._plan import padded, widest_block
from scr.propagation._steps import take_turns
from scr.propagation.disk._edge_chunks import CHUNK_EDGES, edge_chunks, product_by_chunks
from scr.propagation.disk._plan import LIBRARY_BYTES
from scr.propagation.kernel._nonzero_rows import nonzero_bits

if TYPE_CHECKING:
    from scr.graph import Graph

FOLDS = 5
SKIPPING_EDGES = 1 << 22
"""Edges from which on leaving out those to zero rows saves more than it costs to compile."""
EXACT_BYTES = 40
"""Memory per edge of the guard `exact`, which multiplies sparse matrices in float64."""


def label_hops(
    graph: Graph,
    config: PropagationConfig,
    *,
    labels: NDArray[Any] | None = None,
    train: NDArray[Any] | None = None,
    targets: NDArray[Any] | None = None,
    seed: int = 0,
    folds: int = FOLDS,
    rows: NDArray[Any] | None = None,
    memory: str | int = "auto",
) -> NDArray[np.float32]:
    """Multiply the training labels by powers of the adjacency; `config.label_*` says which.

    Args:
        graph: Its own labels and training nodes are taken where none are given.
        config: Its fields that start with `label_` count.
        labels: Class numbers of shape (nodes,), or soft labels of shape (nodes, classes), of the
            target type. Rows outside `train` are not read.
        train: Nodes whose labels may be read; later stages add the nodes that they trust.
        targets: Soft labels of the nodes in `train`, in their order, instead of `labels`; shape
            (len(train), classes).
        seed: Decides the folds.
        folds: How many, for the guard `folds`.
        rows: Nodes whose label hops are returned, in this order; all by default.
        memory: Most memory of the whole process; where not all classes fit, they are propagated a
            few at a time. `auto` is 80% of what is available.

    Returns:
        Hops 1 to `label_hops` (or only the last), then one matrix for each of `label_paths`; shape
        (nodes, `config.label_matrices`, classes), of the nodes of the target type.

    Raises:
        MemoryBudgetError: Not even a few classes fit the budget.
    """
    nodes = np.asarray(graph.train if train is None else train)
    if targets is None:
        targets = _targets(graph.labels if labels is None else labels, nodes, graph.num_classes)
    wanted = None if rows is None else np.asarray(rows)
    count = graph.num_targets if wanted is None else len(wanted)
    shape = (count, config.label_matrices, targets.shape[1])
    if shape[1] == 0:
        return np.zeros(shape, dtype=np.float32)
    width = _block_width(graph, config, shape, memory)
    parts = _folds_of(graph, nodes, folds, seed) if config.label_guard == "folds" else []
    result = np.empty(shape, dtype=np.float32)
    for matrices, steps in _routes(graph, config):
        here = result[:, matrices]
        _propagate(steps, width, nodes, targets, wanted, here)
        if config.label_guard == "exact":
            _subtract_own(here, steps, nodes, targets, wanted)
        for held_out in parts:
            places, seen = _places(wanted, nodes[held_out])
            hidden = nodes[held_out][seen]
            if len(hidden) == 0:
                continue
            hops = np.empty((len(hidden), *here.shape[1:]), dtype=np.float32)
            _propagate(steps, width, nodes[~held_out], targets[~held_out], hidden, hops)
            here[places] = hops
    return result


def _routes(
    graph: Graph, config: PropagationConfig
) -> Iterator[tuple[slice, list[NormalizedAdjacency]]]:
    """Which matrices come along which steps, from the labels to the rows; one route at a time."""
    kept = config.label_hop_matrices
    if kept:
        yield slice(0, kept), config.label_hops * [
            normalize(
                graph, norm=config.label_norm, self_loops=config.label_self_loops,
                direction=config.label_direction,
            )
        ]  # fmt: skip
    for place, path in enumerate(config.label_paths, kept):
        yield slice(place, place + 1), path_adjacencies(graph, path)


def _places(
    rows: NDArray[Any] | None, nodes: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Where nodes are among the rows, and which of them are."""
    if rows is None:
        return nodes, np.ones(len(nodes), dtype=bool)
    order = np.argsort(rows, kind="stable")
    near = np.searchsorted(rows, nodes, sorter=order)
    seen = np.append(rows[order], -1)[near] == nodes
    return order[near[seen]], seen


def _block_width(
    graph: Graph, config: PropagationConfig, shape: tuple[int, int, int], memory: str | int
) -> int:
    """Columns of the matrices of labels: all classes, padded to whole vectors, or what fits."""
    nodes, edges, classes = graph.num_nodes, graph.num_edges, shape[2]
    turned = turned_bytes(graph, config.label_direction)
    fixed = resident_bytes() + LIBRARY_BYTES + math.prod(shape) * 4 + 17 * nodes
    if turned:
        fixed += turned + edge_bytes(graph, edges)
    else:
        fixed += 4 * edge_bytes(graph, min(CHUNK_EDGES, edges))
    fixed += path_bytes(graph, config.label_paths)
    if config.label_guard == "exact":
        fixed += EXACT_BYTES * edges
    return widest_block(
        padded(classes), fixed, 8 * nodes, process_budget(memory), slack=NAMED_SLACK,
        what=f"Label hops of {nodes:,} nodes x {classes:,} classes",
        less="; less with another `label_guard`" if config.label_guard == "exact" else "",
    )  # fmt: skip


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
    steps: list[NormalizedAdjacency],
    width: int,
    nodes: NDArray[Any],
    targets: NDArray[np.float32],
    rows: NDArray[Any] | None,
    out: NDArray[np.float32],
) -> None:
    """Fill `out`, of shape (rows, last steps, classes), from the labels of some nodes.

    At once, `width` classes are propagated; columns without a class stay zero. `rows` are the nodes
    of the rows of `out`; none: all of the target type.
    """
    classes = targets.shape[1]
    current, spare = (aligned_empty((steps[0].num_nodes, width), np.float32) for _ in range(2))
    for start in range(0, classes, max(width, 1)):
        block = slice(start, min(start + width, classes))
        wanted = slice(0, block.stop - block.start)
        current[...] = 0
        current[nodes, wanted] = targets[:, block]
        for place, adjacency in enumerate(steps, out.shape[1] - len(steps)):
            is_large = adjacency.num_edges >= SKIPPING_EDGES
            multiply = functools.partial(
                product_by_chunks, chunks=edge_chunks(adjacency.indptr),
                nonzero=nonzero_bits(current) if is_large else None,
            )  # fmt: skip
            current, spare = take_turns(adjacency, current, spare, multiply=multiply)
            if place >= 0:
                kept = slice(0, len(out)) if rows is None else rows
                out[:, place, block] = current[kept, wanted]


def _subtract_own(
    result: NDArray[np.float32],
    steps: list[NormalizedAdjacency],
    nodes: NDArray[Any],
    targets: NDArray[np.float32],
    rows: NDArray[Any] | None,
) -> None:
    """Take (A)_ii y_i from what one step brought and (B A)_ii y_i from two, in place."""
    first, second = steps[0].to_scipy(), None
    if len(steps) == EXACT_GUARD_HOPS:
        second = first if steps[1] is steps[0] else steps[1].to_scipy()
    # (B A)_ii = sum_j B_ij A_ji: no product of sparse matrices is needed for its diagonal.
    returns = [first.diagonal()]
    if second is not None:
        returns.append(second.multiply(first.T.tocsr()).sum(axis=1))
    places, seen = _places(rows, nodes)
    for place, diagonal in enumerate(returns[len(steps) - result.shape[1] :]):
        result[places, place] -= diagonal[nodes[seen], None].astype(np.float32) * targets[seen]


def _folds_of(graph: Graph, nodes: NDArray[Any], folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Folds of training nodes, which those of a part of a graph share with the whole."""
    if not isinstance(graph, GraphPart):
        return _folds(len(nodes), folds, seed)
    places = np.searchsorted(graph.whole_train, graph.numbers[nodes])
    return [fold[places] for fold in _folds(len(graph.whole_train), folds, seed)]


def _folds(count: int, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Masks that cut the training nodes into parts of nearly equal size.

    Not stratified: folds that depend on labels would leak them through the choice of fold.
    """
    fold = np.random.default_rng(seed).permutation(count) % max(min(folds, count), 1)
    return [fold == part for part in range(min(folds, count))]
