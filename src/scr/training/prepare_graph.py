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

from scr.completion import FittedCompletion, complete_features, is_plain
from scr.config import build
from scr.encoders import encoder_class
from scr.encoders.adjacency import Adjacency, inverse, row_sums
from scr.encoders.cluster_gcn import ClusterGCNConfig
from scr.encoders.graph_encoder import GraphEncoder, GraphEncoderConfig
from scr.encoders.graph_saint import GraphSAINTConfig
from scr.errors import ConfigError
from scr.graph import Graph
from scr.graph.features import FittedFeatures, fit_features
from scr.graph.scaling import apply_scale
from scr.propagation.normalization import normalize
from scr.propagation.steps import unit_rows
from scr.sampling import partition
from scr.training.graph_rows import GraphRows
from scr.training.node_features import Preparation, Progress
from scr.training.recipe import Recipe
from scr.training.subgraph_rows import SubgraphRows

WHOLE_GRAPH_EDGES = 5_000_000
"""A graph with more edges is sampled, unless a recipe says otherwise: with 256 columns, a layer of
the whole graph takes some seconds from here on."""

SPARSE_SHARE = 0.125
"""Features with a smaller share of stored numbers are multiplied as they are."""

CLUSTER_NODES = 160
"""Nodes of a part: 2.4 million nodes of ogbn-products in 15,000 parts."""


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """Features of all nodes and edges, with the way they were made."""

    graph: Graph
    """Row i lists the nodes that node i receives from."""
    inputs: NDArray[np.float32] | sp.csr_array
    """Shape (nodes, features); sparse where that is faster and the encoder can read it."""
    encoder: type[GraphEncoder]
    settings: GraphEncoderConfig
    features: Preparation
    """The fitted preparation, to be applied to new nodes later."""
    seconds: float
    steps: tuple[str, ...]
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
        if self.draws_subgraphs:
            return False
        return neighbors == () or (neighbors is None and self.graph.num_edges <= WHOLE_GRAPH_EDGES)

    @property
    def draws_subgraphs(self) -> bool:
        """Whether batches are drawn first, and who is trained on is whoever is in them."""
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
        made = Adjacency(
            np.asarray(graph.indptr),
            np.asarray(graph.indices),
            graph.num_nodes,
            None if graph.weights is None else np.asarray(graph.weights),
            codes=None if graph.edge_types is None else np.asarray(graph.edge_types),
        )
        return self.scaled(made, self.degrees)

    def scaled(self, adjacency: Adjacency, degrees: NDArray[np.float64]) -> Adjacency:
        """Give an adjacency the scales of the encoder's aggregation.

        Args:
            adjacency: Rows and columns are the same nodes.
            degrees: Of these nodes, without self-loops.
        """
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

    @cached_property
    def array(self) -> NDArray[np.float32]:
        """Features averaged over as many hops as there are layers, to judge trust by.

        Shape (targets, 1, features), as hops are.
        """
        mean = dataclasses.replace(
            self.adjacency, row_scale=inverse(self.degrees), column_scale=None, codes=None
        )
        inputs = self.inputs if isinstance(self.inputs, np.ndarray) else self.inputs.toarray()
        hop = total = torch.from_numpy(inputs)
        for _ in range(self.settings.layers):
            hop = mean.times(hop)
            total = total + hop
        made = total[: self.graph.num_targets, None] / (self.settings.layers + 1)
        return cast("NDArray[np.float32]", made.numpy())

    def rows(
        self,
        classes: int,
        labels: NDArray[np.floating[Any]] | None,
        device: torch.device,
        *,
        seed: int = 0,
    ) -> GraphRows:
        """What an encoder is trained on.

        Args:
            classes: How many there are.
            labels: Propagated labels of all target nodes, or none.
            device: Where torch computes.
            seed: Decides which neighbors are drawn.
        """
        kind = SubgraphRows if self.draws_subgraphs else GraphRows
        return kind(self, classes, labels, device, seed=seed)


def prepare_graph(
    graph: Graph,
    recipe: Recipe,
    *,
    fitted: Preparation | None = None,
    device: str = "cpu",
    on_progress: Progress | None = None,
) -> PreparedGraph:
    """Make ready what a coupled encoder reads.

    Args:
        graph: Its features and edges are used, its labels are not.
        recipe: Of the section `propagation`, `direction` and the scales of rows matter.
        fitted: The preparation of an earlier run, for prediction on a new graph.
        device: Where embeddings of nodes without features are trained, if they are.
        on_progress: Told what is done about features, how much of it, and how much there is.
    """
    started = time.perf_counter()
    edges = receiving(graph, recipe.propagation.direction)
    encoder = cast("type[GraphEncoder]", encoder_class(recipe.encoder))
    settings = build(encoder.config_class, recipe.encoder_settings, section="encoder")
    is_unit = "unit" in (recipe.propagation.hop_scale, recipe.propagation.row_scale)
    embedded = None
    inputs: NDArray[np.float32] | sp.csr_array
    if encoder.reads_sparse and (fitted := _stays_sparse(graph, recipe, fitted)):
        inputs, steps = fitted.scaled(graph.features), fitted.steps_of_sparse
        if is_unit:
            inputs = apply_scale(inputs, "unit", (None, None))
    else:
        completed = complete_features(
            graph, recipe.data, fitted, device=device, on_progress=on_progress
        )
        inputs, fitted, steps = completed.matrix, completed.fitted, completed.steps
        if is_unit:
            inputs = np.array(inputs)  # it may be a memory map
            unit_rows(inputs)
        if getattr(settings, "node_embeddings", False):
            embedded = _numbered(graph, getattr(fitted, "missing", ()))
    return PreparedGraph(
        graph=edges,
        inputs=inputs,
        encoder=encoder,
        settings=cast(GraphEncoderConfig, settings),
        features=fitted,
        seconds=time.perf_counter() - started,
        steps=steps,
        embedded=embedded,
    )


def _stays_sparse(
    graph: Graph, recipe: Recipe, fitted: Preparation | None
) -> FittedFeatures | None:
    """The preparation of features that had better stay sparse; none, if they had not."""
    features = graph.features
    if features is None or isinstance(features, np.ndarray):
        return None
    if isinstance(fitted, FittedCompletion) or not is_plain(graph, recipe.data):
        return None
    if features.nnz > SPARSE_SHARE * features.shape[0] * features.shape[1]:
        return None
    ready = fitted or fit_features(features, recipe.data)
    return ready if ready.projection is None and ready.shift is None else None


def _numbered(graph: Graph, kinds: Iterable[str]) -> NDArray[np.int64] | None:
    """Number the nodes of some types; all others are -1. None, if there are no such nodes."""
    places = [np.arange(nodes.start, nodes.stop) for nodes in map(graph.nodes_of, kinds)]
    if not places:
        return None
    numbers = np.full(graph.num_nodes, -1, np.int64)
    chosen = np.concatenate(places)
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
