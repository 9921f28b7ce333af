"""Mix the hops of a row by weights that depend on the hops: the core of all hop attention.

    dots_khv = hidden_kh . vectors_hv        what the attention sees of hop k, head h
    weights  = weigh(dots)                   the attention itself, on a few scalars per row
    mixed_h  = sum_k weights_kh hidden_kh

Every attention here sees a hop only through dot products with learned vectors. On those scalars
it costs next to nothing; the wide tensors are read once for the dots and once for the sum. In the
backward pass both contributions to the gradient of `hidden` are written in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.compute import compiled_reordered as compiled
from scr.compute import empty, empty_like
from scr.encoders.fused._parallel import ROWS, blocks_of, run_rows, suits_kernels

Weigh = Callable[[Tensor, Tensor], Tensor]


def mix_hops(hidden: Tensor, vectors: Tensor, context: Tensor, weigh: Weigh) -> Tensor:
    """Weighted sum of the hops: from (rows, hops, heads, columns) to (rows, heads, columns).

    Args:
        vectors: What dots are taken with, shape (heads, vectors, columns).
        context: Anything else that the weights depend on and that needs a gradient.
        weigh: From dots (rows, hops, heads, vectors) and context to weights (rows, hops, heads).
    """
    if suits_kernels(hidden):
        return cast(Tensor, _Mixture.apply(hidden, vectors, context, weigh))  # type: ignore[no-untyped-call]
    dots = torch.einsum("rkhc,hvc->rkhv", hidden, vectors)
    return torch.einsum("rkh,rkhc->rhc", weigh(dots, context), hidden)


def dots_of_rows(hidden: Tensor, vectors: Tensor) -> Tensor:
    """Dot products of (rows, hops, heads, columns) with (heads, vectors, columns), in a loop."""
    rows, hops, heads, _ = hidden.shape
    dots = hidden.new_empty(rows, hops, heads, vectors.shape[1])
    run_rows(_dots, rows, hidden.numel(), hidden, vectors.contiguous(), dots)
    return dots


class Attention:
    """The weights of the hops with a graph of their own, which the backward pass enters here."""

    def __init__(self, weigh: Weigh, dots: Tensor, context: Tensor, learning: bool) -> None:
        with torch.set_grad_enabled(learning):
            self.dots = dots.requires_grad_(learning)
            self.context = context.detach().requires_grad_(learning)
            self.weights = weigh(self.dots, self.context)

    def gradients(self, by_weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the dots and the context get."""
        by_dots = by_context = None
        if self.weights.requires_grad:
            by_dots, by_context = torch.autograd.grad(
                self.weights, (self.dots, self.context), by_weights.view(self.weights.shape),
                allow_unused=True, retain_graph=True,
            )  # fmt: skip
        return torch.zeros_like(self.dots) if by_dots is None else by_dots.contiguous(), by_context


class _Mixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, vectors: Tensor, context: Tensor, weigh: Weigh) -> Tensor:
        rows, _, heads, columns = hidden.shape
        vectors = vectors.detach().contiguous()
        dots = dots_of_rows(hidden, vectors)
        ctx.attention = Attention(weigh, dots, context, any(ctx.needs_input_grad))
        weights = ctx.attention.weights.detach().contiguous()
        mixed = empty((rows, heads, columns), hidden)
        run_rows(_mix, rows, hidden.numel(), hidden, weights, mixed)
        ctx.save_for_backward(hidden, vectors, weights)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        hidden, vectors, weights = ctx.saved_tensors
        rows, size, gradient = len(hidden), hidden.numel(), gradient.contiguous()
        by_weights = torch.empty_like(weights)
        # As a function of the weights, the sum's derivative is a dot product again.
        run_rows(_paired_dots, rows, size, hidden, gradient, by_weights)
        by_dots, by_context = ctx.attention.gradients(by_weights)
        by_hidden = empty_like(hidden)
        blocks = blocks_of(rows)
        partial = hidden.new_zeros(blocks, *vectors.shape)
        read = (hidden, gradient, weights, by_dots, vectors)
        run_rows(_spread, blocks, size, *read, by_hidden, partial)
        return by_hidden, partial.sum(0, dtype=torch.float64).float(), by_context, None


@compiled
def _dots(hidden: Any, vectors: Any, dots: Any, start: Any, stop: Any) -> None:
    _, hops, heads, columns = hidden.shape
    for row in range(start, stop):
        for hop in range(hops):
            for head in range(heads):
                numbers = hidden[row, hop, head]
                for vector in range(vectors.shape[1]):
                    other = vectors[head, vector]
                    total = np.float32(0)
                    for column in range(columns):
                        total += numbers[column] * other[column]
                    dots[row, hop, head, vector] = total


@compiled
def _paired_dots(hidden: Any, gradient: Any, dots: Any, start: Any, stop: Any) -> None:
    _, hops, heads, columns = hidden.shape
    for row in range(start, stop):
        for hop in range(hops):
            for head in range(heads):
                numbers, other = hidden[row, hop, head], gradient[row, head]
                total = np.float32(0)
                for column in range(columns):
                    total += numbers[column] * other[column]
                dots[row, hop, head] = total


@compiled
def _mix(hidden: Any, weights: Any, mixed: Any, start: Any, stop: Any) -> None:
    _, hops, heads, columns = hidden.shape
    for row in range(start, stop):
        for head in range(heads):
            target = mixed[row, head]
            target[:] = np.float32(0)
            for hop in range(hops):
                numbers, weight = hidden[row, hop, head], weights[row, hop, head]
                for column in range(columns):
                    target[column] += weight * numbers[column]


@compiled
def _spread(
    hidden: Any, gradient: Any, weights: Any, by_dots: Any, vectors: Any, by_hidden: Any,
    partial: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Gradient of `hidden` through sum and dots, and of the vectors."""
    rows, hops, heads, columns = hidden.shape
    for block in range(start, stop):
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            for hop in range(hops):
                for head in range(heads):
                    target, numbers = by_hidden[row, hop, head], hidden[row, hop, head]
                    incoming, weight = gradient[row, head], weights[row, hop, head]
                    for column in range(columns):
                        target[column] = weight * incoming[column]
                    for vector in range(vectors.shape[1]):
                        slope = by_dots[row, hop, head, vector]
                        other, total = vectors[head, vector], partial[block, head, vector]
                        for column in range(columns):
                            target[column] += slope * other[column]
                            total[column] += slope * numbers[column]
