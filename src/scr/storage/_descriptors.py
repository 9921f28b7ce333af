"""Files read and written at offsets, also on systems that have no call for it.

Linux has `preadv` and `pwrite`, macOS not in every version, Windows not at all. Where one is
missing, the position of the file is moved and moved back under a lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Fill a buffer if the page cache holds all that it takes; otherwise it may hold anything."""
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) == len(buffer)
    except (AttributeError, OSError):
        return False


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
