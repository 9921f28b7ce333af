"""What all encoders that read the graph share: layers that each sum over neighbors.

These are the coupled encoders. A layer needs the activations of all neighbors, so a batch is either
the whole graph or a sampled part of it, and what a batch costs grows with the layers. They predict
layer by layer, for which `layer_output` is one layer alone.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from scr.config import Count, Settings, check
from scr.encoders import Encoder, EncoderConfig, ProblemShape
from scr.encoders.fused import Norm, activate, dropout, make_norm
from scr.encoders.layers import Adjacency, LabelBranch, Projected, SparseRows
from scr.errors import ConfigError, GraphError

Aggregation = Literal["mean", "sym", "relations", "none"]
"""How edges are scaled: by 1/degree; by both ends' degrees, with self-loops; by 1/degree of each
relation and direction; not at all."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """Which rows have no features of their own, and which learned vector each of them has."""

    rows: Tensor
    """Places among the batch's nodes."""
    numbers: Tensor
    """Places among all nodes that have a learned vector."""


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Some nodes of the graph, or all, with the edges between them.

    Layer l reads as many rows as ``layers[l]`` has columns, and gives as many as that has rows;
    those are the first nodes of the batch, always. So the nodes that are needed for the others'
    sake only, drop out layer by layer.
    """

    features: Tensor | SparseRows
    """Shape (nodes, features); sparse for encoders that can read it."""
    layers: tuple[Adjacency, ...]
    """The edges that each layer sums over."""
    seeds: Tensor
    """Rows of the last layer's result whose logits are asked for; one may come twice."""
    labels: Tensor | None = None
    """Propagated training labels of the seeds, shape (seeds, label hops, classes)."""
    loss_weight: Tensor | None = None
    """Factor of each seed's loss on labels; none: 1."""
    embedded: Embedded | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def edge_index(self) -> Tensor:
        """The edges as torch_geometric has them, senders and receivers. Shape (2, edges).

        Those of the first layer, among which those of all others are.
        """
        return self.layers[0].edge_index(self.features.device)

    def between(self, start: int, stop: int) -> GraphBatch:
        """The same nodes and edges, with some of the seeds."""
        return replace(
            self,
            seeds=self.seeds[start:stop],
            labels=None if self.labels is None else self.labels[start:stop],
            loss_weight=None if self.loss_weight is None else self.loss_weight[start:stop],
        )


@dataclass(frozen=True, kw_only=True)
class NeighborSettings(Settings):
    """How much of the graph an encoder reads for a node."""

    section: ClassVar[str] = "encoder"

    layers: Count = 2
    """Layers that sum over neighbors."""
    neighbors: tuple[int, ...] | None = None
    """Neighbors drawn for each node, layer by layer from the seeds outwards, -1 for all of them. An
    empty list: the whole graph in every step. None: the whole graph if it is small, or 10 each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fanouts = list(self.neighbors or ())
        check(all(fanout == -1 or fanout >= 1 for fanout in fanouts), "encoder.neighbors",
              fanouts, "whole numbers of at least 1, or -1")  # fmt: skip
        if fanouts and len(fanouts) != self.layers:
            raise ConfigError(
                "encoder.neighbors", fanouts, f"as many numbers as layers, which are {self.layers}",
                hint="set encoder.layers too, or `encoder.neighbors=[]` for the whole graph",
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GraphEncoderConfig(NeighborSettings, EncoderConfig):
    """Settings that every encoder has that reads the graph."""

    norm: Norm = "none"
    """Normalization before every activation."""


class GraphEncoder(Encoder):
    """A batch of nodes and edges in, logits of its seeds out."""

    batch_kind = GraphBatch
    aggregation: ClassVar[Aggregation]
    has_loops: ClassVar[bool] = False
    """Whether a node is its own neighbor in every layer, so that edges need not say so."""
    reads_sparse: ClassVar[bool] = False
    """Whether features may come as `SparseRows`, for which layers have `project`."""

    @classmethod
    def default_neighbors(cls, layers: int) -> tuple[int, ...]:
        """How many neighbors are drawn in a graph that is too large for one batch."""
        return (10,) * layers


class LayeredEncoder(GraphEncoder):
    """An encoder of layers, which can predict layer by layer, in the memory of two of them."""

    def __init__(self, config: GraphEncoderConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.config = config
        self.embeddings = glorot(shape.embedded, shape.features) if shape.embedded else None
        hidden = [config.hidden] * (config.layers - 1)
        widths = pairwise([shape.features, *hidden, shape.classes])
        self.layers = nn.ModuleList(
            self.make_layer(shape, *pair, number == len(hidden))
            for number, pair in enumerate(widths)
        )
        self.norms = nn.ModuleList(make_norm(config.norm, width) for width in hidden)
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    @abstractmethod
    def make_layer(self, shape: ProblemShape, inputs: int, outputs: int, last: bool) -> nn.Module:
        """A layer from `inputs` to `outputs` columns: from (x, adjacency) to what the rows get."""

    def inputs(self, batch: GraphBatch) -> Tensor | SparseRows:
        """What the first layer reads: features, and learned vectors of nodes without any."""
        x, embedded = batch.features, batch.embedded
        if isinstance(x, SparseRows):
            return x.dropout(self.config.input_dropout, self.training)
        if self.embeddings is not None and embedded is not None:
            if len(embedded.numbers) and int(embedded.numbers.max()) >= len(self.embeddings):
                raise GraphError(
                    f"The graph has more nodes without features than the {len(self.embeddings):,} "
                    "that the encoder has learned vectors of; expected the graph of the training",
                    hint="train with encoder.node_embeddings=false to predict other graphs",
                )
            x = x.index_copy(0, embedded.rows, self.embeddings[embedded.numbers])
        return dropout(x, self.config.input_dropout, self.training)

    def layer_input(self, number: int, x: Tensor | SparseRows) -> Tensor | Projected:
        """What layer `number` does with each sending node for itself, before it reads edges."""
        if isinstance(x, SparseRows):
            return cast(Projected, cast(Any, self.layers[number]).project(x))
        return x

    def layer_output(self, number: int, x: Tensor | Projected, adjacency: Adjacency) -> Tensor:
        """One layer, on what `layer_input` gave, and all that follows it but after the last."""
        outputs = cast(Tensor, self.layers[number](x, adjacency))
        is_last = number + 1 == len(self.layers)
        return outputs if is_last else self.activate(outputs, self.norms[number])

    def activate(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What follows every layer but the last: norm, activation and dropout."""
        chance = self.config.dropout
        return activate(x, norm, chance=chance, training=self.training, overwrite=True)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of shape (seeds, classes)."""
        x = self.inputs(batch)
        for number, adjacency in enumerate(batch.layers):
            x = self.layer_output(number, self.layer_input(number, x), adjacency)
        assert isinstance(x, Tensor)
        return self.with_labels(x.index_select(0, batch.seeds), batch.labels)


def glorot(*shape: int) -> nn.Parameter:
    """A weight drawn as by Glorot and Bengio 2010, for products from the left."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape)))
