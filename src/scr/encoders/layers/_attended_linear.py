"""Hop attention through the linear layer before it, without computing what attention drops.

Each hop's MLP ends in a linear layer, h_k = z_k W_k + b_k, and attention mixes the h_k. Both
are linear in z_k, so the scores and the mixture can be had from z_k itself:

    h_k . a           = z_k . (W_k a) + b_k . a
    sum_k w_k h_k     = sum_k (w_k z_k) W_k + sum_k w_k b_k

The h_k are never stored. And attention dropout makes many w_k zero (half of them in GAMLP): rows
are left out of the product of every hop that has no weight for them, forward and backward. The
result is that of `mix_hops` after `grouped_linear`, which other devices and precisions use.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.compute import compiled_reordered as compiled
from scr.compute import empty, empty_like
from scr.encoders.fused._parallel import ROWS, blocks_of, run_rows, suits_kernels
from scr.encoders.layers._grouped_linear import grouped_linear
from scr.encoders.layers._hop_mixture import Attention, Weigh, dots_of_rows, mix_hops


def attend_linear(
    z: Tensor, weight: Tensor, bias: Tensor, vectors: Tensor, context: Tensor, weigh: Weigh
) -> Tensor:
    """Mix ``z W + b`` over the hops by attention; see `mix_hops` for the attention's side.

    What the last layer of each hop and head reads is z, shape (rows, hops * heads, inputs). W has
    the shape (hops * heads, inputs, outputs), b (hops * heads, outputs), the vectors (heads,
    vectors, outputs) and the result (rows, heads, outputs).
    """
    heads = vectors.shape[0]
    if not suits_kernels(z):
        hidden = grouped_linear(z, weight, bias)
        return mix_hops(hidden.unflatten(1, (-1, heads)), vectors, context, weigh)
    # Small tensors, left to autograd: what a vector after the layer is before it.
    every = vectors.repeat(len(weight) // heads, 1, 1)
    seen = torch.einsum("gio,gvo->gvi", weight, every).contiguous()
    offset = torch.einsum("go,gvo->gv", bias, every)
    arguments = (z, weight, bias, seen, offset, context, weigh, heads)
    return cast(Tensor, _AttendedLinear.apply(*arguments))  # type: ignore[no-untyped-call]


class _AttendedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, seen: Tensor, offset: Tensor,
        context: Tensor, weigh: Weigh, heads: int,
    ) -> Tensor:  # fmt: skip
        groups, _, outputs = weight.shape
        dots = dots_of_rows(z.unsqueeze(1), seen).squeeze(1) + offset
        by_head = dots.view(len(z), groups // heads, heads, dots.shape[-1])
        ctx.attention = Attention(weigh, by_head, context, any(ctx.needs_input_grad))
        shares = ctx.attention.weights.detach().flatten(1).contiguous()
        mixed = empty((len(z), heads, outputs), z)
        for head in range(heads):
            torch.mm(shares[:, head::heads], bias[head::heads], out=mixed[:, head])
        for group in range(groups):
            _add_product(z, weight, shares, group, mixed[:, group % heads])
        ctx.save_for_backward(z, weight, bias, seen, shares)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        z, weight, bias, seen, shares = ctx.saved_tensors
        groups, heads, gradient = len(weight), gradient.shape[1], gradient.contiguous()
        by_z, by_weight, by_bias = empty_like(z), torch.empty_like(weight), torch.empty_like(bias)
        by_shares = torch.zeros_like(shares)
        for group in range(groups):
            incoming = gradient[:, group % heads]
            _product_gradient(z, weight, shares, group, incoming, by_z, by_weight, by_shares)
        for head in range(heads):
            part = slice(head, None, heads)
            torch.mm(shares[:, part].t(), gradient[:, head], out=by_bias[part])
            by_shares[:, part] += gradient[:, head] @ bias[part].t()
        by_dots, by_context = ctx.attention.gradients(by_shares)
        by_dots = by_dots.flatten(1, 2)
        blocks = blocks_of(len(z))
        partial = z.new_zeros(blocks, *seen.shape)
        read = (z, shares, by_dots, seen)
        run_rows(_add_dots_gradient, blocks, z.numel(), *read, by_z, partial)
        by_seen = partial.sum(0, dtype=torch.float64).float()
        return by_z, by_weight, by_bias, by_seen, by_dots.sum(0), by_context, None, None


def _scaled(z: Tensor, shares: Tensor, group: int, rows: Tensor) -> Tensor:
    """Chosen rows of one group, each times its weight."""
    scaled = empty((len(rows), z.shape[2]), z)
    run_rows(_scale_rows, len(rows), scaled.numel(), z, shares, group, rows, scaled)
    return scaled


def _add_product(z: Tensor, weight: Tensor, shares: Tensor, group: int, mixed: Tensor) -> None:
    """Add (w z) W of one group to the mixture."""
    rows = shares[:, group].nonzero().squeeze(1)  # to which the group matters
    if len(rows) == len(z):
        mixed.addmm_(_scaled(z, shares, group, rows), weight[group])
        return
    product = empty((len(rows), mixed.shape[1]), mixed)
    torch.mm(_scaled(z, shares, group, rows), weight[group], out=product)
    run_rows(_add_rows, len(rows), product.numel(), product, rows, mixed)


def _product_gradient(
    z: Tensor, weight: Tensor, shares: Tensor, group: int, incoming: Tensor,
    by_z: Tensor, by_weight: Tensor, by_shares: Tensor,
) -> None:  # fmt: skip
    """Backward pass of `_add_product`; the factor w of z's gradient is left for later."""
    rows = shares[:, group].nonzero().squeeze(1)
    if len(rows) < len(z):
        packed = empty((len(rows), incoming.shape[1]), incoming)
        incoming = torch.index_select(incoming, 0, rows, out=packed)
    torch.mm(_scaled(z, shares, group, rows).t(), incoming, out=by_weight[group])
    back = empty((len(rows), z.shape[2]), z)
    torch.mm(incoming, weight[group].t(), out=back)
    run_rows(_place_rows, len(rows), back.numel(), back, z, group, rows, by_z, by_shares)


