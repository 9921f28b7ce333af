"""Read rows of arrays on disk ahead of their use, by plain reads (`_file_region.py`).

A page of a memory map counts as memory of the process once it has been read, and a large array
read through its map takes as much memory as there is. Plain reads go through buffers of a known
size instead. Arrays that are in memory are sliced, so callers need not know which they have.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.storage._file_region import FileRegion, as_bytes, fill, region_of

READ_SPEED, WRITE_SPEED = 1.8e9, 0.4e9
"""Bytes per second from and to the disk of a rented machine; for estimates of time only."""

PROBES, PROBE_BYTES = 16, 64
"""Places of a file that are compared with its map, and bytes at each."""


def read_rows(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Rows of an array: a copy if it is on disk, a view if it is in memory."""
    with RowReader(array) as reader:
        return reader.read(start, stop, None)


def in_memory(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it is in memory, else a copy that is."""
    return read_rows(array, 0, len(array))


def sample_rows(array: NDArray[Any], step: int) -> NDArray[Any]:
    """Every `step`-th row, as `array[::step]`, each by a read of its own."""
    if step == 1 or region_of(array) is None:
        return read_rows(array, 0, len(array)) if step == 1 else array[::step]
    count = -(-len(array) // step)
    rows = np.empty((count, *array.shape[1:]), array.dtype)
    with RowReader(array) as reader:
        for place in range(count):
            reader.read(place * step, place * step + 1, rows[place : place + 1])
    return rows


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


class RowReader:
    """Reads rows of one array; use it as a context manager."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.region = region_of(array) if array.size else None
        self._descriptor = -1

    def __enter__(self) -> RowReader:
        if self.region is not None:
            self._descriptor = os.open(self.region.path, os.O_RDONLY)
            try:
                self._check_same(self.region)
            except BaseException:
                self.__exit__()
                raise
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_same(self, region: FileRegion) -> None:
        """Compare a few places of the file with the map, which stays on a file that is replaced.

        Raises:
            StoreError: The name is that of another file now.
        """
        if os.fstat(self._descriptor).st_size < region.offset + self.array.nbytes:
            return  # reading says how much is missing; the map may not be touched there
        held = as_bytes(self.array)
        last = len(held) - PROBE_BYTES
        for probe in range(PROBES):
            at = max(last * probe // (PROBES - 1), 0)
            found = os.pread(self._descriptor, PROBE_BYTES, region.offset + at)
            if found[: len(held) - at] != held[at : at + PROBE_BYTES]:
                raise StoreError(
                    f"`{region.path}` was replaced while it was in use; expected it to stay",
                    hint="give the same command again, which reads the new one",
                )

    def read(self, start: int, stop: int, buffer: NDArray[Any] | None) -> NDArray[Any]:
        """Rows `start` to `stop`, in the first rows of `buffer` if the array is on disk."""
        if self.region is None:
            return self.array[start:stop]
        if buffer is None:
            buffer = np.empty((stop - start, *self.array.shape[1:]), self.array.dtype)
        rows = buffer[: stop - start]
        where = self.region.offset + start * self.region.row_bytes
        read_exactly(self._descriptor, rows, where, self.region.path)
        return rows


def read_exactly(descriptor: int, out: NDArray[Any], offset: int, file: Path) -> None:
    """Fill a contiguous array from a place in a file.

    Raises:
        StoreError: The file ends too early.
    """
    try:
        fill(descriptor, offset, out)
    except EOFError as error:
        raise StoreError(
            f"`{file}` is truncated: {error}", hint="make it again from its source"
        ) from None


def stream_rows(
    arrays: Sequence[NDArray[Any]], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """The same ranges of rows of some arrays, one after the other, each read ahead by a thread.

    Two buffers per array on disk take turns, so what is yielded is good until the next is asked
    for. Ranges of arrays in memory are views.
    """
    longest = max((stop - start for start, stop in ranges), default=0)
    with ExitStack() as stack:
        readers = [stack.enter_context(RowReader(array)) for array in arrays]
        on_disk = any(reader.region is not None for reader in readers)
        turns = [
            [
                np.empty((longest, *reader.array.shape[1:]), reader.array.dtype)
                if reader.region is not None
                else None
                for reader in readers
            ]
            for _ in range(2)
        ]

        def read(number: int) -> tuple[NDArray[Any], ...]:
            start, stop = ranges[number]
            buffers = turns[number % 2]
            return tuple(
                reader.read(start, stop, buffer)
                for reader, buffer in zip(readers, buffers, strict=True)
            )

        if not on_disk:
            yield from (read(number) for number in range(len(ranges)))
            return
        pool = stack.enter_context(ThreadPoolExecutor(1))
        ahead = [pool.submit(read, number) for number in range(min(1, len(ranges)))]
        for number in range(len(ranges)):
            here = ahead.pop().result()
            if number + 1 < len(ranges):
                ahead.append(pool.submit(read, number + 1))
            yield here
