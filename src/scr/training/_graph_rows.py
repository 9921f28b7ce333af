"""The rows of coupled encoders: nodes with the part of the graph that their logits depend on.

Serves what `Rows` serves, so that training, consistency, stages and prediction do not know the
difference. A batch is the whole graph with some nodes asked for, or, of a large graph, what was
drawn around these nodes. What is drawn depends on the seed, the epoch and the nodes of the batch;
those come from the trainer's own generator: a run that is resumed from a checkpoint draws the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.encoders import ProblemShape
from scr.encoders.layers import Adjacency, Projected, SparseRows
from scr.networks import (
    ClusterGCNConfig,
    Embedded,
    GraphBatch,
    GraphSAINTConfig,
    LayeredEncoder,
    OwnGraphEncoder,
)
from scr.networks.sampling import ClusterSampler, NeighborSampler, SaintSampler, SubgraphBatch
from scr.propagation import row_sums
from scr.training._batches import EpochNodes, Step
from scr.training._rows import CPU, LabelHops, RowSource, stacked

if TYPE_CHECKING:
    from scr.training._prepare_graph import PreparedGraph


class GraphRows(RowSource):
    """Batches of nodes with edges, of all target nodes of a graph."""

    kept = None

    def __init__(
        self,
        prepared: PreparedGraph,
        classes: int,
        labels: LabelHops = None,
        device: torch.device = CPU,
        *,
        seed: int = 0,
    ) -> None:
        self.prepared, self.classes, self.labels = prepared, classes, labels
        self.device, self.seed = device, seed
        self._layerwise = LayerwiseLogits(self)
        self._epoch = 0

    def __len__(self) -> int:
        return self.prepared.graph.num_targets

    @property
    def shape(self) -> ProblemShape:
        embedded = self.prepared.embedded
        return ProblemShape(
            features=self.prepared.inputs.shape[1], hops=1, classes=self.classes,
            label_hops=0 if self.labels is None else self.labels.shape[1],
            relations=self.prepared.relations,
            embedded=0 if embedded is None else int(np.count_nonzero(embedded >= 0)),
        )  # fmt: skip

    @property
    def reads_ahead(self) -> bool:
        return not self.prepared.whole

    def read(self, index: Tensor) -> GraphBatch:
        """The whole graph, or what is drawn around some nodes, which may repeat."""
        if self.prepared.whole:
            return dataclasses.replace(self.whole_graph, seeds=index, labels=self.label_hops(index))
        seeds, positions = np.unique(index.numpy(), return_inverse=True)
        drawn = self._sampler.sample(seeds, _step(index.numpy(), self._epoch))
        return self.of_subgraph(drawn, torch.from_numpy(positions), index)

    def finish(self, batch: GraphBatch, index: Tensor) -> GraphBatch:
        self._layerwise.forget()  # whoever takes batches is about to change weights
        weight, features = batch.loss_weight, batch.features
        return dataclasses.replace(
            batch,
            features=features if isinstance(features, SparseRows) else features.to(self.device),
            seeds=batch.seeds.to(self.device),
            loss_weight=None if weight is None else weight.to(self.device),
        )

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, GraphBatch]]:
        """The steps of an epoch; in another one, other neighbors are drawn for the same nodes."""
        self._epoch = nodes.epoch
        return super().epoch_steps(nodes)

    def stream_logits(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
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
            self._features(nodes), self._layers_of(subgraph), positions, self.label_hops(index),
            loss_weight, self._embedded(nodes),
        )  # fmt: skip

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
            subgraph.indptr, subgraph.indices, subgraph.num_nodes, weights,
            codes=None if graph.edge_types is None else graph.edge_types[subgraph.edges],
        )  # fmt: skip
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


class SubgraphRows(GraphRows):
    """Batches of subgraphs, clusters or random walks, for encoders that train on all their nodes.

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
            graph, "walk", settings.roots, walk_length=settings.walk_length,
            coverage=settings.coverage, seed=self.seed,
        )  # fmt: skip
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
            yield step, self.finish(self.of_subgraph(subgraph, seeds, index, weight), index)


