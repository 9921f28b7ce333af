"""Arrays that start on a cache line.

A vector load that straddles two cache lines costs two. NumPy's large arrays start 16 bytes into a
page, so every 64-byte load of an aligned-looking row would straddle: `aligned_empty` avoids it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

CACHE_LINE = 64


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialized array whose first element starts on a cache line."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(kind).reshape(shape)
