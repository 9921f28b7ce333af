"""Pieces of a long propagation: files of rows in a work folder, with checksums.

Each piece is written once. The journal of the work folder knows its size and a checksum for each
slab of rows, XXH3 of 64 bits, which is as fast as memory; what a piece holds is believed only after
they are compared.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.propagation._steps import copy_rows
from scr.storage import (
    SequentialWriter,
    WorkFolder,
    as_bytes,
    fill,
    open_descriptor,
    open_for_reading,
)

RESULT = "result"
"""Folder of the work folder that becomes the artifact."""
COPIED_BYTES = 2**19
"""Rows copied at once where they do not lie one after the other: as many as stay in the cache of a
core until they are hashed and written."""
STATE = "state-"
"""Begins the names of pieces with all rows of a hop of which the result has only some."""
_LAYOUT, _ASSEMBLED = "layout", "assembled from chunk "


class DamagedPieceError(Exception):
    """A piece is not what the journal says; it has been forgotten and must be made again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class PieceFiles(Protocol):
    """Where pieces are read and written, and who is told of them."""

    @property
    def slab_rows(self) -> int:
        """Rows under one checksum."""

    def file(self, name: str) -> Path:
        """Where a piece is written."""

    def names(self) -> list[str]:
        """Names of the pieces that may be removed."""

    def remove(self, name: str) -> None:
        """Forget a piece, then remove its file."""

    def record(self, name: str, size: int, checksums: list[int]) -> None:
        """Note a piece whose file is whole."""

    def read(self, name: str, out: NDArray[Any]) -> None:
        """Fill a matrix with all rows of a finished piece."""


class WrittenPiece(NamedTuple):
    """A piece that a worker has written, under a name that no other one uses."""

    name: str
    file: str
    """Its name in the work folder so far."""
    bytes: int
    checksums: list[int]


class Pieces(WorkFolder):
    """The pieces of one propagation, and how far their assembly is."""

    @property
    def layout(self) -> Mapping[str, Any]:
        """How the result is cut into pieces; empty before `begin`."""
        return self.finished(_LAYOUT) or {}

    @property
    def slab_rows(self) -> int:
        """Rows under one checksum."""
        return int(self.layout["slab_rows"])

    def has(self, name: str, at_least: int | None = None) -> bool:
        """Whether a piece is finished, with all its bytes or so many left in an assembly."""
        piece = self.finished(name)
        if piece is None:
            return False
        least = piece["bytes"] if at_least is None else at_least
        return bool(least <= self.file(name).stat().st_size <= piece["bytes"])

    def names(self) -> list[str]:
        """Names of the pieces that the journal knows."""
        return [name for name in self.parts() if not name.startswith((_LAYOUT, _ASSEMBLED))]

    def record(self, name: str, size: int, checksums: list[int]) -> None:
        """Note a piece whose file is whole."""
        self.finish(name, {"bytes": size, "checksums": checksums}, changing=[name])

    def adopt(self, piece: WrittenPiece) -> None:
        """Give a worker's piece its name, and note it.

        Raises:
            StoreError: The file is not here as it was written.
        """
        written = self.file(piece.file)
        size = written.stat().st_size if written.exists() else None
        if size != piece.bytes:
            there = "nothing" if size is None else f"{size:,} bytes"
            raise StoreError(
                f"A worker wrote {piece.bytes:,} bytes to `{written}`; there is {there}",
                hint="write the hops to a file system that all machines of the cluster share",
            )
        self.remove(piece.name)
        written.replace(self.file(piece.name))
        self.record(piece.name, piece.bytes, piece.checksums)

    def remove(self, name: str) -> None:
        """Forget a piece, then remove its file."""
        self.forget(name)
        self.file(name).unlink(missing_ok=True)

    def record_assembled(self, chunk: int, digests: list[str]) -> None:
        """Note that all chunks of the result from here on are on the disk.

        The digests are those of chunks that were not noted before.
        """
        self.finish(f"{_ASSEMBLED}{chunk}", digests, changing=[RESULT])

    @property
    def assembled(self) -> int | None:
        """First chunk that was noted to be in the result; none before assembly has begun."""
        return next(iter(self._assembled), None)

    @property
    def assembled_digests(self) -> list[str]:
        """Of all chunks that were noted."""
        found = (self.finished(f"{_ASSEMBLED}{chunk}") for chunk in self._assembled)
        return [digest for digests in found for digest in digests or ()]

    @property
    def _assembled(self) -> list[int]:
        names = (name for name in self.parts() if name.startswith(_ASSEMBLED))
        return sorted(int(name.removeprefix(_ASSEMBLED)) for name in names)

    def part_checksums(self, name: str, slabs: range) -> list[int] | None:
        """The checksums of some slabs of a piece; none if there is no such piece."""
        piece = self.finished(name)
        return None if piece is None else piece["checksums"][slabs.start : slabs.stop]

    def read(self, name: str, out: NDArray[Any]) -> None:
        """Fill a matrix with all rows of a piece; raise `DamagedPieceError` if it has changed."""
        rows, piece = self.slab_rows, self.finished(name)
        known = [] if piece is None else piece["checksums"]
        for slab, at in enumerate(range(0, len(out), rows)):
            if not known or not read_checked(self.file(name), at, known[slab], out[at : at + rows]):
                self.remove(name)
                raise DamagedPieceError(name)

    def begin(self, layout: Mapping[str, Any]) -> None:
        """Remove everything and begin with another layout."""
        if self.layout:
            self.restart()
        self.finish(_LAYOUT, dict(layout))