def _step(index: NDArray[np.int64], epoch: int) -> int:
    """A number for the nodes of a batch in their order, which another batch hardly has."""
    salt = epoch.to_bytes(hashlib.blake2b.SALT_SIZE, "little")
    content = hashlib.blake2b(np.ascontiguousarray(index).tobytes(), digest_size=7, salt=salt)
    return int.from_bytes(content.digest(), "little")


def _writable(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Torch wants to be able to write, and memory maps may not be written to."""
    return array if array.flags.writeable else np.array(array)


ROWS_AT_ONCE = 1 << 16
"""Rows of a layer that are computed at once in a graph that is not trained on whole."""


class LayerwiseLogits:
    """Logits of any nodes, layer by layer, each layer a range of rows at a time.

    Neighbors of neighbors are shared by many nodes; a layer of all nodes before the next one
    computes nothing twice, and holds two layers of activations, not all as in training. The last
    layer is computed for the nodes that are asked for; what it reads is kept until weights change.
    """

    def __init__(self, rows: GraphRows, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self.rows, self.rows_at_once = rows, rows_at_once
        self._weights: dict[str, Tensor] = {}
        self._known: Tensor | Projected | None = None

    def forget(self) -> None:
        self._weights, self._known = {}, None

    def stream(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """Parts of `index`, in order, each with its logits; as of `RowSource.stream_logits`."""
        with torch.no_grad():
            known = self._before_last(model)
        for part in index.split(at_once):
            with torch.no_grad():
                yield part, self._logits(model, known, part).cpu()

    def _logits(self, model: nn.Module, known: Tensor | Projected, part: Tensor) -> Tensor:
        prepared = self.rows.prepared
        last = len(prepared.layers) - 1
        if isinstance(model, LayeredEncoder) and not prepared.whole:
            edges = prepared.layers[last].take(part.numpy())
            logits = model.layer_output(last, known, edges)
        else:  # logits of all are known
            assert isinstance(known, Tensor)
            logits = known.index_select(0, part.to(known.device))
        if isinstance(model, LayeredEncoder):
            return model.with_labels(logits, self.rows.label_hops(part))
        return logits

    def _before_last(self, model: nn.Module) -> Tensor | Projected:
        """What the last layer reads; in a graph that is trained on whole, what it gives."""
        state = model.state_dict()
        if self._known is not None and _equal(state, self._weights):
            return self._known
        self.forget()
        if isinstance(model, LayeredEncoder):
            self._known = self._computed(model)
        else:
            self._known = cast(OwnGraphEncoder, model).every_row(self.rows.whole_graph)
        self._weights = {name: value.clone() for name, value in state.items()}
        return self._known

    def _computed(self, encoder: LayeredEncoder) -> Tensor | Projected:
        prepared = self.rows.prepared
        count = len(prepared.layers) - (not prepared.whole)
        x = encoder.inputs(self.rows.whole_graph)
        for number, adjacency in enumerate(prepared.layers[:count]):
            sent = encoder.layer_input(number, x)
            if prepared.whole or adjacency.rows <= self.rows_at_once:
                x = encoder.layer_output(number, sent, adjacency)
                continue
            starts = range(0, adjacency.rows, self.rows_at_once)
            ends = [*starts[1:], adjacency.rows]
            ranges = (adjacency.range(*each) for each in zip(starts, ends, strict=True))
            parts = (encoder.layer_output(number, sent, some) for some in ranges)
            x = stacked(parts, adjacency.rows)
        if not prepared.whole:
            return encoder.layer_input(count, x)
        assert isinstance(x, Tensor)
        return x


def _equal(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return state.keys() == other.keys() and all(
        torch.equal(value, other[name]) for name, value in state.items()
    )
