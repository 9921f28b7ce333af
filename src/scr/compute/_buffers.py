"""Fresh memory for wide tensors, in large pages.

Every step of training asks the kernel for new memory, and it comes in pages of 4 KiB that each
cost a fault: ten times as long as filling them. NumPy asks for pages of 2 MiB (Linux, where the
system allows it), torch does not. So wide results are made by NumPy and shared with torch.
`keep_freed_memory` (`_allocator.py`) goes further for a process that trains: what one step frees,
the next one uses.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialized tensor with the precision and device of another."""
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.empty(shape, np.float32))
    return like.new_empty(shape)


def empty_like(other: Tensor) -> Tensor:
    """An uninitialized, contiguous tensor with the shape of another."""
    return empty(tuple(other.shape), other)
