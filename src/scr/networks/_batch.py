"""What an encoder that reads the graph gets: nodes with features, and the edges of every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from scr.encoders.layers import Adjacency, SparseRows


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

    def after(self, count: int) -> GraphBatch:
        """The same nodes and edges, without the first seeds."""
        return replace(
            self,
            seeds=self.seeds[count:],
            labels=None if self.labels is None else self.labels[count:],
            loss_weight=None if self.loss_weight is None else self.loss_weight[count:],
        )
