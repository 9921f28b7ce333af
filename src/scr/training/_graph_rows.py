"""The rows of coupled encoders: nodes with the part of the graph that their logits depend on.

Serves what `Rows` serves, so that training, consistency, stages and prediction do not know the
difference. A batch is the whole graph with some nodes asked for, or, of a large graph, what was
drawn around these nodes. Who is drawn depends on the seed, the epoch and the nodes of the batch;
those come from the trainer's own generator: a run that is resumed from a checkpoint draws the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.compute import map_in_order
from scr.encoders import ProblemShape
from scr.encoders.layers import Adjacency, SparseRows
from scr.networks import ClusterGCNConfig, Embedded, GraphBatch, GraphSAINTConfig
from scr.networks.sampling import ClusterSampler, NeighborSampler, SaintSampler, SubgraphBatch
from scr.propagation import row_sums
from scr.training._batches import EpochNodes, Step
from scr.training._layerwise import LayerwiseLogits
from scr.training._rows import CPU, Item, RowSource

if TYPE_CHECKING:
    from scr.training._prepare_graph import PreparedGraph


class GraphRows(RowSource):
    """Batches of nodes with edges, of all target nodes of a graph."""

    kept = None

    def __init__(
        self,
        prepared: PreparedGraph,
        classes: int,
        labels: NDArray[np.floating[Any]] | None = None,
        device: torch.device = CPU,
        *,
        seed: int = 0,
    ) -> None:
        """Take what is prepared; arguments as of `PreparedGraph.rows`."""
        self.prepared, self.classes, self.labels = prepared, classes, labels
        self.device, self.seed = device, seed
        self._layerwise = LayerwiseLogits(self)
        self._epoch = 0

    def __len__(self) -> int:
        return self.prepared.graph.num_targets

    @property
    def shape(self) -> ProblemShape:
        """Sizes for `make_encoder`."""
        embedded = self.prepared.embedded
        return ProblemShape(
            features=self.prepared.inputs.shape[1],
            hops=1,
            classes=self.classes,
            label_hops=0 if self.labels is None else self.labels.shape[1],
            relations=self.prepared.relations,
            embedded=0 if embedded is None else int(np.count_nonzero(embedded >= 0)),
        )

    def batch(self, index: Tensor) -> GraphBatch:
        """The whole graph, or what is drawn around some nodes, for the logits of these nodes."""
        self._layerwise.forget()  # whoever takes batches is about to change weights
        if self.prepared.whole:
            return dataclasses.replace(
                self.whole_graph, seeds=index.to(self.device), labels=self.label_hops(index)
            )
        return self._on_device(self._sampled(index))

    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, GraphBatch]]:
        """Each item with the batch of its nodes; the next ones are drawn by another thread."""
        if self.prepared.whole:
            for item in items:
                yield item, self.batch(index_of(item))
            return
        self._layerwise.forget()
        drawn = map_in_order(lambda item: (item, self._sampled(index_of(item))), items)
        with closing(drawn):
            for item, batch in drawn:
                yield item, self._on_device(batch)

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, GraphBatch]]:
        """The steps of an epoch; in another one, other neighbors are drawn for the same nodes."""
        self._epoch = nodes.epoch
        return super().epoch_steps(nodes)

    def stream_logits(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """Parts of `index` with their logits, from all neighbors, layer by layer."""
        return self._layerwise.stream(model, index, at_once)

    @cached_property
    def whole_graph(self) -> GraphBatch:
        """All nodes and edges, with no node asked for."""
        seeds = torch.zeros(0, dtype=torch.int64, device=self.device)
        layers, embedded = self.prepared.layers, self._embedded(slice(None))
        return GraphBatch(self._features(), layers, seeds, embedded=embedded)

    @cached_property
    def _sampler(self) -> NeighborSampler:
        # Sums, as in GCN, are to be as large as those over all neighbors; means are by themselves.
        sums = self.prepared.encoder.aggregation == "sym"
        graph, neighbors = self.prepared.graph, self.prepared.neighbors
        return NeighborSampler(graph, neighbors, self.seed, normalize=sums)

    def _sampled(self, index: Tensor) -> GraphBatch:
        """What is drawn around some nodes, which may repeat."""
        seeds, positions = np.unique(index.numpy(), return_inverse=True)
        drawn = self._sampler.sample(seeds, _step(index.numpy(), self._epoch))
        return self.of_subgraph(drawn, torch.from_numpy(positions), index)

    def of_subgraph(
        self,
        subgraph: SubgraphBatch,
        positions: Tensor,
        index: Tensor,
        loss_weight: Tensor | None = None,
    ) -> GraphBatch:
        """A batch in memory: nodes at `positions` of the subgraph, `index` in the graph."""
        nodes = subgraph.nodes
        return GraphBatch(
            self._features(nodes),
            self._layers_of(subgraph),
            positions,
            self.label_hops(index),
            loss_weight,
            self._embedded(nodes),
        )

    def _features(self, nodes: NDArray[np.int64] | None = None) -> Tensor | SparseRows:
        """Features of some nodes in main memory, or of all on the device."""
        if self._sparse is not None:
            return self._sparse if nodes is None else self._sparse.take(nodes)
        inputs = self.prepared.inputs
        if not isinstance(inputs, np.ndarray):
            inputs = (inputs if nodes is None else inputs[nodes]).toarray()
        elif nodes is not None:
            inputs = np.asarray(inputs[nodes])
        features = torch.from_numpy(_writable(inputs))
        return features.to(self.device) if nodes is None else features

    @cached_property
    def _sparse(self) -> SparseRows | None:
        """All features, where they are sparse; other devices than the CPU multiply dense ones."""
        inputs = self.prepared.inputs
        if isinstance(inputs, np.ndarray) or self.device.type != "cpu":
            return None
        return SparseRows.of(inputs)

    def _layers_of(self, subgraph: SubgraphBatch) -> tuple[Adjacency, ...]:
        prepared, graph = self.prepared, self.prepared.graph
        weights, factors = None, subgraph.edge_weight
        if graph.weights is not None:
            weights = np.asarray(graph.weights[subgraph.edges])
        if factors is not None:
            weights = factors if weights is None else weights * factors
        adjacency = Adjacency(
            subgraph.indptr,
            subgraph.indices,
            subgraph.num_nodes,
            weights,
            codes=None if graph.edge_types is None else graph.edge_types[subgraph.edges],
        )
        # A mean is taken over the edges that are here, unless factors make up for the others.
        if prepared.encoder.aggregation == "mean" and factors is None:
            degrees = row_sums(subgraph.indptr, weights)
        else:
            degrees = prepared.degrees[subgraph.nodes]
        adjacency = prepared.scaled(adjacency, degrees)
        sizes = subgraph.layer_nodes
        if not sizes:
            return (adjacency,) * prepared.settings.layers
        return tuple(
            adjacency.first_rows(sizes[layer + 1], sizes[layer])
            for layer in range(prepared.settings.layers)
        )

    def label_hops(self, index: Tensor) -> Tensor | None:
        """Propagated labels of some nodes, on the device."""
        if self.labels is None:
            return None
        return torch.from_numpy(self.labels[index.numpy()]).to(self.device, torch.float32)

    def _embedded(self, nodes: NDArray[np.int64] | slice) -> Embedded | None:
        if self.prepared.embedded is None:
            return None
        numbers = self.prepared.embedded[nodes]
        rows = np.flatnonzero(numbers >= 0)
        return Embedded(
            torch.from_numpy(rows).to(self.device), torch.from_numpy(numbers[rows]).to(self.device)
        )

    def _on_device(self, batch: GraphBatch) -> GraphBatch:
        weight, features = batch.loss_weight, batch.features
        return dataclasses.replace(
            batch,
            features=features if isinstance(features, SparseRows) else features.to(self.device),
            seeds=batch.seeds.to(self.device),
            loss_weight=None if weight is None else weight.to(self.device),
        )


class SubgraphRows(GraphRows):
    """Batches of subgraphs, clusters or random walks, of encoders that train on whoever is in them.

    Elsewhere labeled and confident nodes are drawn, and neighbors around them. Here a subgraph
    comes first: a step's labeled nodes are the training nodes in it, and its confident ones those
    of the confident set that are in it. What is drawn is a function of the seed, the epoch and the
    step.

    GraphSAINT's factors make the loss on labels unbiased. The terms of confident and reliable nodes
    are means over those that are drawn, in which nodes of many walks count more.
    """

    @cached_property
    def _subgraphs(self) -> tuple[ClusterSampler | SaintSampler, int]:
        """The sampler, and how many subgraphs an epoch has."""
        settings, graph = self.prepared.settings, self.prepared.graph
        if isinstance(settings, ClusterGCNConfig):
            parts = self.prepared.clusters
            clusters = ClusterSampler(graph, parts, settings.clusters_per_batch, self.seed)
            return clusters, len(clusters)
        assert isinstance(settings, GraphSAINTConfig)
        walks = SaintSampler(
            graph,
            "walk",
            settings.roots,
            walk_length=settings.walk_length,
            coverage=settings.coverage,
            seed=self.seed,
        )
        per_step = settings.roots * (settings.walk_length + 1)
        return walks, settings.steps or -(-graph.num_nodes // per_step)

    def draws(self, nodes: EpochNodes) -> Iterator[tuple[Step, SubgraphBatch]]:
        """The steps of an epoch; a subgraph with no node to learn from is left out."""
        sampler, steps = self._subgraphs
        here = np.zeros(self.prepared.graph.num_nodes, np.bool_)
        for number in range(nodes.epoch * steps, (nodes.epoch + 1) * steps):
            subgraph = sampler.sample(number)
            here[subgraph.nodes] = True
            inside = torch.from_numpy(here)
            step = Step(
                labeled=inside[nodes.train].nonzero()[:, 0],
                unlabeled=nodes.confident[inside[nodes.confident]],
                relied_on=inside[nodes.reliable].nonzero()[:, 0],
            )
            here[subgraph.nodes] = False
            if any(map(len, step)):
                yield step, subgraph

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, GraphBatch]]:
        """The subgraphs of an epoch; sizes of batches have no say."""
        positions = np.empty(self.prepared.graph.num_nodes, np.int64)
        self._layerwise.forget()
        for step, subgraph in self.draws(nodes):
            positions[subgraph.nodes] = np.arange(subgraph.num_nodes)
            index = nodes.index(step)
            seeds = torch.from_numpy(positions[index.numpy()])
            weight = None
            if subgraph.node_weight is not None:
                # The mean over a step's labeled rows times the share of all that they are, is the
                # paper's sum over them, divided by the number of all: L_i / lambda_i / N_L.
                share = len(step.labeled) / len(nodes.train)
                weight = torch.from_numpy(subgraph.node_weight)[seeds] * share
            yield step, self._on_device(self.of_subgraph(subgraph, seeds, index, weight))


def _step(index: NDArray[np.int64], epoch: int) -> int:
    """A number for the nodes of a batch in their order, which another batch hardly has."""
    salt = epoch.to_bytes(hashlib.blake2b.SALT_SIZE, "little")
    content = hashlib.blake2b(np.ascontiguousarray(index).tobytes(), digest_size=7, salt=salt)
    return int.from_bytes(content.digest(), "little")


def _writable(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Torch wants to be able to write, and memory maps may not be written to."""
    return array if array.flags.writeable else np.array(array)
