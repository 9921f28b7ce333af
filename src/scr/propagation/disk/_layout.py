"""How a result is cut: into parts, of a block of columns and a hop each, and into chunks.

A part has a checksum for each slab of rows. A chunk of the result has one in its manifest, and is
written in whole pages of the file, so that those who write chunks beside each other never touch the
same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._pieces import STATE
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._row_ranges import Cuts
from scr.storage import CHUNK_BYTES, npy_header, ranges


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
    slab_rows: int
    """Rows under one checksum of a part."""

    @classmethod
    def of(cls, request: DiskRequest, plan: DiskPlan) -> Layout:
        """How a plan cuts what is requested."""
        blocks = [slice(*part) for part in ranges(request.columns, max(plan.block_columns, 1))]
        shape, dtype = (plan.rows, request.matrices, request.columns), request.config.dtype
        features = request.source if request.reads_features_again else None
        has_all, cuts = request.picked is None, request.cuts(plan.row_ranges)
        return cls(shape, np.dtype(dtype), blocks, has_all, features, cuts, plan.slab_rows)

    @property
    def places(self) -> range:
        """Hops that have parts, by their places among the matrices of a row."""
        return range(0 if self.features is None else 1, self.shape[1])

    @property
    def size(self) -> int:
        """Bytes of the result, without the header of its file."""
        return self.shape[0] * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the result."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def header(self) -> bytes:
        """What the file of the result begins with."""
        return npy_header(self.shape, self.dtype)

    @property
    def chunks(self) -> int:
        """Chunks of the result."""
        return -(-self.size // CHUNK_BYTES)

    def part(self, block: int, place: int, number: int = 0) -> str:
        """Name of the part of one block of columns, one hop and one range of rows."""
        return f"part-{block}-{place}" + (f"-{number}" if len(self.cuts) > 1 else "")

    def state(self, block: int, place: int) -> str:
        """Name of the piece that holds all rows of a hop of a block."""
        return self.part(block, place) if self.has_all_rows else f"{STATE}{block}-{place}"

    def part_bytes(self, block: int) -> int:
        """Bytes of one row of a part."""
        columns = self.blocks[block]
        return int((columns.stop - columns.start) * self.dtype.itemsize)

    def hashed(self, first: int, last: int) -> tuple[int, int]:
        """Bytes of the result that some chunks are, up to the `last` (exclusive)."""
        return first * CHUNK_BYTES, min(last * CHUNK_BYTES, self.size)

    def written(self, first: int, last: int, *, is_end: bool) -> tuple[int, int]:
        """Bytes that are written with them: in whole pages of the file, whose header is shorter.

        At the end of what is missing, all of them are.
        """
        start, stop = (max(edge * CHUNK_BYTES - len(self.header), 0) for edge in (first, last))
        return start, self.hashed(first, last)[1] if is_end else stop

    def rows(self, first: int, last: int) -> tuple[int, int]:
        """Bounds of the rows that these bytes are of, in whole slabs."""
        start = self.written(first, last, is_end=False)[0] // self.row_bytes
        return start - start % self.slab_rows, self.rows_before(last)

    def reads(self, first: int, last: int) -> Iterator[tuple[str, range]]:
        """The parts that these rows are read from, each with the numbers of its slabs."""
        for number, start, stop in self.cuts.between(*self.rows(first, last)):
            begin = self.cuts.ranges[number][0]
            slabs = range((start - begin) // self.slab_rows, -(-(stop - begin) // self.slab_rows))
            for block in range(len(self.blocks)):
                for place in self.places:
                    yield self.part(block, place, number), slabs

    def rows_before(self, chunk: int) -> int:
        """Rows of the slabs that hold the chunks before one."""
        stop, slab_bytes = self.hashed(0, chunk)[1], self.slab_rows * self.row_bytes
        return min(-(-stop // slab_bytes) * self.slab_rows, self.shape[0]) if stop else 0
