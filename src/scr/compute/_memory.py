"""How much memory there is, and how sizes of it are said and read.

A budget counts the whole process, interpreter and libraries included, as the operating system does.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from scr.config import parse_bytes
from scr.errors import MemoryBudgetError

AUTO_SHARE = 0.8
"""Share of the available memory that `memory="auto"` takes: the rest is for the page cache."""
UNKNOWN_BYTES = 4 * 2**30
"""Taken to be free where the system does not say; `memory` can be given there."""


def available_bytes() -> int:
    """Memory that could be allocated now, within the limit of a container if there is one."""
    free = _number("/proc/meminfo", "MemAvailable:")
    if free is None:
        free = _physical_bytes() // 1024
    group = Path("/sys/fs/cgroup")
    # Cached files count as used by a container, but make room when it is needed.
    cached = _number(group / "memory.stat", "inactive_file") or 0
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no cgroup, or a limit of "max"
        return free * 1024
    return min(free * 1024, limit - used + cached)


def _physical_bytes() -> int:
    """Memory of the machine, used or not; `UNKNOWN_BYTES` where the system says nothing."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_BYTES


def resident_bytes() -> int:
    """Memory of this process now, libraries and touched pages of memory maps included."""
    kilobytes = _number("/proc/self/status", "VmRSS:")
    return peak_bytes() if kilobytes is None else kilobytes * 1024


def peak_bytes() -> int:
    """Most memory that this process has had so far.

    `ru_maxrss` also counts what the parent had before this program was started, so the system's
    own note of the peak comes first. 0 where the system says nothing.
    """
    kilobytes = _number("/proc/self/status", "VmHWM:")
    if kilobytes is not None:
        return kilobytes * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def process_budget(memory: str | int) -> int:
    """As `memory_budget`, for the whole process: what it holds already counts."""
    if memory == "auto":
        return memory_budget(memory) + resident_bytes()
    return parse_bytes(memory)


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


def check_memory(what: str, needed: int, budget: int, *, hint: str) -> None:
    """Raise a `MemoryBudgetError` that begins with `what` if more is needed than there is."""
    if needed > budget:
        raise MemoryBudgetError(
            f"{what} {readable_bytes(needed)}; the budget is {readable_bytes(budget)}", hint=hint
        )


def readable_bytes(count: int) -> str:
    """A size that `parse_bytes` reads back as at least `count`.

    >>> readable_bytes(3 * 2**30)
    '3.00GiB'
    """
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**exponent:
            return f"{math.ceil(100 * count / 2**exponent) / 100:.2f}{unit}"
    return f"{count}B"
