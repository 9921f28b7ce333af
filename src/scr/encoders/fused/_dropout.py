"""Dropout on all cores: the mask is drawn, scaled and applied in one pass over the numbers.

`torch.nn.functional.dropout` draws its mask on one core and stores it, which was a third of a
training step on a CPU. Here nothing is stored but a seed (see `_noise.py`). Other devices and
precisions, and tensors so small that torch is faster, use torch's own.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scr.compute import empty_like
from scr.encoders.fused._kernels import BLOCK, keep_blocks
from scr.encoders.fused._noise import Keep, draw_keep
from scr.encoders.fused._parallel import run_rows

TINY = 1 << 12
"""Numbers below which torch's own dropout is faster than the call of a compiled loop."""


def dropout(numbers: Tensor, chance: float, training: bool = True) -> Tensor:
    """Silence numbers at random and scale the others so that the mean stays.

    Args:
        numbers: Any shape.
        chance: To be dropped out, in [0, 1]; exact to 2^-32.
        training: Without it, the numbers come back as they are.
    """
    if not training or chance == 0:
        return numbers
    if not fits_kernels(numbers) or numbers.numel() < TINY or chance >= 1:
        return F.dropout(numbers, chance, training=True)
    return cast(Tensor, _Dropout.apply(numbers, draw_keep(chance, training)))  # type: ignore[no-untyped-call]


def fits_kernels(numbers: Tensor) -> bool:
    """Whether the compiled loops can work on a tensor: float32, in main memory."""
    return numbers.device.type == "cpu" and numbers.dtype == torch.float32


class Dropout(nn.Module):
    """`dropout` as a module, on in training mode."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, numbers: Tensor) -> Tensor:
        """Silence numbers at random."""
        return dropout(numbers, self.chance, self.training)

    def extra_repr(self) -> str:
        """Shown in the module's printout."""
        return f"chance={self.chance}"


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor, keep: Keep) -> Tensor:
        ctx.keep = keep
        return _apply_mask(numbers, keep)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # The same function again, so that it can be differentiated as often as anybody wants.
        return cast(Tensor, _Dropout.apply(gradient, ctx.keep)), None  # type: ignore[no-untyped-call]


def _apply_mask(numbers: Tensor, keep: Keep) -> Tensor:
    source = numbers.detach().contiguous()
    kept = empty_like(source)
    count = source.numel()
    blocks = -(-count // BLOCK)
    run_rows(keep_blocks, blocks, count, source.view(-1).numpy(), kept.view(-1).numpy(), *keep)
    return kept
