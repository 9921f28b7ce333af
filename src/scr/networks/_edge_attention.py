"""Attention over neighbors: a softmax over the edges of each node, and the sum that it weighs.

The sum takes one product with a sparse matrix per head, forward and backward, so that nothing of
the size of edges times columns is ever in memory. Other devices and precisions gather a row for
each edge, which is also what the tests compare the products with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.encoders.fused import fits_kernels
from scr.encoders.layers import Adjacency

EDGES_AT_ONCE = 1 << 16
"""Edges whose two rows are gathered at once for the gradient of their weights."""


def softmax_over_neighbors(
    edge_scores: Tensor, own_scores: Tensor, adjacency: Adjacency
) -> tuple[Tensor, Tensor]:
    r"""Weights of each node's neighbors and of the node itself, which add up to 1.

    Args:
        edge_scores: One per edge and head. Shape (edges, heads).
        own_scores: Of each receiving node for itself. Shape (rows, heads).
        adjacency: The edges, without self-loops.

    Returns:
        Weights of the edges, and of the nodes themselves; shapes as given.
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

    Args:
        x: Shape (columns, heads, width).
        weights: Shape (edges, heads).
        adjacency: The edges; its own weights and scales are not read.

    Returns:
        Shape (rows, heads, width).
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
        matrix = replace(
            adjacency,
            weights=weights[:, head].detach().contiguous().numpy(),
            row_scale=None,
            column_scale=None,
        )
        sums[:, head] = matrix.times(x[:, head].contiguous())
    return sums
