"""Put the parts of all blocks and hops together, so that all hops of a row lie side by side.

The result is written from its end, a slab of rows at a time, and the parts are cut shorter behind
it: the disk never holds more than one copy and a slab. After each slab the journal says how far it
went, so a killed assembly resumes. A part whose checksum is wrong is found here at the latest.
"""

from __future__ import annotations

import math
import os
import queue
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty, run_on_threads
from scr.propagation._steps import unit_rows
from scr.propagation.disk._pieces import STATE, DamagedPieceError, Pieces, stream_checked
from scr.propagation.disk._plan import DiskPlan, DiskRequest
from scr.storage import (
    PAGE,
    FileRegion,
    SequentialWriter,
    as_bytes,
    chunk_digest,
    npy_header,
    open_descriptor,
    page_buffer,
    ranges,
    whole_chunks,
    write_all,
)

_READ_BYTES = 1 << 22
_READERS = 2
"""Threads that read parts: one waits for the disk while the other one copies."""
_WRITERS = 3
"""Threads behind them: one writes a slab, two hash it."""


@dataclass(frozen=True)
class Layout:
    """How a result is cut into parts."""

    shape: tuple[int, int, int]
    """(rows, matrices, columns) of the result."""
    dtype: np.dtype[Any]
    blocks: list[slice]
    has_all_rows: bool
    """Whether parts hold all rows of a hop, so that later hops can be computed from them."""

    @classmethod
    def of(cls, request: DiskRequest, plan: DiskPlan) -> Layout:
        """How a plan cuts what is requested."""
        blocks = [slice(*part) for part in ranges(request.columns, max(plan.block_columns, 1))]
        shape = (plan.rows, request.matrices, request.columns)
        return cls(shape, np.dtype(request.config.dtype), blocks, request.picked is None)

    @property
    def bytes(self) -> int:
        """Bytes of the result, without the header of its file."""
        return math.prod(self.shape) * self.dtype.itemsize

    def part(self, block: int, place: int) -> str:
        """Name of the part of one block of columns and one hop."""
        return f"part-{block}-{place}"

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
    unit: bool,
    threads: int | None,
    on_rows: Callable[[int, int], None],
) -> dict[int, str]:
    """Write a `.npy` from finished parts, or resume it; `unit` gives all rows of hops length 1.

    While one slab is written and hashed, the next one is read. Returns the checksums of the chunks
    of the result that lay in one slab, by their number, so that they need not be read again.

    Raises:
        DamagedPieceError: A part is not what was written; what was assembled stays.
    """
    rows, matrices, columns = layout.shape
    # Before the file is made: a record of a result that is gone would count again with a new one.
    left = work.assembled
    descriptor, begin = _open(file, layout)
    row_bytes, slab_rows = matrices * columns * layout.dtype.itemsize, work.slab_rows
    buffers = [
        aligned_empty((min(slab_rows, rows), matrices, columns), layout.dtype) for _ in range(2)
    ]
    digests: dict[int, str] = {}
    pending: list[tuple[int, Future[int], dict[int, Future[str]]]] = []

    def write(chunk: NDArray[Any], start: int) -> int:
        writer = SequentialWriter(file, descriptor, begin + start * row_bytes, layout.bytes)
        with closing(writer):
            writer.write(as_bytes(chunk))
            writer.sync()
        return zlib.crc32(as_bytes(chunk))

    def settle() -> None:
        """Wait for the slab that is being written, then let go of its parts."""
        while pending:
            start, written, hashed = pending.pop()
            digests.update((number, digest.result()) for number, digest in hashed.items())
            work.record_assembled(start, written.result())
            for block in range(len(layout.blocks)):
                for place in range(matrices):
                    os.truncate(
                        work.file(layout.part(block, place)), start * layout.row_bytes(block)
                    )
            on_rows(rows - start, rows)

    try:
        if left is None:
            left = rows
            work.record_assembled(left)
        with ThreadPoolExecutor(_WRITERS) as behind:
            for slab in reversed(range(-(-left // slab_rows))):
                start, stop = slab * slab_rows, min((slab + 1) * slab_rows, rows)
                chunk = buffers[slab % 2][: stop - start]
                try:
                    _fill(chunk, work, layout, slab)
                except DamagedPieceError as damaged:
                    settle()
                    work.remove(damaged.name)
                    raise
                if unit:
                    for place in range(matrices):
                        unit_rows(chunk[:, place], threads=threads)
                settle()
                written = behind.submit(write, chunk, start)
                whole = whole_chunks(as_bytes(chunk), start * row_bytes, layout.bytes)
                hashed = {number: behind.submit(chunk_digest, data) for number, data in whole}
                pending.append((start, written, hashed))
            settle()
    finally:
        os.close(descriptor)
    return digests


def _fill(chunk: NDArray[Any], work: Pieces, layout: Layout, slab: int) -> None:
    """Read one slab of all parts, each to its place in the rows."""
    rows, matrices, _ = layout.shape
    start, blocks = slab * work.slab_rows, range(len(layout.blocks))
    parts = [
        (block, place, work.part_crc32(layout.part(block, place), slab))
        for block in blocks
        for place in range(matrices)
    ]
    free: queue.SimpleQueue[NDArray[np.uint8]] = queue.SimpleQueue()
    for _ in parts[:_READERS]:
        free.put(page_buffer(len(chunk) * max(map(layout.row_bytes, blocks)) + 2 * PAGE))

    def read(part: tuple[int, int, int | None]) -> None:
        block, place, crc32 = part
        name, columns, buffer = layout.part(block, place), layout.blocks[block], free.get()
        shape = (rows, columns.stop - columns.start)
        piece = FileRegion(work.file(name), 0, shape, layout.dtype)
        try:
            found = stream_checked(piece, (start, start + len(chunk)), crc32, buffer)
            if found is None:
                raise DamagedPieceError(name)
            chunk[:, place, columns] = found
        finally:
            free.put(buffer)

    run_on_threads(read, parts, _READERS)


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
    slab_rows = work.slab_rows
    with file.open("rb") as stream:
        for row in range(work.assembled or 0, layout.shape[0], slab_rows):
            crc32, left = 0, min(slab_rows, layout.shape[0] - row) * row_bytes
            stream.seek(begin + row * row_bytes)
            while left and (data := stream.read(min(left, _READ_BYTES))):
                crc32, left = zlib.crc32(data, crc32), left - len(data)
            if left or crc32 != work.slab_crc32(row):
                return False
    return True
