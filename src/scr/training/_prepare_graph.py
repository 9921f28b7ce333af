"""From a graph to what coupled encoders read: features of all nodes, edges by receiving node.

Nothing is propagated here, and no label is read; so what is prepared is shared by all seeds, splits
and regularizers of a comparison, as hops are.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from scr.compute import memory_budget, readable_bytes
from scr.encoders.layers import Adjacency, inverse
from scr.errors import ConfigError, MemoryBudgetError
from scr.features import FittedFeatures, apply_scale, choose_reduction, fit_features
from scr.graph import Graph
from scr.networks import (
    ClusterGCNConfig,
    GraphEncoder,
    GraphEncoderConfig,
    GraphSAINTConfig,
    encoder_class,
)
from scr.networks.sampling import NeighborSampler, partition
from scr.propagation import normalize, row_sums, unit_rows
from scr.training._graph_rows import GraphRows, SubgraphRows
from scr.training._recipe import Recipe
from scr.training._rows import LabelHops
from scr.typed_features import FittedCompletion, complete_features, is_plain

Preparation = FittedFeatures | FittedCompletion
"""How features were prepared, to be stored with a run and applied to new nodes."""

WHOLE_GRAPH_EDGES = 5_000_000
"""A graph with more edges is sampled, unless a recipe says otherwise: with 256 columns, a layer of
the whole graph takes some seconds from here on."""

SPARSE_SHARE = 0.125
"""Features with a smaller share of stored numbers are multiplied as they are."""

TRUST_NEIGHBORS = 10
"""Neighbors that stand for all of a node's, in a graph of more edges."""

