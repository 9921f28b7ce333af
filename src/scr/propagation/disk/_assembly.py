"""Put the parts of all blocks and hops together, so that all hops of a row lie side by side.

Where all rows of dense features are kept, hop 0 has no parts: it is read from the features again.
The result is written from its end, some slabs of rows at a time, and the parts are cut shorter
behind it: the disk never holds more than one copy and the slabs that are on their way. After them
the journal says how far it went, so a killed assembly resumes. A part whose checksum is wrong is
found here at the latest.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from scr.compute import run_with_buffers
from scr.errors import StoreError
from scr.propagation._steps import copy_rows, fill_block, unit_rows
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._pieces import STATE, DamagedPieceError, Pieces
from scr.propagation.disk._plan import BEHIND, DiskRequest
from scr.propagation.disk._row_ranges import Cuts
from scr.storage import (
    PAGE,
    BackwardChunks,
    FileRegion,
    FileRows,
    SequentialWriter,
    as_bytes,
    chunk_digest,
    npy_header,
    open_descriptor,
    page_buffer,
    ranges,
    write_all,
)

_READ_BYTES = 1 << 22
_READERS = 2
"""Threads that read parts: one waits for the disk while the other one copies."""
_HASHERS = 2
"""Threads that hash slabs; only one writes, since slabs that meet in a page must take turns."""


@dataclass(frozen=True)
class Layout:
    """How a result is cut into parts."""

    shape: tuple[int, int, int]
    """(rows, matrices, columns) of the result."""
    dtype: np.dtype[Any]
    blocks: list[slice]
    has_all_rows: bool
    """Whether parts hold all rows of a hop, so that later hops can be computed from them."""
    features: NDArray[Any] | None
    """Of which the rows are hop 0; none: it has parts as the other hops have."""
    cuts: Cuts
    """Ranges of rows that are files of their own."""

    @classmethod
    def of(cls, request: DiskRequest, plan: DiskPlan) -> Layout:
        """How a plan cuts what is requested."""
        blocks = [slice(*part) for part in ranges(request.columns, max(plan.block_columns, 1))]
        shape, dtype = (plan.rows, request.matrices, request.columns), request.config.dtype
        features = request.source if request.reads_features_again else None
        has_all, cuts = request.picked is None, request.cuts(plan.row_ranges)
        return cls(shape, np.dtype(dtype), blocks, has_all, features, cuts)

    @property
    def places(self) -> range:
        """Hops that have parts, by their places among the matrices of a row."""
        return range(0 if self.features is None else 1, self.shape[1])

    @property
    def bytes(self) -> int:
        """Bytes of the result, without the header of its file."""
        return math.prod(self.shape) * self.dtype.itemsize

    def part(self, block: int, place: int, number: int = 0) -> str:
        """Name of the part of one block of columns, one hop and one range of rows."""
        return f"part-{block}-{place}" + (f"-{number}" if len(self.cuts) > 1 else "")

    def state(self, block: int, place: int) -> str:
        """Name of the piece that holds all rows of a hop of a block."""
        return self.part(block, place) if self.has_all_rows else f"{STATE}{block}-{place}"

    def row_bytes(self, block: int) -> int:
        """Bytes of one row of a part."""
        columns = self.blocks[block]
        return int((columns.stop - columns.start) * self.dtype.itemsize)


def assemble(
    work: Pieces,
    layout: Layout,
    file: Path,
    *,
    slabs: int,
    unit: bool,
    threads: int | None,
    on_rows: Callable[[int, int], None],
) -> dict[int, str]:
    """Write a `.npy` from finished parts, or resume it.

    While some slabs are written and hashed, the next ones are read.

    Args:
        slabs: How many are put together at once.
        unit: Give all rows of hops length 1.
        threads: For that, and for features.
        on_rows: Told how many rows there are by now, of how many.

    Returns:
        The checksums of chunks of the result that were at hand in one piece, by their number.

    Raises:
        DamagedPieceError: A part is not what was written; what was assembled stays.
    """
    rows, matrices, columns = layout.shape
    # Before the file is made: a record of a result that is gone would count again with a new one.
    left = work.assembled
    descriptor, begin = _open(file, layout)
    row_bytes, slab_rows = matrices * columns * layout.dtype.itemsize, work.slab_rows
    shape = (min(slabs * slab_rows, rows), matrices, columns)
    slab_bytes = math.prod(shape) * layout.dtype.itemsize
    buffers = deque(page_buffer(slab_bytes + PAGE) for _ in range(BEHIND + 1))
    part_bytes = min(slab_rows, rows) * max(map(layout.row_bytes, range(len(layout.blocks))))
    readers = [page_buffer(part_bytes + 2 * PAGE) for _ in range(_READERS)]
    chunks, digests = BackwardChunks(layout.bytes), dict[int, str]()
    pending: deque[_Written] = deque()

    def write(chunk: NDArray[Any], start: int) -> None:
        """Bring slabs to the disk."""
        writer = SequentialWriter(file, descriptor, begin + start * row_bytes, layout.bytes)
        with closing(writer):
            writer.write(as_bytes(chunk))
            writer.sync()

    def note(
        start: int,
        later: Future[None] | None,
        written: Future[None],
        known: Future[list[int]],
    ) -> None:
        """Note that slabs are on the disk, and let go of their parts.

        Not if those of `later` rows are not noted, without which these would count for nothing.
        """
        if later is not None:
            later.result()
        written.result()
        work.record_assembled(start, known.result())
        for number, (first, last) in enumerate(layout.cuts.ranges):
            left = min(max(start - first, 0), last - first)
            for block in range(len(layout.blocks)):
                for place in layout.places:
                    part = work.file(layout.part(block, place, number))
                    os.truncate(part, left * layout.row_bytes(block))

    def settle(most: int = 0) -> None:
        """Wait until so few slabs are being written or hashed."""
        while len(pending) > most:
            start, noted, hashed = pending.popleft()
            noted.result()
            digests.update((number, digest.result()) for number, digest in hashed.items())
            on_rows(rows - start, rows)

    try:
        if left is None:
            left = rows
            work.record_assembled(left)
        last = -(-left // slab_rows)
        with (
            ThreadPoolExecutor(1) as noting,
            ThreadPoolExecutor(1) as writing,
            ThreadPoolExecutor(_HASHERS) as hashing,
        ):
            while last > 0:
                first = max(last - slabs, 0)
                start, stop = first * slab_rows, min(last * slab_rows, rows)
                # Slabs are not written over before the chunk that ends in them is hashed.
                settle(BEHIND - 1)
                # At its place in a page, as in the file, it is written without another copy.
                shift = (begin + start * row_bytes) % PAGE
                chunk = buffers[0][shift : shift + (stop - start) * row_bytes].view(layout.dtype)
                chunk = chunk.reshape(stop - start, matrices, columns)
                try:
                    _fill(chunk, work, layout, range(first, last), readers, threads)
                except DamagedPieceError as damaged:
                    settle()
                    work.remove(damaged.name)
                    raise
                if unit:
                    for place in range(matrices):
                        unit_rows(chunk[:, place], threads=threads)
                written = writing.submit(write, chunk, start)
                known = hashing.submit(_slab_checksums, chunk, slab_rows)
                later = pending[-1].noted if pending else None
                noted = noting.submit(note, start, later, written, known)
                whole = chunks.whole(as_bytes(chunk), start * row_bytes)
                hashed = {number: hashing.submit(chunk_digest, *parts) for number, parts in whole}
                pending.append(_Written(start, noted, hashed))
                buffers.rotate()
                last = first
            settle()
    finally:
        os.close(descriptor)
    return digests


class _Written(NamedTuple):
    """Slabs on their way to the disk."""

    start: int
    """Their first row."""
    noted: Future[None]
    """Once they are on the disk and the journal says so."""
    digests: dict[int, Future[str]]


def _slab_checksums(rows: NDArray[Any], slab_rows: int) -> list[int]:
    """A checksum for each slab of rows, the first of which begins one."""
    return [
        xxhash.xxh3_64_intdigest(as_bytes(rows[slice(*part)]))
        for part in ranges(len(rows), slab_rows)
    ]


def _fill(
    chunk: NDArray[Any],
    work: Pieces,
    layout: Layout,
    slabs: range,
    buffers: list[NDArray[np.uint8]],
    threads: int | None,
) -> None:
    """Read some slabs of all parts, each to its place in the rows; a thread for each buffer.

    Features, if there are, are read beside them by so many `threads`.
    """
    begin, slab_rows = slabs.start * work.slab_rows, work.slab_rows
    parts = [
        (block, place, *part)
        for start, stop in ranges(len(chunk), slab_rows)
        for part in layout.cuts.between(begin + start, begin + stop)
        for block in range(len(layout.blocks))
        for place in layout.places
    ]

    def read(part: tuple[int, int, int, int, int], buffer: NDArray[np.uint8]) -> None:
        block, place, number, start, stop = part
        name, columns = layout.part(block, place, number), layout.blocks[block]
        first, last = layout.cuts.ranges[number]
        shape = (last - first, columns.stop - columns.start)
        piece = FileRegion(work.file(name), 0, shape, layout.dtype)
        inside = range((start - first) // slab_rows, -(-(stop - first) // slab_rows))
        try:
            found = FileRows(piece, in_order=True).stream(start - first, stop - first, buffer)
        except (FileNotFoundError, StoreError):
            raise DamagedPieceError(name) from None
        if _slab_checksums(found, slab_rows) != work.part_checksums(name, inside):
            raise DamagedPieceError(name)
        copy_rows(chunk[start - begin : stop - begin, place, columns], found, threads=1)

    with ThreadPoolExecutor(1) as thread:
        features = layout.features
        if features is not None:
            filled = thread.submit(
                fill_block, chunk[:, 0], features, slice(None), threads=threads, first=begin
            )
        run_with_buffers(read, parts, buffers)
        if features is not None:
            filled.result()


def _open(file: Path, layout: Layout) -> tuple[int, int]:
    """The result's file, of its full size but without data yet, and where its data begins."""
    file.parent.mkdir(exist_ok=True)
    header = npy_header(layout.shape, layout.dtype)
    descriptor = open_descriptor(file, os.O_RDWR | os.O_CREAT)
    write_all(descriptor, memoryview(header), 0)
    os.truncate(descriptor, len(header) + layout.bytes)
    return descriptor, len(header)


def result_is_there(work: Pieces, file: Path, layout: Layout) -> bool:
    """Whether an assembly that had begun left its file, with the rows that it has put there."""
    if not file.exists() or file.stat().st_size <= layout.bytes:
        return False
    begin = len(npy_header(layout.shape, layout.dtype))
    row_bytes = layout.bytes // max(layout.shape[0], 1)
    slab_rows, row = work.slab_rows, work.assembled or 0
    with file.open("rb") as stream:
        while row < layout.shape[0]:
            expected = work.assembled_checksums(row)
            if not expected:
                return False
            for known in expected:
                slab, left = xxhash.xxh3_64(), min(slab_rows, layout.shape[0] - row) * row_bytes
                stream.seek(begin + row * row_bytes)
                while left and (data := stream.read(min(left, _READ_BYTES))):
                    slab.update(data)
                    left -= len(data)
                if left or slab.intdigest() != known:
                    return False
                row += slab_rows
    return True
