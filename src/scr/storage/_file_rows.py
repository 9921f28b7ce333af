"""Rows of arrays on disk, by plain reads instead of through their memory maps.

Pages of a memory map count as memory of the process once they were touched, and the kernel maps
neighbors of a touched page too: a large array read through its map soon takes as much memory as
there is. Plain reads go through buffers of a known size, and leave their pages to the page cache,
which makes room by itself. Arrays that are in memory are sliced, so callers need not know which
they have.

Rows at any positions are read in rising order, and each once. All ranges are announced first
(`posix_fadvise`) so that the disk works on many of them at a time; a gap that is smaller than
`SMALL_GAP` is read over. 12,000 rows of 1.8 kB out of 0.9 GB took 0.7 s through a memory map, 0.2 s
by reads and 0.03 s by announced reads where nothing was cached, about 0.02 s each where all was.
"""

from __future__ import annotations

import itertools
import mmap
import os
import weakref
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import map_in_order
from scr.errors import StoreError
from scr.storage._descriptors import (
    cached_share,
    open_descriptor,
    open_direct,
    read_at,
    read_cached,
)
from scr.storage._file_region import FileRegion, as_bytes, fill, region_of
from scr.storage._sequential_writer import DIRECT_BYTES, PAGE, page_buffer

READ_SPEED, WRITE_SPEED = 1.8e9, 0.4e9
"""Bytes per second from and to the disk of a rented machine; for estimates of time only."""
COPY_BYTES = 1 << 22
"""Of an array that is copied, at a time: 4 MiB."""
SMALL_GAP = 16 * 1024
"""Bytes between two rows that are read rather than skipped: about what one more request costs."""
LONGEST_READ = 8 * 1024 * 1024
"""Bytes of one request, so that reading over gaps takes little memory."""
CACHED_SHARE = 0.98
"""Of an array that is used from the page cache: what Linux has let go of since it was read is read
once more, by whoever comes to it first."""
PROBES, PROBE_BYTES = 16, 64
"""Samples of a file that are compared with its map, and bytes of each."""


