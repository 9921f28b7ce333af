"""How much memory there is, and how sizes of it are said and read.

A budget counts the whole process, interpreter and libraries included, as the operating system does.
"""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scr.compute._allocator import share_arena
from scr.compute._limits import ADDRESS_SPACE, ROOT, memory_limits, number_after
from scr.config import parse_bytes
from scr.errors import MemoryBudgetError

AUTO_SHARE = 0.8
"""Share of the available memory that `memory="auto"` takes: the rest is for the page cache."""
_FAILED_ALLOCATIONS = (
    "can't allocate memory", "out of memory", "std::bad_alloc", "can't start new thread",
    "failed to map segment", "excessive memory usage", "failed to launch worker thread",
)  # fmt: skip
"""Of messages that torch, C++, Python, Arrow and the loader of libraries have for memory that ran
out."""
LEAST_ADDRESS_SPACE = 3 * 2**29
"""For the command line: torch, Arrow and compiled loops map 1.2 GiB before anything is read."""
LEAST_MEMORY = 320 * 2**20
"""For the command line in a control group: torch and compiled loops take 250 MiB of their own; in
less, the system would end the process without a word."""
NAMED_SLACK = 16 * 2**20
"""Added to a budget that an error names: the process may be a little larger the next time."""
UNKNOWN_BYTES = 4 * 2**30
"""Taken to be free where the system does not say; `memory` can be given there."""


def available_bytes(root: Path = ROOT) -> int:
    """Memory that could be allocated now, within every limit of this process; never below 0."""
    return min([_machine_bytes(root), *(limit.free for limit in memory_limits(root))])


def _machine_bytes(root: Path) -> int:
    """Memory of the machine that is free or can be made so."""
    kilobytes = number_after(root / "proc/meminfo", "MemAvailable")
    return _physical_bytes() if kilobytes is None else kilobytes * 1024


def _physical_bytes() -> int:
    """Memory of the machine, used or not; `UNKNOWN_BYTES` where the system says nothing."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_BYTES


def resident_bytes() -> int:
    """Memory of this process now, libraries and touched pages of memory maps included."""
    kilobytes = number_after(ROOT / "proc/self/status", "VmRSS")
    return peak_bytes() if kilobytes is None else kilobytes * 1024


def peak_bytes() -> int:
    """Most memory that this process has had so far.

    `ru_maxrss` also counts what the parent had before this program was started, so the system's
    own note of the peak comes first. 0 where the system says nothing.
    """
    kilobytes = number_after(ROOT / "proc/self/status", "VmHWM")
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


def memory_budget(memory: str | int, root: Path = ROOT) -> int:
    """Bytes behind a setting such as ``4GiB``, a number, or ``auto``.

    A `MemoryBudgetError` names the limit if it is used up.
    """
    if memory != "auto":
        return parse_bytes(memory)
    budget = int(AUTO_SHARE * available_bytes(root))
    if budget > 0:
        return budget
    limit = min(memory_limits(root), key=lambda each: each.free, default=None)
    if limit is None or limit.free > 0:
        raise MemoryBudgetError("No memory is free on this machine", hint="stop other programs")
    raise MemoryBudgetError(
        f"No memory is left: all {readable_bytes(limit.bytes)} that {limit.name} allows are in use",
        hint="raise that limit, or stop other programs that count against it",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: NumPy's, Arrow's, torch's, a memory map, a thread's stack."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, MemoryBudgetError):
        return error.__cause__ is not None and is_out_of_memory(error.__cause__)
    is_of_arrow = type(error).__module__.startswith("pyarrow")
    is_of_libraries = is_of_arrow or isinstance(error, RuntimeError | OSError | ImportError)
    text = str(error).lower()
    return is_of_libraries and any(each in text for each in _FAILED_ALLOCATIONS)


@contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """Raise an allocation that fails while `what` is read as a `MemoryBudgetError` that says so."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryBudgetError) or not is_out_of_memory(error):
            raise
        # Frames hold what took the memory.
        raise out_of_memory(error, f" while {what} was read") from error.with_traceback(None)


def out_of_memory(error: BaseException, when: str = "", root: Path = ROOT) -> MemoryBudgetError:
    """The error as a sentence that says what was wanted, which limit is near, and what helps."""
    if isinstance(error, MemoryBudgetError):
        return error
    reason = str(error).strip().partition("\n")[0]
    reason = reason.rpartition("DefaultCPUAllocator: ")[2].rstrip(".")
    hint = (
        "stop other programs, or raise the limit; `scr ingest` and `scr propagate` work on disk "
        "within a budget (`--memory`), hops in float16 take half, and training takes less with "
        "smaller batches (`training.batch_size`)"
    )
    limit = min(memory_limits(root), key=lambda each: each.bytes, default=None)
    sentence = f"Memory ran out{when}{f': {reason}' if reason else ''}"
    if limit is not None and limit.bytes < _physical_bytes():
        sentence += f"; {limit.name} allows {readable_bytes(limit.bytes)}"
    return MemoryBudgetError(sentence, hint=hint)


def check_limits(root: Path = ROOT) -> None:
    """Refuse limits under which libraries fail to start threads, or the system ends the process.

    Under those on addresses that are accepted, threads share what the allocator reserves.
    """
    for limit in memory_limits(root):
        if limit.name == ADDRESS_SPACE:
            share_arena()
        if limit.name == ADDRESS_SPACE and limit.bytes < LEAST_ADDRESS_SPACE:
            raise MemoryBudgetError(
                f"{limit.name} allows {readable_bytes(limit.bytes)} of address space; the "
                f"libraries and their threads take {readable_bytes(LEAST_ADDRESS_SPACE)}",
                hint=f"raise it to `ulimit -v {2 * LEAST_ADDRESS_SPACE // 1024}` or more",
            )
        if limit.name != ADDRESS_SPACE and limit.bytes < LEAST_MEMORY:
            raise MemoryBudgetError(
                f"{limit.name} allows {readable_bytes(limit.bytes)} of memory; the libraries "
                f"and a small graph take {readable_bytes(LEAST_MEMORY)}",
                hint=f"allow `{readable_bytes(2 * LEAST_MEMORY)}` or more",
            )


def check_memory(what: str, needed: int, budget: int, *, hint: str, slack: int = 0) -> None:
    """Raise a `MemoryBudgetError` that begins with `what` if more is needed than there is.

    Where `needed` counts the process as it is now, a `slack` is added to what the error names.
    """
    if needed > budget:
        raise MemoryBudgetError(
            f"{what} {readable_bytes(needed + slack)}; the budget is {readable_bytes(budget)}",
            hint=hint,
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
