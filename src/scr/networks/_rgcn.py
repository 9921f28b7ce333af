"""R-GCN: every layer takes the mean over neighbors of each relation, with a weight for each.

Paper: Schlichtkrull et al. 2018, "Modeling Relational Data with Graph Convolutional Networks",
arXiv:1703.06103.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from scr.config import Count, Natural
from scr.encoders import ProblemShape
from scr.encoders.layers import Adjacency
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot
from scr.networks._relation_blocks import sum_over_relations


@dataclass(frozen=True, kw_only=True)
class RGCNConfig(GraphEncoderConfig):
    """Settings of `RGCN`; width, depth and dropout are OGB's for ogbn-mag."""

    hidden: Count = 64
    bases: Natural = 0
    """Matrices that the weights of all relations are mixed from; 0: each has its own."""
    node_embeddings: bool = False
    """Learn a vector for each node of a type without features, instead of completing them."""


class RGCNLayer(nn.Module):
    r"""One layer.

    Equation: Schlichtkrull et al. 2018, eqs. 2 and 3
        h'_i = W_0 h_i + b + sum_r sum_{j in N_r(i)} 1/c_ir W_r h_j,   c_ir = |N_r(i)|
        with bases: W_r = sum_b a_rb V_b

    A relation and its reverse count as two.
    """

    def __init__(self, inputs: int, outputs: int, relations: int, bases: int = 0) -> None:
        super().__init__()
        self.mixture = glorot(relations, bases) if bases else None
        count = bases or relations
        drawn = [nn.init.xavier_uniform_(torch.empty(inputs, outputs)) for _ in range(count)]
        self.weights = nn.Parameter(torch.stack(drawn))
        self.own_weight = glorot(inputs, outputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """From (columns, inputs) to (rows, outputs)."""
        weights: Tensor = self.weights
        if self.mixture is not None:
            weights = torch.einsum("rb,bio->rio", self.mixture, weights)
        own = torch.addmm(self.bias, adjacency.own_rows(x), self.own_weight)
        return own + sum_over_relations(x, weights, adjacency)


class RGCN(LayeredEncoder):
    """Layers of `RGCNLayer`, with relu and dropout between them."""

    name = "rgcn"
    config_class = RGCNConfig
    aggregation = "relations"

    def make_layer(self, shape: ProblemShape, inputs: int, outputs: int, last: bool) -> nn.Module:
        """A layer from `inputs` to `outputs` columns."""
        return RGCNLayer(inputs, outputs, shape.relations, cast(RGCNConfig, self.config).bases)
