"""Normalize, add a residual, activate and drop in one pass: what follows every linear layer.

    y = dropout(prelu(norm(x) + residual))

As four torch layers this reads and writes the widest tensors of the model four times each way, and
torch's batch norm is slow on (rows, columns) in main memory. The fused form keeps only x and a
seed for the backward pass. It is used for float32 in main memory; everything else takes the
plain path below, which is also what the tests compare it with.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from scr.compute import empty_like
from scr.encoders.fused import _kernels as kernels
from scr.encoders.fused._dropout import Keep, draw_keep, dropout
from scr.encoders.fused._parallel import blocks_of, run_rows, suits_kernels

Norm = Literal["batch", "layer", "none"]


def make_norm(kind: Norm, columns: int, groups: int = 1) -> nn.Module:
    """A normalization of (rows, columns); `layer` is over the numbers of a row and group."""
    if kind == "batch":
        return nn.BatchNorm1d(columns)
    return nn.GroupNorm(groups, columns) if kind == "layer" else nn.Identity()


def activate(
    x: Tensor,
    norm: nn.Module | None = None,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    slope: Tensor | None = None,
    chance: float = 0.0,
    training: bool = False,
    overwrite: bool = False,
) -> Tensor:
    """Dropout(prelu(norm(x + bias) + residual)), of x of shape (rows, columns).

    Args:
        norm: From `make_norm`; its own mode decides between batch and running statistics.
        bias: Of the linear layer before, per column.
        slope: Of the activation below zero, per column or of all; none is relu.
        overwrite: Nobody needs x afterwards: where no gradient is wanted, write over it.
    """
    if slope is not None:
        slope = slope.expand(x.shape[1])
    if isinstance(norm, nn.GroupNorm):
        x, bias, norm = norm(x if bias is None else x + bias), None, None
    if not suits_kernels(x):
        x = normalize(x if bias is None else x + bias, norm)
        x = x if residual is None else x + residual
        x = F.relu(x) if slope is None else torch.where(x > 0, x, x * slope)
        return dropout(x, chance, training)
    slopes = x.new_zeros(x.shape[1]) if slope is None else slope
    keep = draw_keep(chance, training)
    overwrite = overwrite and not torch.is_grad_enabled()
    if isinstance(norm, nn.BatchNorm1d) and norm.training:
        mean, variance = column_moments(x)
        if norm.track_running_stats:
            _update(norm, mean if bias is None else mean + bias.detach(), variance, x.shape[0])
        result = _Activation.apply(  # type: ignore[no-untyped-call]
            x, norm.weight, norm.bias, slopes, residual, mean, variance, norm.eps, keep, overwrite
        )
        # Batch norm takes the layer's bias away again: it gets a gradient, which is zero.
        return cast(Tensor, result if bias is None else _Ignored.apply(result, bias))  # type: ignore[no-untyped-call]
    scale, shift = _affine(x, norm, bias)
    arguments = (x, scale, shift, slopes, residual, None, None, 0.0, keep, overwrite)
    return cast(Tensor, _Activation.apply(*arguments))  # type: ignore[no-untyped-call]


def normalize(x: Tensor, norm: nn.Module | None) -> Tensor:
    """A normalization alone, by batch statistics or running ones, as its mode says."""
    if isinstance(norm, nn.BatchNorm1d) and norm.training and len(x) == 1:
        # One row has no variance; torch refuses it, and an epoch's last batch may be one row.
        return F.batch_norm(
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
    return x if norm is None else cast(Tensor, norm(x))


def column_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance of every column, in double precision."""
    rows, columns = x.shape
    blocks = blocks_of(rows)
    sums = x.new_zeros(2, blocks, columns)
    run_rows(kernels.sum_moments, blocks, x.numel(), x, sums)
    first, second = sums.sum(1, dtype=torch.float64) / rows
    return first + x[0].detach(), (second - first * first).clamp_(min=0)


def _affine(x: Tensor, norm: nn.Module | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scale and shift per column of a layer whose statistics do not depend on the batch."""
    if isinstance(norm, nn.BatchNorm1d):
        mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        scale = norm.weight * torch.rsqrt(variance + norm.eps)
        return scale, norm.bias + (-mean if bias is None else bias - mean) * scale
    return x.new_ones(x.shape[1]), x.new_zeros(x.shape[1]) if bias is None else bias


@torch.no_grad()
def _update(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, rows: int) -> None:
    """Move the running statistics; like torch, with the unbiased variance."""
    share = cast(float, norm.momentum)
    cast(Tensor, norm.running_mean).lerp_(mean.float(), share)
    cast(Tensor, norm.running_var).lerp_((variance * (rows / max(rows - 1, 1))).float(), share)
    cast(Tensor, norm.num_batches_tracked).add_(1)


class _Ignored(torch.autograd.Function):
    """Pass a tensor on and give a zero gradient to a parameter that has no influence on it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameter: Tensor) -> Tensor:
        ctx.like = parameter
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, torch.zeros_like(ctx.like)


class _Activation(torch.autograd.Function):
    """The fused pass. With `mean` and `variance`, x is normalized by the batch it stands in."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, shift: Tensor, slope: Tensor,
        residual: Tensor | None, mean: Tensor | None, variance: Tensor | None, epsilon: float,
        keep: Keep, overwrite: bool,
    ) -> Tensor:  # fmt: skip
        spread = None if variance is None else torch.rsqrt(variance + epsilon)
        scale = weight if spread is None else (weight * spread).float()
        if mean is not None:
            shift = (shift - mean * scale).float()
        ctx.save_for_backward(x, scale, shift, slope, residual, mean, spread)
        ctx.keep = keep
        activated = x.detach() if overwrite else empty_like(x)
        affine = [_column(each) for each in (scale, shift, slope)]
        read = (x, _rows(residual, x), *affine)
        run_rows(kernels.activate_rows, len(x), x.numel(), *read, activated, *keep)
        return activated

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, shift, slope, residual, mean, spread = ctx.saved_tensors
        rows, columns = x.shape
        blocks = blocks_of(rows)
        sums = x.new_zeros(3, blocks, columns)
        center = x.new_zeros(columns) if mean is None else mean.float()
        inner = empty_like(x)
        affine = [_column(each) for each in (scale, shift, slope)]
        read = (gradient.contiguous(), x, _rows(residual, x), *affine, center)
        kernel = kernels.activation_gradient
        run_rows(kernel, blocks, x.numel(), *read, inner, sums, *ctx.keep)
        total, weighted, sloped = sums.sum(1, dtype=torch.float64)
        by_x = constant = torch.zeros_like(total)
        if spread is not None:
            weighted = weighted * spread
            by_x = -scale * spread * weighted / rows
            constant = -scale * total / rows - by_x * center
        result = inner if residual is None else empty_like(x)
        if ctx.needs_input_grad[0]:
            factors = [_column(each) for each in (scale, by_x, constant)]
            run_rows(kernels.input_gradient, rows, x.numel(), inner, x, *factors, result)
        added = inner if residual is not None else None
        columns_gradients = (weighted.float(), total.float(), sloped.float())
        return (result, *columns_gradients, added, None, None, None, None, None)


def _column(values: Tensor) -> Tensor:
    return values.detach().float().contiguous()


def _rows(residual: Tensor | None, x: Tensor) -> Tensor:
    return x.new_empty(0, x.shape[1]) if residual is None else residual.detach().contiguous()