CLUSTER_NODES = 160
"""Nodes of a part: 2.4 million nodes of ogbn-products in 15,000 parts."""


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """Features of all nodes and edges, and how they were prepared."""

    graph: Graph
    """Row i lists the nodes that node i receives from."""
    inputs: NDArray[np.float32] | sp.csr_array
    """Shape (nodes, features); sparse where that is faster and the encoder can read it."""
    encoder: type[GraphEncoder]
    settings: GraphEncoderConfig
    features: Preparation
    """The fitted preparation, to be applied to new nodes later."""
    seconds: float
    embedded: NDArray[np.int64] | None = None
    """Number of each node's learned vector, -1 where it has features; none: there are none."""

    kept = None
    """All target nodes can be asked for."""
    subsets = None
    """All relations are read at once."""

    @property
    def whole(self) -> bool:
        """Whether every batch is the whole graph."""
        neighbors = self.settings.neighbors
        if self.draws_subgraphs or neighbors:
            return False
        return neighbors == () or self.graph.num_edges <= WHOLE_GRAPH_EDGES

    @property
    def draws_subgraphs(self) -> bool:
        """Whether batches are drawn first and the training nodes in them are trained on."""
        return isinstance(self.settings, (ClusterGCNConfig, GraphSAINTConfig))

    @cached_property
    def clusters(self) -> NDArray[np.int32]:
        """The part of each node, of an encoder that trains on parts."""
        settings, nodes = self.settings, self.graph.num_nodes
        assert isinstance(settings, ClusterGCNConfig)
        parts = settings.clusters or -(-nodes // CLUSTER_NODES)
        return partition(self.graph, min(parts, nodes), settings.partition)

    @property
    def neighbors(self) -> tuple[int, ...]:
        """How many neighbors are drawn, if some are."""
        return self.settings.neighbors or self.encoder.default_neighbors(self.settings.layers)

    @property
    def relations(self) -> int:
        """Codes of edges that the encoder tells apart."""
        if self.encoder.aggregation != "relations" or self.graph.edge_types is None:
            return 1
        return 2 * len(self.graph.relations)

    @cached_property
    def adjacency(self) -> Adjacency:
        """All edges, scaled as the encoder wants it."""
        graph = self.graph
        adjacency = Adjacency(
            np.asarray(graph.indptr), np.asarray(graph.indices), graph.num_nodes,
            None if graph.weights is None else np.asarray(graph.weights),
            codes=None if graph.edge_types is None else np.asarray(graph.edge_types),
        )  # fmt: skip
        return self.scaled(adjacency, self.degrees)

    def scaled(self, adjacency: Adjacency, degrees: NDArray[np.float64]) -> Adjacency:
        """The adjacency of some nodes, of these degrees, with the scales of the aggregation."""
        aggregation = self.encoder.aggregation
        if aggregation == "mean":
            return dataclasses.replace(adjacency, row_scale=inverse(degrees))
        if aggregation == "sym":
            scale = inverse(degrees + 1, -0.5)
            return dataclasses.replace(adjacency, row_scale=scale, column_scale=scale)
        return adjacency  # relations are scaled one by one, attention not at all

    @cached_property
    def layers(self) -> tuple[Adjacency, ...]:
        """The edges of each layer; only target nodes need the last one."""
        last = self.adjacency.first_rows(self.graph.num_targets, self.graph.num_nodes)
        return (*[self.adjacency] * (self.settings.layers - 1), last)

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of each node's weights, self-loops not counted."""
        weights = self.graph.weights
        return row_sums(self.graph.indptr, None if weights is None else np.asarray(weights))

    def averages(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Features of target nodes averaged over as many hops as there are layers, as of hops.

        From some rows outwards, so that nothing is computed for all nodes; where the graph is too
        large for one batch, over drawn neighbors.
        """
        edges, inputs, positions = self.graph, self.inputs, np.asarray(rows, np.int64)
        indptr, indices, weights = edges.indptr, edges.indices, edges.weights
        if edges.num_edges > WHOLE_GRAPH_EDGES:
            seeds, positions = np.unique(positions, return_inverse=True)
            drawn = NeighborSampler(edges, (TRUST_NEIGHBORS,) * self.settings.layers).sample(seeds)
            indptr, indices, inputs = drawn.indptr, drawn.indices, inputs[drawn.nodes]
            weights = None if weights is None else np.asarray(weights[drawn.edges])
        count = len(indptr) - 1
        values = np.ones(len(indices), np.float32) if weights is None else np.asarray(weights)
        mean = sp.csr_array((values, indices, indptr), shape=(count, count))
        scale = sp.diags_array(inverse(row_sums(np.asarray(indptr), weights)))
        mean = sp.csr_array(scale @ mean)
        total = reached = sp.eye_array(count, dtype=np.float32, format="csr")[positions]
        for _ in range(self.settings.layers):
            reached = reached @ mean
            total = total + reached
        averages: Any = (total / (self.settings.layers + 1)) @ inputs
        return np.asarray(
            averages if isinstance(averages, np.ndarray) else averages.toarray(), np.float32
        )

    def rows(
        self, classes: int, labels: LabelHops, device: torch.device, *, seed: int = 0
    ) -> GraphRows:
        """What an encoder is trained on; the seed decides which neighbors are drawn."""
        kind = SubgraphRows if self.draws_subgraphs else GraphRows
        return kind(self, classes, labels, device, seed=seed)


def prepare_graph(
    graph: Graph, recipe: Recipe, fitted: Preparation | None, **means: Any
) -> PreparedGraph:
    """Prepare what a coupled encoder reads; arguments as of `prepare`.

    Of the section `propagation`, `direction` and the scales of rows matter.
    """
    started = time.perf_counter()
    edges = receiving(graph, recipe.propagation.direction)
    encoder = cast("type[GraphEncoder]", encoder_class(recipe.encoder))
    if encoder.has_loops:
        edges = without_loops(edges)
    settings = cast(GraphEncoderConfig, recipe.encoder_config)
    _check_memory(graph, recipe, settings, encoder)
    is_unit = "unit" in (recipe.propagation.hop_scale, recipe.propagation.row_scale)
    embedded = None
    inputs: NDArray[np.float32] | sp.csr_array
    sparse = _stays_sparse(graph, recipe, fitted) if encoder.reads_sparse else None
    if sparse is not None:
        inputs, fitted = sparse.scaled(graph.features), sparse
        if is_unit:
            inputs = apply_scale(inputs, "unit", (None, None))
    else:
        completed = complete_features(graph, recipe.data, fitted, **means)
        inputs, fitted = completed.matrix, completed.fitted
        if is_unit:
            inputs = np.array(inputs)  # it may be a memory map
            unit_rows(inputs)
        if getattr(settings, "node_embeddings", False):
            embedded = _numbered(graph, getattr(fitted, "missing", ()))
    seconds = time.perf_counter() - started
    return PreparedGraph(edges, inputs, encoder, settings, fitted, seconds, embedded)


def _check_memory(
    graph: Graph, recipe: Recipe, settings: GraphEncoderConfig, encoder: type[GraphEncoder]
) -> None:
    """Refuse what does not fit before features are copied: they, and two layers of prediction."""
    features, columns = graph.features, recipe.data.reduce_to
    if features is not None and choose_reduction(features, recipe.data) == "none":
        columns = features.shape[1]
    if encoder.reads_sparse and features is not None and _is_sparse(features):
        columns = 0
    needed = 4 * graph.num_nodes * (columns + 2 * getattr(settings, "hidden", 0))
    budget = memory_budget("auto")
    if needed > budget:
        raise MemoryBudgetError(
            f"`{encoder.name}` reads all features and predicts layer by layer: {graph.num_nodes:,} "
            f"nodes x {columns:,} columns and two layers need {readable_bytes(needed)}; the budget "
            f"is {readable_bytes(budget)}",
            hint="take an encoder that reads hops, such as `gamlp`, which works on disk; or reduce "
            "the columns (`data.reduce`)",
        )


def _is_sparse(features: NDArray[Any] | sp.csr_array) -> bool:
    if isinstance(features, np.ndarray):
        return False
    return bool(features.nnz <= SPARSE_SHARE * features.shape[0] * features.shape[1])


def _stays_sparse(
    graph: Graph, recipe: Recipe, fitted: Preparation | None
) -> FittedFeatures | None:
    """The preparation of features that had better stay sparse; none, if they had not."""
    features = graph.features
    if features is None or not _is_sparse(features):
        return None
    if isinstance(fitted, FittedCompletion) or not is_plain(graph, recipe.data):
        return None
    ready = fitted or fit_features(features, recipe.data)
    return ready if ready.projection is None and ready.shift is None else None


def _numbered(graph: Graph, kinds: Iterable[str]) -> NDArray[np.int64] | None:
    """Number the nodes of some types; all others are -1. None, if there are no such nodes."""
    ranges = [np.arange(nodes.start, nodes.stop) for nodes in map(graph.nodes_of, kinds)]
    if not ranges:
        return None
    numbers = np.full(graph.num_nodes, -1, np.int64)
    chosen = np.concatenate(ranges)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


def receiving(graph: Graph, direction: str) -> Graph:
    """The graph as one whose row i lists the nodes that node i receives from."""
    if direction == "separate":
        raise ConfigError(
            "propagation.direction", direction, "`both`, `out` or `in` for encoders that read edges"
        )
    if not graph.directed:
        return graph
    turned = normalize(graph, norm="row", direction=direction)
    return dataclasses.replace(
        graph, indptr=turned.indptr, indices=turned.indices, weights=turned.weights, path=None
    )


def without_loops(graph: Graph) -> Graph:
    """The same edges but those from a node to itself, for encoders that add those themselves."""
    indices = np.asarray(graph.indices)
    receivers = np.repeat(np.arange(graph.num_nodes, dtype=indices.dtype), np.diff(graph.indptr))
    others = indices != receivers
    if others.all():
        return graph
    indptr = np.zeros(graph.num_nodes + 1, np.int64)
    np.cumsum(np.bincount(receivers[others], minlength=graph.num_nodes), out=indptr[1:])
    return dataclasses.replace(
        graph, indptr=indptr, indices=indices[others],
        weights=None if graph.weights is None else np.asarray(graph.weights)[others],
        edge_types=None if graph.edge_types is None else np.asarray(graph.edge_types)[others],
        path=None,
    )  # fmt: skip
