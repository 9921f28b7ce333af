"""Fresh memory for wide tensors, in large pages.

Every step of training asks the kernel for new memory, and it comes in pages of 4 KiB that each
cost a fault: ten times as long as filling them. NumPy asks for pages of 2 MiB (Linux, where the
system allows it), torch does not. So wide results are made by NumPy and shared with torch.
`keep_freed_memory` goes further for a process that trains: what one step frees, the next one uses.
"""

from __future__ import annotations

import ctypes
import sys

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


def keep_freed_memory() -> bool:
    """Let this process keep freed memory for itself; says whether the C library could be told so.

    For processes whose business is training: steps of the same size then cause no page faults at
    all. The peak stays what it was, but between steps the process does not shrink. Only GNU's
    library has the setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Large blocks come from the heap, and the heap is never cut back; see man 3 mallopt.
    return bool(library.mallopt(_MMAP_MAX, 0)) and bool(library.mallopt(_TRIM_THRESHOLD, -1))


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of mallopt's settings in <malloc.h>