class FileRows:
    """The rows of an array in a file, which stays open as long as this object lives."""

    def __init__(self, region: FileRegion, *, in_order: bool = False) -> None:
        """Open the file, whose rows are asked for `in_order` or anywhere."""
        self._region = region
        self._descriptor = open_descriptor(region.path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._direct: int | None = None
        if in_order and region.bytes >= DIRECT_BYTES and region.offset % region.dtype.itemsize == 0:
            self._direct = open_direct(region.path)
        if self._direct is not None:
            weakref.finalize(self, os.close, self._direct)
        if hasattr(os, "posix_fadvise"):
            # Otherwise what is wanted is announced; guesses of the kernel would only read more.
            advice = os.POSIX_FADV_SEQUENTIAL if in_order else os.POSIX_FADV_RANDOM
            os.posix_fadvise(self._descriptor, 0, 0, advice)

    @classmethod
    def behind(cls, array: NDArray[Any], *, in_order: bool = False) -> FileRows | None:
        """The file of an array that is a memory map, or a view of whole rows of one.

        None where there is no such file, or no longer: the array itself is as good then. If the
        name is that of another file now, a `StoreError` says so.
        """
        region = region_of(array) if array.size else None
        if region is None:
            return None
        try:
            file = cls(region, in_order=in_order)
        except OSError:
            return None
        file._check_same(array)
        return file

    def _check_same(self, array: NDArray[Any]) -> None:
        """Compare samples of the file with the map, which stays on a file that is replaced."""
        path, offset = self._region.path, self._region.offset
        if os.fstat(self._descriptor).st_size < offset + array.nbytes:
            return  # reading says how much is missing; the map may not be touched there
        held = as_bytes(array)
        last = len(held) - PROBE_BYTES
        for probe in range(PROBES):
            at = max(last * probe // (PROBES - 1), 0)
            sample = bytearray(min(PROBE_BYTES, len(held) - at))
            read_at(self._descriptor, memoryview(sample), offset + at)
            if sample != held[at : at + PROBE_BYTES]:
                raise StoreError(
                    f"`{path}` was replaced while it was in use; expected it to stay",
                    hint="give the same command again, which reads the new one",
                )

    @property
    def is_cached(self) -> bool:
        """Whether the page cache is known to hold all rows, or nearly all."""
        share = cached_share(self._descriptor, self._region.offset, self._region.bytes)
        return share is not None and share >= CACHED_SHARE

    def read(self, start: int, stop: int, buffer: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows `start` to `stop`, in the first rows of `buffer` if there is one."""
        region = self._region
        if buffer is None:
            buffer = np.empty((stop - start, *region.shape[1:]), region.dtype)
        rows = buffer[: stop - start]
        try:
            fill(self._descriptor, region.offset + start * region.row_bytes, rows)
        except EOFError as error:
            raise StoreError(
                f"`{region.path}` is truncated: {error}", hint="make it again from its source"
            ) from None
        except OSError as error:
            raise StoreError(f"`{region.path}` cannot be read: {error.strerror}") from None
        return rows

    def buffer(self, rows: int) -> NDArray[np.uint8]:
        """Memory for `stream` of at most so many rows."""
        return page_buffer(self.buffer_bytes(rows))

    def buffer_bytes(self, rows: int) -> int:
        """Size of such memory."""
        return rows * self._region.row_bytes + 2 * PAGE

    def stream(self, start: int, stop: int, buffer: NDArray[np.uint8]) -> NDArray[Any]:
        """Rows `start` to `stop`, in memory of `buffer`; of a large file, past the page cache.

        What passes by once would push out of the cache what is used again, and take processor time
        for copies: a file of 6 GB that was not cached took 4.2 s so, 13 s through the cache.
        """
        region = self._region
        first, size = region.offset + start * region.row_bytes, (stop - start) * region.row_bytes
        shift = first % PAGE
        rows = buffer[shift : shift + size].view(region.dtype)
        rows = rows.reshape(stop - start, *region.shape[1:])
        if (
            self._direct is None
            or size == 0
            or read_cached(self._descriptor, as_bytes(rows), first)
        ):
            return rows if self._direct is not None and size else self.read(start, stop, rows)
        pages, done = buffer[: -(-(shift + size) // PAGE) * PAGE].data, 0
        try:
            while done < shift + size:
                count = read_at(self._direct, pages[done:], first - shift + done)
                done += count
                if count == 0 or count % PAGE:
                    break
        except OSError:  # not on this disk after all
            done = 0
        return rows if done >= shift + size else self.read(start, stop, rows)

    def take(self, positions: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows in the order of `positions`, of which some may be equal."""
        rising, inverse = np.unique(positions, return_inverse=True)
        rows = self._take_rising(rising)
        if len(rising) == len(positions) and bool((inverse[1:] > inverse[:-1]).all()):
            return rows
        return np.asarray(rows[inverse])

    def _take_rising(self, rising: NDArray[np.integer[Any]]) -> NDArray[Any]:
        region = self._region
        rows = np.empty((len(rising), *region.shape[1:]), region.dtype)
        ranges = [
            (slice(start, stop), int(rising[start]), int(rising[stop - 1]) + 1)
            for start, stop in self._requests(rising)
        ]
        if hasattr(os, "posix_fadvise"):
            for _, first, last in ranges:
                offset, size = region.offset + first * region.row_bytes, last - first
                os.posix_fadvise(
                    self._descriptor, offset, size * region.row_bytes, os.POSIX_FADV_WILLNEED
                )
        for part, first, last in ranges:
            if last - first == part.stop - part.start:
                self.read(first, last, rows[part])
            else:
                rows[part] = self.read(first, last)[rising[part] - first]
        return rows

    def _requests(self, rising: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
        """Bounds of the parts of rising positions that are worth one request each."""
        if len(rising) == 0:
            return []
        row_bytes = max(self._region.row_bytes, 1)
        gaps = (np.diff(rising) - 1) * row_bytes > SMALL_GAP
        blocks = rising // max(LONGEST_READ // row_bytes, 1)
        cuts = np.flatnonzero(gaps | (blocks[1:] != blocks[:-1])) + 1
        return list(pairwise([0, *cuts.tolist(), len(rising)]))


def take_rows(array: NDArray[Any], positions: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Some rows of an array, which may be a memory map of more than memory holds."""
    file = FileRows.behind(array)
    return np.asarray(array[positions]) if file is None else file.take(positions)


def sample_rows(array: NDArray[Any], step: int) -> NDArray[Any]:
    """Every `step`-th row, as `array[::step]`."""
    file = FileRows.behind(array)
    return array[::step] if file is None else file.take(np.arange(0, len(array), step))


def in_memory(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it is in memory, else a copy that is."""
    file = FileRows.behind(array, in_order=True)
    if file is None:
        return array
    if file._direct is None:  # also of numbers that would lie between their places in the buffer
        return file.read(0, len(array))
    return file.stream(0, len(array), file.buffer(len(array)))


def from_cache(array: NDArray[Any]) -> NDArray[Any]:
    """A memory map as an array in memory, if the page cache holds it; otherwise as it is.

    Its pages stay mapped, and count as memory of the process, instead of being copied by each read:
    for what is gone through several times. Many missing pages would be read a few at a time, as
    threads come to them. A file that is cut short meanwhile ends the process, as it does with every
    map.
    """
    file = FileRows.behind(array)
    if file is None or not file.is_cached:
        return array
    return np.frombuffer(array.data.cast("B"), array.dtype).reshape(array.shape)


def row_chunks(array: NDArray[Any], size: int = COPY_BYTES) -> Iterator[NDArray[Any]]:
    """The rows of an array in pieces of about `size` bytes, each in a buffer of its own."""
    file = FileRows.behind(array, in_order=True)
    step = max(1, size // max(1, array[:1].nbytes))
    for start, stop in ranges(len(array), step):
        yield array[start:stop] if file is None else file.read(start, stop)


def ranges(count: int, step: int) -> list[tuple[int, int]]:
    """Bounds of the parts of so many rows, of `step` rows each but for the last."""
    return [(start, min(start + step, count)) for start in range(0, count, step)]


class ReadBuffers:
    """Memory that one `stream_rows` after another uses: new memory costs faults on every page.

    A stream that is left before its end is closed before the next one begins.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def in_turn(self, files: Sequence[FileRows | None], rows: int) -> list[list[Any]]:
        """Two buffers for so many rows of each file, by turn and file; none where there is none."""
        for key in itertools.product(range(2), range(len(files))):
            file = files[key[1]]
            if file is not None and len(self._held.get(key, b"")) < file.buffer_bytes(rows):
                self._held[key] = file.buffer(rows)
        return [[self._held.get((turn, at)) for at in range(len(files))] for turn in range(2)]


def stream_rows(
    arrays: Sequence[NDArray[Any]],
    parts: Sequence[tuple[int, int]],
    memory: ReadBuffers | None = None,
) -> Generator[tuple[NDArray[Any], ...]]:
    """The same ranges of rows of some arrays, one after the other, each read ahead by a thread.

    Two buffers per array on disk, of `memory` if given, take turns, so what is yielded is good
    until the next is asked for. Ranges of arrays in memory are views.
    """
    files = [FileRows.behind(array, in_order=True) for array in arrays]
    longest = max((stop - start for start, stop in parts), default=0)
    buffers = (memory or ReadBuffers()).in_turn(files, longest)

    def read(number: int) -> tuple[NDArray[Any], ...]:
        start, stop = parts[number]
        return tuple(
            array[start:stop]
            if file is None or buffer is None
            else file.stream(start, stop, buffer)
            for array, file, buffer in zip(arrays, files, buffers[number % 2], strict=True)
        )

    if not any(files):
        yield from map(read, range(len(parts)))
    else:
        yield from map_in_order(read, range(len(parts)), threads=1, ahead=2)


def release(array: NDArray[Any] | None) -> None:
    """Give the pages of a memory map back; they are read again when they are needed."""
    base: Any = array
    mode = None
    while isinstance(base, np.ndarray):
        mode = base.mode if isinstance(base, np.memmap) else mode
        base = base.base
    # What was written into a private map (mode `c`) would be lost.
    if mode == "r" and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
