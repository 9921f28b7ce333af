"""Several linear layers side by side: one weight matrix per hop, or per head.

Rows keep the results of all groups together, (rows, groups, columns), so that joining them is a
view and mixing them reads one row at a time. Each group's product is written straight into its
place; stacking finished products would copy the widest tensor of the model.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from scr.compute import empty, empty_like
from scr.encoders.fused._parallel import is_plain


class GroupedLinear(nn.Module):
    """One linear layer per group; initial weights have Xavier's bound, with the gain of relu."""

    def __init__(
        self, groups: int, inputs: int, outputs: int, bias: bool = True, bound: float | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(groups, outputs)) if bias else None
        bound = math.sqrt(12 / (inputs + outputs)) if bound is None else bound
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, groups, inputs) to (rows, groups, outputs)."""
        return grouped_linear(x, self.weight, self.bias)

    def product(self, x: Tensor) -> Tensor:
        """The same without the bias, for callers that add it in a later pass."""
        return grouped_linear(x, self.weight, None)


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply (rows, groups, inputs) group by group with (groups, inputs, outputs)."""
    if is_plain():
        product = torch.einsum("rgi,gio->rgo", x, weight)
        return product if bias is None else product + bias
    return cast(Tensor, _GroupedLinear.apply(x, weight, bias))  # type: ignore[no-untyped-call]


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        groups, _, outputs = weight.shape
        result = empty((x.shape[0], groups, outputs), x)
        for group in range(groups):
            target = result[:, group]
            if bias is None:
                torch.mm(x[:, group], weight[group], out=target)
            else:
                torch.addmm(bias[group], x[:, group], weight[group], out=target)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        by_input = empty_like(x) if ctx.needs_input_grad[0] else None
        by_weight = torch.empty_like(weight)
        for group in range(weight.shape[0]):
            incoming = gradient[:, group]
            torch.mm(x[:, group].t(), incoming, out=by_weight[group])
            if by_input is not None:
                torch.mm(incoming, weight[group].t(), out=by_input[:, group])
        return by_input, by_weight, gradient.sum(0) if ctx.needs_input_grad[2] else None
