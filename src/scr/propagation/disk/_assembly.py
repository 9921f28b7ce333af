"""Put the parts of all blocks and hops together, so that all hops of a row lie side by side.

The result is written from its end, a slab of rows at a time, and the parts are cut shorter behind
it: the disk never holds more than one copy and a slab. After each slab the journal says how far it
went, so a killed assembly resumes. A part whose checksum is wrong is found here at the latest.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scr.compute import aligned_empty
from scr.propagation._steps import unit_rows
from scr.propagation.disk._pieces import STATE, Pieces
from scr.propagation.disk._plan import DiskPlan, DiskRequest
from scr.storage import (
    SequentialWriter,
    as_bytes,
    npy_header,
    open_descriptor,
    ranges,
    write_all,
)

_READ_BYTES = 1 << 22


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
) -> None:
    """Write a `.npy` from finished parts, or resume it; `unit` gives all rows of hops length 1.

    Raises:
        DamagedPieceError: A part is not what was written; what was assembled stays.
    """
    rows, matrices, columns = layout.shape
    # Before the file is made: a record of a result that is gone would count again with a new one.
    left = work.assembled
    descriptor, begin = _open(file, layout)
    try:
        if left is None:
            left = rows
            work.record_assembled(left)
        slab_rows = work.slab_rows
        buffer = aligned_empty((min(slab_rows, rows), matrices, columns), layout.dtype)
        for slab in reversed(range(-(-left // slab_rows))):
            start, stop = slab * slab_rows, min((slab + 1) * slab_rows, rows)
            chunk = buffer[: stop - start]
            for block, part in enumerate(layout.blocks):
                piece = np.empty((stop - start, part.stop - part.start), layout.dtype)
                for place in range(matrices):
                    work.read_slab(layout.part(block, place), slab, piece)
                    chunk[:, place, part] = piece
            if unit:
                for place in range(matrices):
                    unit_rows(chunk[:, place], threads=threads)
            row_bytes = matrices * columns * layout.dtype.itemsize
            writer = SequentialWriter(file, descriptor, begin + start * row_bytes, layout.bytes)
            with closing(writer):
                writer.write(as_bytes(chunk))
                writer.sync()
            work.record_assembled(start, zlib.crc32(as_bytes(chunk)))
            for block in range(len(layout.blocks)):
                for place in range(matrices):
                    os.truncate(
                        work.file(layout.part(block, place)), start * layout.row_bytes(block)
                    )
            on_rows(rows - start, rows)
    finally:
        os.close(descriptor)


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