@compiled
def _scale_rows(
    z: Any, shares: Any, group: Any, rows: Any, scaled: Any, start: Any, stop: Any
) -> None:
    columns = z.shape[2]
    for index in range(start, stop):
        row = rows[index]
        numbers, target, share = z[row, group], scaled[index], shares[row, group]
        for column in range(columns):
            target[column] = share * numbers[column]


@compiled
def _add_rows(product: Any, rows: Any, mixed: Any, start: Any, stop: Any) -> None:
    columns = product.shape[1]
    for index in range(start, stop):
        numbers, target = product[index], mixed[rows[index]]
        for column in range(columns):
            target[column] += numbers[column]


@compiled
def _place_rows(
    back: Any, z: Any, group: Any, rows: Any, by_z: Any, by_shares: Any, start: Any, stop: Any
) -> None:
    """Put packed gradients where they belong, and take the weights' gradient on the way."""
    columns = z.shape[2]
    for index in range(start, stop):
        row = rows[index]
        numbers, flowing, target = z[row, group], back[index], by_z[row, group]
        total = np.float32(0)
        for column in range(columns):
            total += numbers[column] * flowing[column]
            target[column] = flowing[column]
        by_shares[row, group] = total


@compiled
def _add_dots_gradient(
    z: Any, shares: Any, by_dots: Any, seen: Any, by_z: Any, partial: Any, start: Any, stop: Any
) -> None:
    """Scale what was placed by the weights and add what comes through the dots."""
    rows, groups, columns = z.shape
    for block in range(start, stop):
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            for group in range(groups):
                target, numbers, share = by_z[row, group], z[row, group], shares[row, group]
                if share == 0:  # nothing was placed here
                    target[:] = np.float32(0)
                else:
                    for column in range(columns):
                        target[column] *= share
                for vector in range(seen.shape[1]):
                    slope = by_dots[row, group, vector]
                    other, total = seen[group, vector], partial[block, group, vector]
                    for column in range(columns):
                        target[column] += slope * other[column]
                        total[column] += slope * numbers[column]
