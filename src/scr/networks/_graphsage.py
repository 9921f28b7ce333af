"""GraphSAGE: every layer joins what a node has with the mean of its neighbors.

Paper: Hamilton et al. 2017, "Inductive Representation Learning on Large Graphs", arXiv:1706.02216;
the variant with the mean.

Cluster-GCN and GraphSAINT train the same layers on subgraphs, from `sampling`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scr.config import Count, Natural
from scr.encoders import ProblemShape
from scr.encoders.layers import Adjacency, Projected, SparseRows
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot


@dataclass(frozen=True, kw_only=True)
class GraphSAGEConfig(GraphEncoderConfig):
    """Settings of `GraphSAGE`; width and depth are the paper's."""

    neighbors: tuple[int, ...] | None = None
    """Neighbors drawn for each node, layer by layer from the seeds outwards, -1 for all of them. An
    empty list: the whole graph in every step. None: the whole graph if it is small, else 25 and 10
    as in the paper, or 10 for each of other than two layers."""


class SAGELayer(nn.Module):
    r"""One layer.

    Equation: Hamilton et al. 2017, algorithm 1 with the mean, its two blocks of W apart
        h'_i = W_n mean_{j in N(i)} h_j + W_s h_i + b
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.neighbor_weight = glorot(outputs, inputs)
        self.own_weight = glorot(outputs, inputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def project(self, x: SparseRows) -> Projected:
        """Both products with weights, beside each other, in one pass over the stored numbers."""
        return Projected(x.linear(torch.cat([self.neighbor_weight, self.own_weight])))

    def forward(self, x: Tensor | Projected, adjacency: Adjacency) -> Tensor:
        """From (columns, inputs) to (rows, outputs)."""
        outputs, inputs = self.own_weight.shape
        if isinstance(x, Projected):
            neighbors, itself = x.rows.split(outputs, dim=1)
            return adjacency.own_rows(itself) + self.bias + adjacency.multiply(neighbors)
        own = F.linear(adjacency.own_rows(x), self.own_weight, self.bias)
        if adjacency.transforms_first(inputs, outputs):
            return own + adjacency.multiply(F.linear(x, self.neighbor_weight))
        return own + F.linear(adjacency.multiply(x), self.neighbor_weight)


class GraphSAGE(LayeredEncoder):
    """Layers of `SAGELayer`, with relu and dropout between them."""

    name = "graphsage"
    config_class: ClassVar[type[GraphEncoderConfig]] = GraphSAGEConfig
    aggregation = "mean"
    reads_sparse = True

    @classmethod
    def default_neighbors(cls, layers: int) -> tuple[int, ...]:
        """The paper's, for its two layers."""
        return (25, 10) if layers == 2 else super().default_neighbors(layers)

    def make_layer(self, shape: ProblemShape, inputs: int, outputs: int, last: bool) -> nn.Module:
        """A layer from `inputs` to `outputs` columns."""
        return SAGELayer(inputs, outputs)


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(GraphEncoderConfig):
    """Settings of `ClusterGCN`; a part has as many nodes as OGB's for ogbn-products."""

    neighbors: None = None
    """Always none: parts are trained on, not neighbors."""
    clusters: Count | None = None
    """Parts that the graph is cut into; none: one for every 160 nodes."""
    clusters_per_batch: Count = 32
    """Parts of a step, with the edges between them; `training.batch_size` has no say."""
    partition: Literal["auto", "metis", "label-propagation", "random"] = "auto"
    """How the graph is cut; `auto` is METIS where it is installed, else label propagation."""


class ClusterGCN(GraphSAGE):
    """Cluster-GCN: GraphSAGE's layers, trained on parts of the graph with few edges between them.

    Paper: Chiang et al. 2019, "Cluster-GCN: An Efficient Algorithm for Training Deep and Large
    Graph Convolutional Networks", arXiv:1905.07953. Layers are those of OGB's example for
    ogbn-products, in which a node's own vector has a weight of its own, as the paper wants by other
    means (its eq. 10).
    """

    name = "cluster-gcn"
    config_class = ClusterGCNConfig


@dataclass(frozen=True, kw_only=True)
class GraphSAINTConfig(GraphEncoderConfig):
    """Settings of `GraphSAINT`; roots and lengths are the paper's for Reddit."""

    neighbors: None = None
    """Always none: subgraphs are trained on, not neighbors."""
    roots: Count = 2_000
    """Random walks of a step; `training.batch_size` has no say."""
    walk_length: Count = 2
    """Steps of a walk."""
    steps: Count | None = None
    """Subgraphs of an epoch; none: as many as walks that together are as long as the graph."""
    coverage: Natural = 50
    """Subgraphs are counted beforehand until each node was in as many on average, so that loss and
    means are unbiased; 0: they are left as they are."""


class GraphSAINT(GraphSAGE):
    """GraphSAINT: GraphSAGE's layers, trained on subgraphs around random walks, without bias.

    Paper: Zeng et al. 2020, "GraphSAINT: Graph Sampling Based Inductive Learning Method",
    arXiv:1907.04931. A node that is drawn often counts less in the loss, and an edge less in the
    mean.
    """

    name = "graph-saint"
    config_class = GraphSAINTConfig
