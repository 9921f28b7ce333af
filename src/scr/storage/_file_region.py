"""Arrays in files, read piece by piece with plain reads.

Every page of a memory map that was touched counts as memory of the process until the system takes
it back. Whatever has to stay within a budget reads regions of files into its own buffers instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.storage._descriptors import open_descriptor, read_at
from scr.storage._npy_header import read_npy_header
from scr.storage._plain_file import open_plain


@dataclass(frozen=True)
class FileRegion:
    """A C-ordered array that lies in a file from some byte on."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the whole array."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read some rows; `EOFError` if the file has become shorter."""
        rows = np.empty((stop - start, *self.shape[1:]), self.dtype)
        with open_for_reading(self.path) as descriptor:
            fill(descriptor, self.offset + start * self.row_bytes, rows)
        return rows


@contextmanager
def open_for_reading(path: Path) -> Iterator[int]:
    """A descriptor of a file, closed in the end."""
    descriptor = open_descriptor(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def fill(descriptor: int, offset: int, array: NDArray[Any]) -> None:
    """Fill a contiguous array from an offset of a file on; `EOFError` if that ends too early."""
    buffer = as_bytes(array)
    while buffer:
        count = read_at(descriptor, buffer, offset)
        if count == 0:
            raise EOFError(f"{len(buffer):,} bytes are missing")
        buffer, offset = buffer[count:], offset + count


def as_bytes(array: NDArray[Any]) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def npy_region(path: Path) -> FileRegion:
    """Where the data of a `.npy` file lie.

    A `ValueError` if it is not a plain one in C order, or shorter than its header says.
    """
    with open_plain(path) as file:
        shape, is_fortran, dtype = read_npy_header(file)
        region = FileRegion(path, file.tell(), shape, dtype)
        size = os.fstat(file.fileno()).st_size
    if dtype.hasobject or (is_fortran and len(shape) > 1):
        raise ValueError("the file holds Python objects, or columns instead of rows")
    if size < region.offset + region.bytes:
        raise ValueError(f"{size:,} bytes are there, expected {region.offset + region.bytes:,}")
    return region


def whole_file(array: NDArray[Any]) -> FileRegion | None:
    """The region of a memory map that is all of a plain `.npy` file; none: it is not."""
    region = region_of(array)
    try:
        return region if region is not None and region == npy_region(region.path) else None
    except (OSError, ValueError):
        return None


def region_of(array: NDArray[Any]) -> FileRegion | None:
    """The part of a file behind a memory map or a view of one; none: it is not one piece."""
    root: Any = array
    while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
        root = root.base
    filename = getattr(root, "filename", None)
    if not isinstance(root, np.memmap) or filename is None or not array.flags.c_contiguous:
        return None
    if root.mode == "c":  # what was written to such a map is in memory only
        return None
    begin = array.ctypes.data - root.ctypes.data
    return FileRegion(Path(filename), root.offset + begin, array.shape, array.dtype)
