"""Put stretches of a result together: read all parts of their rows, write these, hash both.

One thread writes some slabs while the next ones are read. It is done by this process, or by each
worker of a cluster.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import run_with_buffers
from scr.errors import StoreError
from scr.propagation._steps import copy_rows, fill, unit_rows
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._layout import Layout
from scr.propagation.disk._pieces import DamagedPieceError, slab_checksum
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._stretches import JoinedStretch, Stretch
from scr.storage import (
    FAST,
    PAGE,
    FileRegion,
    FileRows,
    RunningChecksums,
    SequentialWriter,
    as_bytes,
    open_descriptor,
    page_buffer,
    ranges,
)

READERS = 2
"""Threads that read parts: one waits for the disk while the other one copies."""
BUFFERS = 2
"""Of some slabs each: one is written while the next one is filled."""
OPEN_PARTS = 32
"""Those that were read last, with two descriptors each at most."""


class Joiner:
    """Puts stretches together, one after the other, with the same memory."""

    def __init__(self, request: DiskRequest, plan: DiskPlan, folder: Path, file: Path) -> None:
        """Begin, with the folder of the parts, and the result, which is there."""
        self._layout = layout = Layout.of(request, plan)
        self._folder, self._file = folder, file
        self._is_unit = request.config.hop_scale == "unit"
        self._threads = request.threads
        slab_rows = min(layout.slab_rows, layout.shape[0])
        self._rows = min(plan.slabs * slab_rows, layout.shape[0])
        """Rows that are read, then written at once."""
        self._features: FileRows | None = None
        widest = max(map(layout.part_bytes, range(len(layout.blocks))), default=0)
        read_bytes = slab_rows * widest + 2 * PAGE
        if layout.features is not None:
            self._features = FileRows.behind(layout.features, in_order=True)
            if self._features is not None:
                read_bytes = max(read_bytes, self._features.buffer_bytes(slab_rows))
        size = self._rows * layout.row_bytes + PAGE
        self._memory = [page_buffer(size) for _ in range(BUFFERS)]
        self._readers = [page_buffer(read_bytes) for _ in range(READERS)]
        self._parts: dict[str, FileRows] = {}
        self._writing = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()

    def join(self, stretch: Stretch) -> Future[list[str]]:
        """Read a stretch; the digests of its chunks come when it is on the disk.

        Raises:
            DamagedPieceError: A part is not what was written.
        """
        layout = self._layout
        writer = _StretchWriter(layout, self._file, stretch)
        try:
            first, last = layout.rows(stretch.first, stretch.last)
            for start in range(first, last, self._rows):
                rows = self._free(start, min(start + self._rows, last))
                self._fill(rows, start, stretch.checksums)
                written = self._writing.submit(writer.put, as_bytes(rows), start * layout.row_bytes)
                self._pending.append(written)
        except BaseException:
            self._writing.submit(writer.close).result()  # after what is being written
            self._pending.clear()  # errors of the stretch before are those of its future
            raise
        finally:
            self._parts.clear()
        return self._writing.submit(writer.finish)

    def join_all(
        self, stretches: Iterable[Stretch | None]
    ) -> Iterator[tuple[Stretch, JoinedStretch]]:
        """Each is read while the one before is still written."""
        before: tuple[Stretch, Future[list[str]]] | None = None
        for stretch in stretches:
            after, damaged = None, None
            if stretch is not None:
                try:
                    after = stretch, self.join(stretch)
                except DamagedPieceError as error:
                    damaged = stretch, JoinedStretch([], error.name)
            if before is not None:
                yield before[0], JoinedStretch(before[1].result())
            if damaged is not None:
                yield damaged
            before = after
        if before is not None:
            yield before[0], JoinedStretch(before[1].result())

    def close(self) -> None:
        """Wait for what is being written, and end."""
        self._writing.shutdown()

    def _free(self, start: int, stop: int) -> NDArray[Any]:
        """Memory for some rows that nothing is written from any more.

        It begins at their place in a page of the file, so they are written without another copy.
        """
        while len(self._pending) >= BUFFERS:
            self._pending.popleft().result()
        self._memory.reverse()
        layout = self._layout
        shift = (len(layout.header) + start * layout.row_bytes) % PAGE
        memory = self._memory[0][shift : shift + (stop - start) * layout.row_bytes]
        return memory.view(layout.dtype).reshape(stop - start, *layout.shape[1:])

    def _fill(
        self, rows: NDArray[Any], start: int, checksums: Mapping[tuple[str, int], int]
    ) -> None:
        """Read some slabs of all parts, each to its place in the rows; a thread for each buffer."""
        layout = self._layout

        def read(slab: tuple[int, int, int, int | None], buffer: NDArray[np.uint8]) -> None:
            number, first, last, block = slab
            here = rows[first - start : last - start]
            if block is None:
                fill(here[:, 0], self._features_of(first, last, buffer), threads=1)
                return
            for place in layout.places:
                name, begin = layout.part(block, place, number), layout.cuts.ranges[number][0]
                try:
                    part = self._part(name, block, number)
                    found = part.stream(first - begin, last - begin, buffer)
                except FileNotFoundError:
                    raise DamagedPieceError(name) from None
                except StoreError as error:
                    if not isinstance(error.__context__, EOFError):
                        raise  # the part may be whole, on a disk that does not answer
                    raise DamagedPieceError(name) from None
                if slab_checksum(found) != checksums[name, (first - begin) // layout.slab_rows]:
                    raise DamagedPieceError(name)
                copy_rows(here[:, place, layout.blocks[block]], found, threads=1)

        blocks = [None] * (layout.features is not None) + [*range(len(layout.blocks))]
        slabs = [
            (*part, block)
            for first, last in ranges(len(rows), layout.slab_rows)
            for part in layout.cuts.between(start + first, start + last)
            for block in blocks
        ]
        run_with_buffers(read, slabs, self._readers)
        if self._is_unit:
            for place in range(layout.shape[1]):
                unit_rows(rows[:, place], threads=self._threads)

    def _features_of(self, first: int, last: int, buffer: NDArray[np.uint8]) -> NDArray[Any]:
        if self._features is not None:
            return self._features.stream(first, last, buffer)
        assert self._layout.features is not None
        return self._layout.features[first:last]

    def _part(self, name: str, block: int, number: int) -> FileRows:
        """A part, which may stay open for the next slab."""
        part = self._parts.pop(name, None)
        if part is None:
            first, last = self._layout.cuts.ranges[number]
            columns = self._layout.blocks[block]
            shape = last - first, columns.stop - columns.start
            piece = FileRegion(self._folder / name, 0, shape, self._layout.dtype)
            part = FileRows(piece, in_order=True)
        self._parts[name] = part
        if len(self._parts) > OPEN_PARTS:
            self._parts.pop(next(iter(self._parts)), None)
        return part


class _StretchWriter:
    """Hashes the bytes of a stretch and brings them to the disk; used by one thread."""

    def __init__(self, layout: Layout, file: Path, stretch: Stretch) -> None:
        self._hashed = layout.hashed(stretch.first, stretch.last)
        self._written = layout.written(stretch.first, stretch.last, is_end=stretch.is_end)
        self._digests = RunningChecksums(like=FAST)
        self._descriptor = open_descriptor(file, os.O_RDWR)
        begin = len(layout.header) + self._written[0]
        self._writer = SequentialWriter(file, self._descriptor, begin, layout.size)
        self._error: BaseException | None = None

    def put(self, data: memoryview, offset: int) -> None:
        """Add the bytes of some rows from an offset of the result on."""
        try:
            self._digests.update(_inside(data, offset, *self._hashed))
            self._writer.write(_inside(data, offset, *self._written))
        except BaseException as error:
            self._error = error
            raise

    def finish(self) -> list[str]:
        """The digests of the chunks, which are on the disk by then."""
        try:
            if self._error is not None:
                raise self._error
            self._writer.sync()
        finally:
            self.close()
        return self._digests.digests()

    def close(self) -> None:
        """End without waiting for the disk."""
        try:
            self._writer.close()
        finally:
            os.close(self._descriptor)


def _inside(data: memoryview, offset: int, start: int, stop: int) -> memoryview:
    """Of bytes from an offset on, those between two bounds."""
    return data[max(start - offset, 0) : max(stop - offset, 0)]
