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
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty, process_budget, readable_bytes, resident_bytes
from scr.errors import GraphError, MemoryBudgetError
from scr.propagation._config import EXACT_GUARD_HOPS, PropagationConfig
from scr.propagation._label_paths import path_adjacencies, path_bytes, path_codes
from scr.propagation._normalization import NormalizedAdjacency, normalize, turned_bytes
from scr.propagation._plan import NARROWEST_BLOCK
from scr.propagation._steps import advance
from scr.propagation._subset_edges import edges_by_code
from scr.propagation.disk._edge_chunks import CHUNK_EDGES, edge_chunks, product_by_chunks
from scr.propagation.disk._plan import LIBRARY_BYTES, NAMED_SLACK
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
    classes: int | None = None,
    seed: int = 0,
    folds: int = FOLDS,
    threads: int | None = None,
    rows: NDArray[Any] | None = None,
    memory: str | int = "auto",
    on_progress: Callable[[str, int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Multiply the training labels by powers of the adjacency; `config.label_*` says which.

    Args:
        graph: The graph.
        config: Its fields that start with `label_` count.
        labels: Class numbers of shape (nodes,), or soft labels of shape (nodes, classes), of the
            target type; the graph's own by default. Rows outside `train` are not read.
        train: Nodes whose labels may be read; the graph's training nodes by default. Later stages
            add the nodes that they trust.
        targets: Soft labels of the nodes in `train`, in their order, instead of `labels`; shape
            (len(train), classes).
        classes: Number of classes; the graph's by default.
        seed: Decides the folds.
        folds: How many, for the guard `folds`.
        threads: Cores to use; all by default.
        rows: Nodes whose label hops are returned, in this order; all by default.
        memory: Most memory of the whole process; where not all classes fit, they are propagated a
            few at a time. `auto` is 80% of what is available.
        on_progress: Called with what is being done, how much of it is done, and how much there is.

    Returns:
        Hops 1 to `label_hops` (or only the last), then one matrix for each of `label_paths`; shape
        (nodes, `config.label_matrices`, classes), of the nodes of the target type.

    Raises:
        MemoryBudgetError: Not even a few classes fit the budget.
    """
    nodes = np.asarray(graph.train if train is None else train)
    if targets is None:
        targets = _targets(
            graph.labels if labels is None else labels,
            nodes,
            graph.num_classes if classes is None else classes,
        )
    wanted = None if rows is None else np.asarray(rows)
    count = graph.num_targets if wanted is None else len(wanted)
    shape = (count, config.label_matrices, targets.shape[1])
    if shape[1] == 0:
        return np.zeros(shape, dtype=np.float32)
    width = _block_width(graph, config, shape, memory)
    every = np.ones(len(nodes), dtype=bool)
    parts = _folds(len(nodes), folds, seed) if config.label_guard == "folds" else []
    result = np.empty(shape, dtype=np.float32)
    progress = _Progress(on_progress, (1 + len(parts)) * -(-shape[2] // max(width, 1)))
    routes = [route for route in _routes(graph, config) if route.kept]
    progress.total = progress.walks * sum(route.edges for route in routes)
    for route in routes:
        walks = _Walks(route.steps(), width, threads, progress.add)
        here = result[:, route.first : route.first + route.kept]
        walks.propagate(nodes, targets, wanted, here)
        if config.label_guard == "exact":
            _subtract_own(here, walks.steps, nodes, targets, wanted)
        for held_out in parts:
            places, seen = _places(wanted, nodes[held_out])
            visible = every & ~held_out
            hidden = nodes[held_out][seen]
            made = np.empty((len(hidden), *here.shape[1:]), dtype=np.float32)
            walks.propagate(nodes[visible], targets[visible], hidden, made)
            here[places] = made
    return result


@dataclass(frozen=True)
class _Route:
    """A way that labels come along: its steps, and the matrices that are kept of it."""

    steps: Callable[[], list[NormalizedAdjacency]]
    """Makes the adjacencies, from the labels to the rows."""
    edges: int
    """Of all steps."""
    first: int
    """Place of its first matrix."""
    kept: int
    """How many of its last steps are kept."""


def _routes(graph: Graph, config: PropagationConfig) -> list[_Route]:
    def hops() -> list[NormalizedAdjacency]:
        adjacency = normalize(
            graph,
            norm=config.label_norm,
            self_loops=config.label_self_loops,
            direction=config.label_direction,
        )
        return [adjacency] * config.label_hops

    kept = config.label_hop_matrices
    edges = config.label_hops * graph.num_edges
    routes = [_Route(hops, edges, 0, kept)]
    counts = edges_by_code(graph) if config.label_paths else np.zeros(0, np.int64)
    for place, path in enumerate(config.label_paths, kept):
        along = path_codes(graph, path)
        edges = (
            len(along) * graph.num_edges if graph.edge_types is None else int(counts[along].sum())
        )
        routes.append(_Route(functools.partial(path_adjacencies, graph, path), edges, place, 1))
    return routes


class _Progress:
    """Counts edges gone through on all routes."""

    def __init__(self, told: Callable[[str, int, int], None] | None, walks: int) -> None:
        self.walks, self.total, self._done, self._told = walks, 0, 0, told

    def add(self, edges: int) -> None:
        self._done += edges
        if self._told is not None:
            # Turned edges are more than those that the graph stores.
            self.total = max(self.total, self._done)
            self._told("Propagating labels", self._done, self.total)


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
    """Most classes that can be propagated at once, all of them if they fit."""
    nodes, edges, classes = graph.num_nodes, graph.num_edges, shape[2]
    edge_bytes = graph.indices.dtype.itemsize + (0 if graph.weights is None else 4)
    turned = turned_bytes(graph, config.label_direction)
    chunk = 2 * min(CHUNK_EDGES, edges) * edge_bytes
    fixed = resident_bytes() + LIBRARY_BYTES + math.prod(shape) * 4 + 17 * nodes
    fixed += turned + edges * edge_bytes if turned else 2 * chunk
    fixed += path_bytes(graph, config.label_paths)
    if config.label_guard == "exact":
        fixed += EXACT_BYTES * edges
    budget, narrowest = process_budget(memory), min(classes, NARROWEST_BLOCK)
    if fixed + 8 * nodes * narrowest > budget:
        smallest = readable_bytes(fixed + 8 * nodes * narrowest + NAMED_SLACK)
        raise MemoryBudgetError(
            f"Label hops of {nodes:,} nodes x {classes:,} classes need {smallest}; "
            f"the budget is {readable_bytes(budget)}",
            hint=f"the smallest that works is `{smallest}`"
            + ("; less with another `label_guard`" if config.label_guard == "exact" else ""),
        )
    fitting = (budget - fixed) // max(8 * nodes, 1)
    if fitting >= classes:
        return classes
    return max(fitting // NARROWEST_BLOCK * NARROWEST_BLOCK, narrowest)


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


class _Walks:
    """Walks from some labels over the graph, a block of classes at a time."""

    def __init__(
        self,
        steps: list[NormalizedAdjacency],
        width: int,
        threads: int | None,
        on_edges: Callable[[int], None],
    ) -> None:
        self.steps = steps
        """What each step multiplies by."""
        self._width, self._threads, self._on_edges = width, threads, on_edges
        self._chunks = {id(step): edge_chunks(step.indptr) for step in steps}

    def propagate(
        self,
        nodes: NDArray[Any],
        targets: NDArray[np.float32],
        rows: NDArray[Any] | None,
        out: NDArray[np.float32],
    ) -> None:
        """Fill `out` with the last label matrices of some rows, from the labels of some nodes."""
        count, classes = self.steps[0].num_nodes, targets.shape[1]
        buffers = [aligned_empty((count * self._width,), np.float32) for _ in range(2)]
        for start in range(0, classes, max(self._width, 1)):
            block = slice(start, min(start + self._width, classes))
            shape = (count, block.stop - block.start)
            current, spare = (flat[: math.prod(shape)].reshape(shape) for flat in buffers)
            current[...] = 0
            current[nodes] = targets[:, block]
            for place, step in enumerate(self.steps, out.shape[1] - len(self.steps)):
                current, spare = self._advance(step, current, spare)
                if place >= 0:
                    out[:, place, block] = current[: len(out)] if rows is None else current[rows]

    def _advance(
        self,
        adjacency: NormalizedAdjacency,
        current: NDArray[np.float32],
        spare: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The next matrix, and one to be written over."""
        large = adjacency.num_edges >= SKIPPING_EDGES
        multiply = functools.partial(
            product_by_chunks, chunks=self._chunks[id(adjacency)], on_edges=self._on_edges,
            nonzero=nonzero_bits(current) if large else None,
        )  # fmt: skip
        if adjacency.column_scale is None:
            advance(adjacency, current, spare, None, threads=self._threads, multiply=multiply)
            return spare, current
        advance(adjacency, current, current, spare, threads=self._threads, multiply=multiply)
        return current, spare


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


def _folds(count: int, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Masks that cut the training nodes into parts of nearly equal size.

    Not stratified: folds that depend on labels would leak them through the choice of fold.
    """
    fold = np.random.default_rng(seed).permutation(count) % max(min(folds, count), 1)
    return [fold == part for part in range(min(folds, count))]
