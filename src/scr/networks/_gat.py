"""GAT: every layer weighs a node's neighbors, and the node itself, by learned attention.

Paper: Veličković et al. 2018, "Graph Attention Networks", arXiv:1710.10903. Weights of edges, where
a graph has them, are not read.

The sum over neighbors takes one product with a sparse matrix per head, forward and backward, so
that nothing of the size of edges times columns is ever in memory. Other devices and precisions
gather a row for each edge, which is also what the tests compare the products with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from scr.config import Chance, Count, check
from scr.encoders import ProblemShape
from scr.encoders.fused import dropout, fits_kernels
from scr.encoders.layers import Adjacency, Projected, SparseRows
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot

SLOPE = 0.2
"""Of the activation of attention scores below zero, Section 2.1 of the paper."""
EDGES_AT_ONCE = 1 << 16
"""Edges whose two rows are gathered at once for the gradient of their weights."""


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
        if isinstance(x, SparseRows):
            return Projected(x.linear(self.weight))
        return Projected(F.linear(x, self.weight))

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


def softmax_over_neighbors(
    edge_scores: Tensor, own_scores: Tensor, adjacency: Adjacency
) -> tuple[Tensor, Tensor]:
    """Weights of each node's neighbors and of the node itself, which add up to 1.

    The first have the shape (edges, heads), the second (rows, heads), as the scores have. There are
    no self-loops among the edges.
    """
    receivers = adjacency.edge_index(edge_scores.device)[1]
    with torch.no_grad():  # the largest is taken away before the exponential, and changes nothing
        receiver_rows = receivers[:, None].expand_as(edge_scores)
        largest = own_scores.scatter_reduce(
            0, receiver_rows, edge_scores, "amax", include_self=True
        )
    edges = torch.exp(edge_scores - largest.index_select(0, receivers))
    own = torch.exp(own_scores - largest)
    total = own.index_add(0, receivers, edges)
    return edges / total.index_select(0, receivers), own / total


def weighted_sum(x: Tensor, weights: Tensor, adjacency: Adjacency) -> Tensor:
    """Sum over neighbors, each head with weights of its own; gradients flow to both.

    From x of shape (columns, heads, width) and weights of shape (edges, heads) to (rows, heads,
    width). The adjacency's own weights and scales are not read.
    """
    if fits_kernels(x):
        return cast(Tensor, _WeightedSum.apply(x, weights, adjacency))  # type: ignore[no-untyped-call]
    senders, receivers = adjacency.edge_index(x.device)
    sums = x.new_zeros(adjacency.rows, *x.shape[1:])
    return sums.index_add(0, receivers, x.index_select(0, senders) * weights[:, :, None])


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        ctx.save_for_backward(x, weights)
        return _products(adjacency, weights, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        adjacency: Adjacency = ctx.adjacency
        x, weights = ctx.saved_tensors
        to_x = to_weights = None
        if ctx.needs_input_grad[0]:
            turned = adjacency.transposed
            order = torch.from_numpy(adjacency.transposed_order)
            to_x = _products(turned, weights.index_select(0, order), gradient)
        if ctx.needs_input_grad[1]:
            to_weights = torch.empty_like(weights)
            pairs = adjacency.edge_index(x.device)
            for start in range(0, pairs.shape[1], EDGES_AT_ONCE):
                senders, receivers = pairs[:, start : start + EDGES_AT_ONCE]
                both = gradient.index_select(0, receivers).mul_(x.index_select(0, senders))
                to_weights[start : start + EDGES_AT_ONCE] = both.sum(-1)
        return to_x, to_weights, None


def _products(adjacency: Adjacency, weights: Tensor, x: Tensor) -> Tensor:
    """The weighted sum of each head, one after the other."""
    sums = x.new_empty(adjacency.rows, *x.shape[1:])
    for head in range(x.shape[1]):
        own = weights[:, head].detach().contiguous().numpy()
        matrix = replace(adjacency, weights=own, row_scale=None, column_scale=None)
        sums[:, head] = matrix.times(x[:, head].contiguous())
    return sums
