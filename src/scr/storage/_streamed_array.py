"""One `.npy` file, written from its first row to its last with plain writes.

The file is allocated to its full size first, so that a full disk shows at once. Checksums are
computed as the bytes go by, so that nothing is read again, and nothing but the chunk that is being
written is in memory. Work that may be interrupted asks for a `checkpoint` now and then and resumes
from there.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.lib.format as npy
from numpy.typing import DTypeLike, NDArray

from scr.storage._atomic import disk_errors
from scr.storage._descriptors import open_descriptor, write_at
from scr.storage._file_region import fill
from scr.storage._file_rows import row_chunks
from scr.storage._manifest import ArrayEntry, RunningChecksums
from scr.storage._sequential_writer import SequentialWriter

_READ_BYTES = 1 << 22


class ChangedFileError(Exception):
    """A file is not what a checkpoint says of it, and must be made again."""


class StreamedArray:
    """A `.npy` file that grows row by row."""

    def __init__(
        self,
        file: Path,
        shape: tuple[int, ...],
        dtype: DTypeLike,
        *,
        target: Path,
        checkpoint: Mapping[str, Any] | None = None,
        reserve: bool = True,
        like: Iterable[str] = (),
    ) -> None:
        """Allocate the file, or resume after the rows that a `checkpoint` counts.

        `shape` has the rows in all, or at most (`trim`); `target` is what the user asked for, for
        messages. Rows that are resumed after are read once, and compared with their checksums.
        Without `reserve` the disk holds what was written only, where others make room meanwhile.
        Checksums will be compared with others, `like`.

        Raises:
            ChangedFileError: They are not those of the checkpoint.
        """
        self.file, self.shape, self.dtype = file, tuple(shape), np.dtype(dtype)
        self.rows = 0
        """Rows written so far."""
        self._target = target
        self._hash = RunningChecksums(like=like)
        with disk_errors(target):
            begin = len(npy_header(self.shape, self.dtype))
            if checkpoint is None and reserve:
                allocate(file, self.shape, self.dtype)
            elif checkpoint is None:
                file.write_bytes(npy_header(self.shape, self.dtype))
            self._descriptor = open_descriptor(file, os.O_RDWR)
            self._writer = self._writer_at(begin)
            if checkpoint is not None:
                try:
                    self._resume(begin, checkpoint)
                except BaseException:
                    self.close()
                    raise

    @property
    def _row_bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def _writer_at(self, offset: int) -> SequentialWriter:
        expected = self.shape[0] * self._row_bytes if self.shape else 0
        return SequentialWriter(self.file, self._descriptor, offset, expected)

    def _resume(self, begin: int, checkpoint: Mapping[str, Any]) -> None:
        self.rows = int(checkpoint["rows"])
        buffer, size = np.empty(_READ_BYTES, np.uint8), self.rows * self._row_bytes
        try:
            for at in range(0, size, _READ_BYTES):
                piece = buffer[: min(size - at, _READ_BYTES)]
                fill(self._descriptor, begin + at, piece)
                self._hash.update(piece.data)
        except EOFError:
            raise ChangedFileError(str(self.file)) from None
        if self._hash.digests() != list(checkpoint["checksums"]):
            raise ChangedFileError(str(self.file))
        write_at(self._descriptor, npy_header(self.shape, self.dtype), 0)
        os.ftruncate(self._descriptor, begin + self.shape[0] * self._row_bytes)
        self._writer = self._writer_at(begin + size)

    def write(self, chunk: NDArray[Any]) -> None:
        """Write the next rows, converted to the type of the array."""
        if chunk.shape[1:] != self.shape[1:] or self.rows + len(chunk) > self.shape[0]:
            raise ValueError(f"rows of shape {chunk.shape} do not fit the rest of {self.shape}")
        rest = np.ascontiguousarray(chunk, self.dtype).reshape(-1).view(np.uint8).data
        self._hash.update(rest)
        with disk_errors(self._target):
            self._writer.write(rest)
        self.rows += len(chunk)

    def checksums(self, start: int = 0) -> list[str]:
        """Of chunks that are whole, from one on; of the last one, too, once all rows are there."""
        is_whole = not self.shape or self.rows == self.shape[0]
        return (self._hash.digests() if is_whole else self._hash.finished)[start:]

    def checkpoint(self) -> dict[str, Any]:
        """Bring all rows to the disk; returns what it takes to resume from here."""
        with disk_errors(self._target):
            self._writer.sync()
        return {"rows": self.rows, "checksums": self._hash.digests()}

    def trim(self) -> None:
        """Say that no more rows come: the file shrinks to those that were written."""
        old = len(npy_header(self.shape, self.dtype))
        self.shape = (self.rows, *self.shape[1:])
        header = npy_header(self.shape, self.dtype)
        if len(header) != old:  # NumPy pads headers so that the number of rows may change
            raise AssertionError("the header of a .npy file has changed its length")
        with disk_errors(self._target):
            self._writer.sync()
            self._writer.close()  # what it has collected may hold the header as it was
            write_at(self._descriptor, header, 0)
            os.ftruncate(self._descriptor, old + self.rows * self._row_bytes)

    def finish(self) -> ArrayEntry:
        """Bring everything to the disk and close the file; returns what a manifest says of it."""
        if self.shape and self.rows != self.shape[0]:
            raise ValueError(f"`{self.file.name}` has {self.rows:,} rows of {self.shape[0]:,}")
        try:
            with disk_errors(self._target):
                self._writer.sync()
        finally:
            self.close()
        size = self.rows * self._row_bytes
        return ArrayEntry(self.shape, self.dtype.str, size, tuple(self._hash.digests()))

    def close(self) -> None:
        """Close the file, finished or not."""
        if self._descriptor >= 0:
            self._writer.close()
            os.close(self._descriptor)
            self._descriptor = -1


def write_npy(
    file: Path,
    array: NDArray[Any],
    dtype: DTypeLike | None = None,
    *,
    target: Path,
    like: Iterable[str] = (),
) -> ArrayEntry:
    """Write an array to a file, converted to another type piece by piece; see `StreamedArray`."""
    stream = StreamedArray(file, array.shape, dtype or array.dtype, target=target, like=like)
    with closing(stream):
        for rows in row_chunks(array):
            stream.write(rows)
        return stream.finish()


def allocate(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Make a `.npy` file of its full size, so that a full disk is an error and not a signal."""
    header = npy_header(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    with file.open("wb") as stream:
        stream.write(header)
        stream.flush()
        if size == 0:
            return
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, len(header) + size)
            return
        zeros = bytes(2**20)  # where the system cannot allocate, writing zeros does the same
        for start in range(0, size, len(zeros)):
            stream.write(zeros[: size - start])


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """What a `.npy` file of an array begins with."""
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    stream = io.BytesIO()
    npy.write_array_header_2_0(stream, header)
    return stream.getvalue()
