"""Dropout on all cores: the mask is drawn, scaled and applied in one pass over the numbers.

`torch.nn.functional.dropout` draws its mask on one core and stores it, which was a third of a
training step on a CPU. Here nothing is stored but a seed: the random word of column j in row i is a
hash of (seed, i, j), in `_kernels.py`. So any thread can draw any part of a mask, the backward pass
draws it again, and the result never depends on the number of threads. Other devices and precisions,
and tensors so small that torch is faster, use torch's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from scr.compute import empty_like
from scr.encoders.fused._kernels import BLOCK, keep_blocks
from scr.encoders.fused._parallel import TINY, fits_kernels, run_rows

_WORDS = 1 << 32


class Keep(NamedTuple):
    """How one call of dropout decides; chances are exact to 2^-32."""

    seed: np.uint64
    threshold: np.uint32
    """Words below it are kept."""
    scale: np.float32
    """One over the chance to be kept."""
    noisy: bool


def draw_keep(dropout: float, training: bool) -> Keep:
    """Draw a seed from torch's default generator, so that `torch.manual_seed` governs it.

    The chance is in [0, 1); where it is 0, and without training, nothing is drawn.
    """
    kept = round((1 - dropout) * _WORDS)
    if not training or kept >= _WORDS:
        return Keep(np.uint64(0), np.uint32(0), np.float32(1), False)
    kept = max(kept, 1)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Keep(np.uint64(seed), np.uint32(kept), np.float32(_WORDS / kept), True)


def dropout(numbers: Tensor, chance: float, training: bool = True) -> Tensor:
    """Set numbers to zero by chance, in [0, 1], and scale the others so that the mean stays."""
    if not training or chance == 0:
        return numbers
    if not fits_kernels(numbers) or numbers.numel() < TINY or chance >= 1:
        return F.dropout(numbers, chance, training=True)
    return cast(Tensor, _Dropout.apply(numbers, draw_keep(chance, training)))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor, keep: Keep) -> Tensor:
        ctx.keep = keep
        source = numbers.detach().contiguous()
        result = empty_like(source)
        count = source.numel()
        blocks = -(-count // BLOCK)
        run_rows(keep_blocks, blocks, count, source.view(-1), result.view(-1), *keep)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # The same function again, so that it can be differentiated as often as anybody wants.
        return cast(Tensor, _Dropout.apply(gradient, ctx.keep)), None  # type: ignore[no-untyped-call]
