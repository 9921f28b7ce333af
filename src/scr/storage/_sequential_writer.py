"""Bytes that are written to a file in order; many of them go past the page cache.

A large file that goes through the cache is written to the disk by the kernel when it finds time,
and then waited for by a sync: 2 GB took 10 to 19 s so on a rented machine, and 2 to 3.5 s past the
cache. It also pushes out of the cache what is used again.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scr.storage._descriptors import open_direct, read_at, write_at

DIRECT_BYTES = 1 << 28
"""Size of a file from which on it is read and written past the page cache."""
PAGE = 4096
"""Offsets, sizes and addresses of such reads and writes are multiples of it."""
BUFFER_BYTES = 1 << 23
"""Bytes of one write past the cache; two such buffers take turns."""
WRITE_BYTES = 1 << 17
"""Most bytes of one write through the cache. Linux caches a longer one in larger pieces of memory,
the first that the host of a virtual machine takes back: 1 GiB took 2.7 s so, 0.3 s in short ones.
"""


def page_buffer(size: int) -> NDArray[np.uint8]:
    """Memory that begins with a page."""
    raw = np.empty(size + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


class SequentialWriter:
    """Writes bytes from an offset of a file on; `sync` brings them to the disk.

    The descriptor, for reading and writing, stays the caller's.
    """

    def __init__(self, path: Path, descriptor: int, offset: int = 0, expected: int = 0) -> None:
        """Begin at an offset; where few bytes are `expected`, none go past the cache until many
        have come.
        """
        self._path, self._descriptor = path, descriptor
        self._begin = self._offset = offset
        self._expected = expected
        self._direct: _DirectWriter | None = None
        self._may_be_direct = True

    def write(self, data: memoryview) -> None:
        """Write the next bytes, perhaps later; an `OSError` may be that of earlier ones."""
        if self._direct is None and self._may_be_direct and self._is_large:
            self._direct = _DirectWriter.open(self._path, self._descriptor, self._offset)
            self._may_be_direct = self._direct is not None
        if self._direct is not None:
            self._direct.write(data)
        else:
            write_all(self._descriptor, data, self._offset)
        self._offset += len(data)

    @property
    def _is_large(self) -> bool:
        return max(self._expected, self._offset - self._begin) >= DIRECT_BYTES

    def flush(self) -> None:
        """Hand all bytes to the system: other processes see them, a power failure loses some."""
        if self._direct is not None:
            self._direct.flush()

    def sync(self) -> None:
        """Bring all bytes to the disk."""
        self.flush()
        os.fsync(self._descriptor)

    def close(self) -> None:
        """End without waiting for bytes that were not brought to the disk."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
            self._may_be_direct = False


class _DirectWriter:
    """Collects bytes in a buffer of whole pages; a thread writes the one that is full."""

    def __init__(self, direct: int, descriptor: int, offset: int) -> None:
        self._file, self._descriptor = direct, descriptor
        self._buffers = [page_buffer(BUFFER_BYTES) for _ in range(2)]
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        # The page that the first byte lies in is written whole, with what it begins with.
        self._filled = offset % PAGE
        self._start = offset - self._filled
        self._buffers[0][: self._filled] = 0
        read_at(descriptor, self._buffers[0][: self._filled].data, self._start)

    @classmethod
    def open(cls, path: Path, descriptor: int, offset: int) -> _DirectWriter | None:
        """None where the system or the disk has no such writes."""
        direct = open_direct(path, os.O_WRONLY)
        if direct is None:
            return None
        try:
            return cls(direct, descriptor, offset)
        except BaseException:
            os.close(direct)
            raise

    def write(self, data: memoryview) -> None:
        rest = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        head = -self._filled % PAGE
        if len(rest) >= BUFFER_BYTES and (rest.ctypes.data + head) % PAGE == 0:
            rest = self._write_in_place(rest, head)
        while len(rest):
            part, rest = np.split(rest, [min(BUFFER_BYTES - self._filled, len(rest))])
            self._buffers[0][self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            if self._filled == BUFFER_BYTES:
                self._hand_over()

    def _write_in_place(self, data: NDArray[np.uint8], head: int) -> NDArray[np.uint8]:
        """Write bytes from where they lie, but for those before the first page and after the last.

        Returns the latter.
        """
        whole = (len(data) - head) // PAGE * PAGE
        first, pages, rest = np.split(data, [head, head + whole])
        self._buffers[0][self._filled : self._filled + head] = first
        self._wait()
        self._write_pages(self._buffers[0][: self._filled + head], self._start)
        self._start, self._filled = self._start + self._filled + head, 0
        self._write_pages(pages, self._start)
        self._start += whole
        return rest

    def _hand_over(self) -> None:
        """Let the thread write the full buffer, and take the other one."""
        self._wait()
        full = self._buffers[0]
        self._pending = self._thread.submit(self._write_pages, full, self._start)
        self._buffers.reverse()
        self._start, self._filled = self._start + BUFFER_BYTES, 0

    def flush(self) -> None:
        """Write all that was collected; the part of a last page is kept for what comes after it."""
        self._wait()
        buffer, whole = self._buffers[0], self._filled // PAGE * PAGE
        self._write_pages(buffer[:whole], self._start)
        rest = buffer[whole : self._filled].copy()
        write_all(self._descriptor, rest.data, self._start + whole)
        buffer[: len(rest)] = rest
        self._start, self._filled = self._start + whole, len(rest)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        os.close(self._file)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()  # an error is raised again by whatever comes next
            self._pending = None

    def _write_pages(self, pages: NDArray[np.uint8], offset: int) -> None:
        data, done = pages.data, 0
        try:
            while done < len(data):
                done += write_at(self._file, data[done:], offset + done)
                if done % PAGE:
                    break
        except OSError:  # not on this disk after all, or an error that comes again
            pass
        write_all(self._descriptor, data[done:], offset + done)


def write_all(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all bytes through the page cache, from an offset on."""
    while len(data):
        count = write_at(descriptor, data[:WRITE_BYTES], offset)
        data, offset = data[count:], offset + count
