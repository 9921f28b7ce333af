"""Files read and written at offsets, also on systems that have no call for it.

Linux has `preadv` and `pwrite`, macOS not in every version, Windows not at all. Where one is
missing, the position of the file is moved and moved back under a lock.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAGE = mmap.PAGESIZE
_seeking = threading.Lock()


def open_descriptor(path: Path, flags: int) -> int:
    """Open a file for bytes, which processes that are started do not inherit."""
    kind = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags | kind, 0o644)


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fill a buffer from an offset on, perhaps in part; returns how many bytes were read."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    with _position(descriptor, offset):
        data = os.read(descriptor, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def open_direct(path: Path, flags: int = os.O_RDONLY) -> int | None:
    """Open a file past the page cache; none where the system or the disk has no such."""
    try:
        return open_descriptor(path, flags | os.O_DIRECT)
    except (AttributeError, OSError):
        return None


def read_cached(descriptor: int, buffer: memoryview, offset: int) -> bool:
    """Fill a buffer if the page cache holds all that it takes; otherwise it may hold anything.

    The cache is asked first. A read that does not wait would tell as well, but has Linux read ahead
    what is missing: where that is set to megabytes, all was read twice, and took new memory.
    """
    if is_cached(descriptor, offset, len(buffer)) is False:
        return False
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) == len(buffer)
    except (AttributeError, OSError):
        return False


class _Range(ctypes.Structure):
    """`struct cachestat_range` of Linux."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


_CACHESTAT = 451
"""Number of the system call `cachestat`, in Linux from 6.5 on."""


@functools.cache
def _system() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def is_cached(descriptor: int, offset: int, size: int) -> bool | None:
    """Whether the page cache holds a part of a file; none where the system does not say."""
    share = cached_share(descriptor, offset, size)
    return None if share is None else share >= 1


def cached_share(descriptor: int, offset: int, size: int) -> float | None:
    """How much of a part of a file the page cache holds; none where the system does not say."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return None
    first, last = offset // _PAGE, -(-(offset + size) // _PAGE)
    if first == last:
        return 1.0
    asked = _Range(first * _PAGE, (last - first) * _PAGE)
    counts = (ctypes.c_uint64 * 5)()  # the first one is that of cached pages
    failed = _system().syscall(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(counts), 0)
    return None if failed else int(counts[0]) / (last - first)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write from an offset on, perhaps in part; returns how many bytes were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, offset)
    with _position(descriptor, offset):
        return os.write(descriptor, data)


@contextmanager
def _position(descriptor: int, offset: int) -> Iterator[None]:
    with _seeking:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, offset, os.SEEK_SET)
        try:
            yield
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)
