"""How much memory there is, and arrays that start on a cache line.

A vector load that straddles two cache lines costs two. NumPy's large arrays start 16 bytes into a
page, so every 64-byte load of an aligned-looking row would straddle: `aligned_empty` avoids it.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr.config import parse_bytes

CACHE_LINE = 64
AUTO_SHARE = 0.8
"""Share of the available memory that `memory="auto"` takes: the rest is for the page cache."""


def available_bytes() -> int:
    """Memory that could be allocated now, within the limit of a container if there is one."""
    free = _number("/proc/meminfo", "MemAvailable:")
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    group = Path("/sys/fs/cgroup")
    # Cached files count as used by a container, but make room when it is needed.
    cached = _number(group / "memory.stat", "inactive_file") or 0
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no cgroup, or a limit of "max"
        return free * 1024
    return min(free * 1024, limit - used + cached)


def _number(file: str | Path, name: str) -> int | None:
    """The number after a name in a file of names and numbers, such as /proc/meminfo."""
    try:
        for line in Path(file).read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def memory_budget(memory: str | int) -> int:
    """Bytes behind a setting such as ``4GiB``, a number, or ``auto``."""
    if memory == "auto":
        return int(AUTO_SHARE * available_bytes())
    return parse_bytes(memory)


def readable_bytes(count: int) -> str:
    """A size that `parse_bytes` reads back as at least `count`.

    >>> readable_bytes(3 * 2**30)
    '3.00GiB'
    """
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**exponent:
            return f"{math.ceil(100 * count / 2**exponent) / 100:.2f}{unit}"
    return f"{count}B"


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialized array whose first element starts on a cache line."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(kind).reshape(shape)