def read_checked(file: Path, row: int, checksum: int, out: NDArray[Any]) -> bool:
    """Fill an array with rows of a file; returns whether they have the checksum."""
    try:
        with open_for_reading(file) as descriptor:
            fill(descriptor, row * (out.nbytes // max(len(out), 1)), out)
    except (EOFError, FileNotFoundError):
        return False
    return slab_checksum(out) == checksum


def slab_checksum(rows: NDArray[Any]) -> int:
    """Of rows that lie one after the other."""
    return xxhash.xxh3_64_intdigest(as_bytes(rows))


class PieceWriter:
    """Writes the rows of one piece in their order; the journal knows it once this is left."""

    def __init__(self, pieces: PieceFiles, name: str, columns: int | None = None) -> None:
        """Begin a piece, of which rows have so many first columns of those that come; none: all."""
        self._columns = columns
        self._pieces, self._name, self._slab_rows = pieces, name, pieces.slab_rows
        pieces.remove(name)
        self._descriptor = open_descriptor(pieces.file(name), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._file = SequentialWriter(pieces.file(name), self._descriptor)
        self._slabs: list[xxhash.xxh3_64] = []
        self._rows = self._bytes = 0
        self._copy: NDArray[Any] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> PieceWriter:
        return self

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows, which are copied unless they lie one after the other."""
        rows = rows[:, : self._columns]
        most, is_copied = self._slab_rows, not rows.flags.c_contiguous
        if is_copied:
            most = max(COPIED_BYTES // rows.strides[0], 1)
        while len(rows):
            inside = self._rows % self._slab_rows
            part, rows = np.split(rows, [min(self._slab_rows - inside, most, len(rows))])
            data = as_bytes(self._copied(part) if is_copied else part)
            if inside == 0:
                self._slabs.append(xxhash.xxh3_64())
            self._slabs[-1].update(data)
            self._rows += len(part)
            self._bytes += len(data)
            self._file.write(data)

    def _copied(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows one after the other, in memory that the next ones are copied to as well."""
        if self._copy is None or self._copy.size < rows.size:
            self._copy = np.empty(rows.size, rows.dtype)
        copy = self._copy[: rows.size].reshape(rows.shape)
        copy_rows(copy, rows, threads=1)
        return copy

    def write_behind(self, rows: NDArray[Any]) -> None:
        """Let a thread append rows, which do not change before this is left."""
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()
        self._pending.append(self._thread.submit(self.write, rows))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                for pending in self._pending:
                    pending.result()
                # Nobody waits for the disk: whoever reads a piece checks it, and what a power
                # failure has lost is made again.
                self._file.flush()
        finally:
            self._thread.shutdown(cancel_futures=True)
            self._file.close()
            os.close(self._descriptor)  # of a file in a network, also says whether it is there
        if kind is None:
            checksums = [slab.intdigest() for slab in self._slabs]
            self._pieces.record(self._name, self._bytes, checksums)
