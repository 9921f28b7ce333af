"""GAT: every layer weighs a node's neighbors, and the node itself, by learned attention.

Paper: Veličković et al. 2018, "Graph Attention Networks", arXiv:1710.10903. Weights of edges, where
a graph has them, are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scr.config import Chance, Count, check
from scr.encoders import ProblemShape
from scr.encoders.fused import dropout
from scr.encoders.layers import Adjacency, Projected, SparseRows, linear
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot
from scr.networks._edge_attention import softmax_over_neighbors, weighted_sum

SLOPE = 0.2
"""Of the activation of attention scores below zero, Section 2.1 of the paper."""


@dataclass(frozen=True, kw_only=True)
class GATConfig(GraphEncoderConfig):
    """Settings of `GAT`; defaults are the paper's for Cora (its Section 3.3)."""

    hidden: Count = 64
    """Width of hidden layers, all heads together."""
    heads: Count = 8
    """Attention heads of hidden layers, whose results are joined."""
    output_heads: Count = 1
    """Attention heads of the last layer, whose results are averaged; 8 for PubMed in the paper."""
    dropout: Chance = 0.6
    input_dropout: Chance = 0.6
    attention_dropout: Chance = 0.6
    """Chance that a neighbor is left out of a sum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.hidden % self.heads == 0, "encoder.hidden", self.hidden,
              f"a multiple of encoder.heads, which is {self.heads}")  # fmt: skip


class GATLayer(nn.Module):
    r"""One layer, without the product with W, which comes before it (`project`).

    Equation: Veličković et al. 2018, eqs. 1-6, with a = [a_t || a_s]
        e_ij = LeakyReLU(a_t^T W h_i + a_s^T W h_j)
        h'_i = sum_{j in N(i) and i} softmax_j(e_ij) W h_j + b
    """

    def __init__(
        self, inputs: int, heads: int, width: int, *, join: bool, attention_dropout: float = 0.0
    ) -> None:
        """Draw weights of heads that each give `width` columns.

        Heads are put beside each other with `join`; else their mean is taken.
        """
        super().__init__()
        self.heads, self.width, self.join = heads, width, join
        self.attention_dropout = attention_dropout
        self.weight = glorot(heads * width, inputs)
        self.source = glorot(heads, width)
        self.target = glorot(heads, width)
        self.bias = nn.Parameter(torch.zeros(heads * width if join else width))

    def project(self, x: Tensor | SparseRows) -> Projected:
        """W h of every head. From (columns, inputs) to (columns, heads * width)."""
        return Projected(linear(x, self.weight))

    def forward(self, x: Projected, adjacency: Adjacency) -> Tensor:
        """From (columns, heads * width) to (rows, outputs)."""
        projected = x.rows
        heads = projected.unflatten(1, (self.heads, self.width))
        own = adjacency.own_rows(projected).unflatten(1, (self.heads, self.width))
        sent, received = (heads * self.source).sum(-1), (own * self.target).sum(-1)
        senders, receivers = adjacency.edge_index(heads.device)
        between = sent.index_select(0, senders) + received.index_select(0, receivers)
        edges, itself = softmax_over_neighbors(
            F.leaky_relu(between, SLOPE),
            F.leaky_relu(adjacency.own_rows(sent) + received, SLOPE),
            adjacency,
        )
        edges = dropout(edges, self.attention_dropout, self.training)
        itself = dropout(itself, self.attention_dropout, self.training)
        outputs: Tensor = weighted_sum(heads, edges, adjacency) + itself[:, :, None] * own
        outputs = outputs.flatten(1) if self.join else outputs.mean(1)
        return outputs + self.bias


class GAT(LayeredEncoder):
    """Layers of `GATLayer`, with elu and dropout between them."""

    name = "gat"
    config_class = GATConfig
    aggregation = "none"
    has_loops = True
    reads_sparse = True

    def make_layer(self, shape: ProblemShape, inputs: int, outputs: int, last: bool) -> nn.Module:
        """A layer from `inputs` to `outputs` columns."""
        config = cast(GATConfig, self.config)
        heads = config.output_heads if last else config.heads
        width = outputs if last else outputs // heads
        chance = config.attention_dropout
        return GATLayer(inputs, heads, width, join=not last, attention_dropout=chance)

    def layer_input(self, number: int, x: Tensor | SparseRows) -> Projected:
        """The product with W, once for all ranges of rows."""
        return cast(GATLayer, self.layers[number]).project(x)

    def activate(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Norm, elu and dropout."""
        return dropout(F.elu(norm(x)), self.config.dropout, self.training)
