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

from scr.compute import ALONE, Group, current_group, empty_like
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
        x = normalize(x, norm, bias)
        x = x if residual is None else x + residual
        x = F.relu(x) if slope is None else torch.where(x > 0, x, x * slope)
        return dropout(x, chance, training)
    slopes = x.new_zeros(x.shape[1]) if slope is None else slope
    keep = draw_keep(chance, training)
    overwrite = overwrite and not torch.is_grad_enabled()
    if isinstance(norm, nn.BatchNorm1d) and norm.training:
        group = current_group()
        mean, variance, rows = batch_moments(x, group)
        if norm.track_running_stats and group.is_first:
            _update(norm, mean if bias is None else mean + bias.detach(), variance, rows)
        result = _Activation.apply(  # type: ignore[no-untyped-call]
            x, norm.weight, norm.bias, slopes, residual, mean, variance, norm.eps, keep, overwrite,
            rows, group,
        )  # fmt: skip
        return _without(result, bias)
    scale, shift = _affine(x, norm, bias)
    arguments = (x, scale, shift, slopes, residual, None, None, 0.0, keep, overwrite)
    return cast(Tensor, _Activation.apply(*arguments))  # type: ignore[no-untyped-call]


def normalize(x: Tensor, norm: nn.Module | None, bias: Tensor | None = None) -> Tensor:
    """A normalization of x + bias alone, by batch statistics or running ones, as its mode says."""
    group = current_group()
    if isinstance(norm, nn.BatchNorm1d) and norm.training and group.size > 1:
        return _normalize_in_group(x, norm, bias, group)
    if isinstance(norm, nn.BatchNorm1d) and norm.training:
        if len(x) == 1:
            # One row has no variance; torch refuses it, and an epoch's last batch may be one row.
            return _by_running(x, norm, bias)
        if bias is not None:
            # Of rounding errors, Adam would make whole steps.
            return _without(normalize(x + bias.detach(), norm), bias)
    x = x if bias is None else x + bias
    return x if norm is None else cast(Tensor, norm(x))


def column_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance of every column, in double precision."""
    rows, columns = x.shape
    blocks = blocks_of(rows)
    sums = x.new_zeros(2, blocks, columns)
    run_rows(kernels.sum_moments, blocks, x.numel(), x, sums)
    first, second = sums.sum(1, dtype=torch.float64) / rows
    return first + x[0].detach(), (second - first * first).clamp_(min=0)


def batch_moments(x: Tensor, group: Group) -> tuple[Tensor, Tensor, int]:
    """Moments of every column over the rows of all processes, and how many rows these are."""
    if group.size == 1:
        return (*column_moments(x), len(x))
    mean = variance = x.new_zeros(x.shape[1], dtype=torch.float64)
    if suits_kernels(x):
        mean, variance = column_moments(x)
    elif len(x):
        variance, mean = torch.var_mean(x.detach().double(), dim=0, correction=0)
    rows = torch.full_like(mean[:1], len(x))
    means, variances, counts = group.stack(torch.cat([mean, variance, rows])).split(
        [len(mean), len(mean), 1], dim=1
    )
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    return mean, (counts * (variances + (means - mean).square())).sum(0) / total, int(total)


def _normalize_in_group(
    x: Tensor, norm: nn.BatchNorm1d, bias: Tensor | None, group: Group
) -> Tensor:
    # torch's SyncBatchNorm takes tensors of a GPU only. Moments are those of x without the bias,
    # since other processes may have more rows and take the fused pass.
    mean, variance, rows = batch_moments(x, group)
    if rows == 1:
        return _by_running(x, norm, bias)
    if norm.track_running_stats and group.is_first:
        _update(norm, mean if bias is None else mean + bias.detach(), variance, rows)
    arguments = (x, norm.weight, norm.bias, mean, variance, norm.eps, rows, group)
    result = _GroupNormalization.apply(*arguments)  # type: ignore[no-untyped-call]
    return _without(result, bias)


def _by_running(x: Tensor, norm: nn.BatchNorm1d, bias: Tensor | None) -> Tensor:
    x = x if bias is None else x + bias
    return F.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
    )


class _GroupNormalization(torch.autograd.Function):
    """Batch norm by the statistics of all processes' rows; parameters get their rows' gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor,
        epsilon: float, rows: int, group: Group,
    ) -> Tensor:  # fmt: skip
        spread = torch.rsqrt(variance + epsilon)
        ctx.save_for_backward(x, weight, mean, spread)
        ctx.rows, ctx.group = rows, group
        return (((x - mean) * spread) * weight + bias).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, spread = ctx.saved_tensors
        normalized = (x - mean) * spread
        total, weighted = gradient.double().sum(0), (gradient * normalized).sum(0)
        of_all = ctx.group.sum_(torch.stack([total, weighted]))
        inner = gradient - (of_all[0] + normalized * of_all[1]) / ctx.rows
        by_x = (inner * spread * weight).to(x.dtype)
        parameters = weighted.to(weight.dtype), total.to(weight.dtype)
        return (by_x, *parameters, None, None, None, None, None)


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
    share, unbiased = cast(float, norm.momentum), variance * (rows / max(rows - 1, 1))
    for average, value in ((norm.running_mean, mean), (norm.running_var, unbiased)):
        cast(Tensor, average).lerp_(value.to(cast(Tensor, average).dtype), share)
    cast(Tensor, norm.num_batches_tracked).add_(1)


def _without(result: Tensor, bias: Tensor | None) -> Tensor:
    """What batch norm takes a layer's bias away from: the bias gets a gradient, which is zero."""
    return cast(Tensor, result if bias is None else _Ignored.apply(result, bias))  # type: ignore[no-untyped-call]


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
        keep: Keep, overwrite: bool, rows: int = 0, group: Group = ALONE,
    ) -> Tensor:  # fmt: skip
        # Of a batch in which other processes have rows, too, `rows` is how many these are together.
        ctx.rows, ctx.group = rows, group
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
            of_all = total, weighted
            if ctx.group.size > 1:
                total_of_all, weighted_of_all = ctx.group.sum_(torch.stack(of_all))
                of_all = total_of_all, weighted_of_all
            by_x = -scale * spread * of_all[1] / ctx.rows
            constant = -scale * of_all[0] / ctx.rows - by_x * center
        result = inner if residual is None else empty_like(x)
        if ctx.needs_input_grad[0]:
            factors = [_column(each) for each in (scale, by_x, constant)]
            run_rows(kernels.input_gradient, rows, x.numel(), inner, x, *factors, result)
        added = inner if residual is not None else None
        columns_gradients = (weighted.float(), total.float(), sloped.float())
        return (result, *columns_gradients, added, *[None] * 7)


def _column(values: Tensor) -> Tensor:
    return values.detach().float().contiguous()


def _rows(residual: Tensor | None, x: Tensor) -> Tensor:
    return x.new_empty(0, x.shape[1]) if residual is None else residual.detach().contiguous()
