"""GraphSAGE: every layer joins what a node has with the mean of its neighbors.

Paper: Hamilton et al. 2017, "Inductive Representation Learning on Large Graphs", arXiv:1706.02216;
the variant with the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
