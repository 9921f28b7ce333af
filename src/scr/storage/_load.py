"""Read `.npy` and `.npz` files that somebody else may have made or damaged, each as one sentence.

Headers come first: what they declare must fit the size of the file, or of the entry of the archive,
and the memory there is, before anything is allocated. Pickles, archives whose entries overlap and
files that are no plain files (pipes, devices) are refused.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import (
    NAMED_SLACK,
    check_memory,
    is_out_of_memory,
    memory_errors,
    process_budget,
    resident_bytes,
)
from scr.errors import SCRError, StoreError
from scr.storage._file_region import as_bytes
from scr.storage._npy_header import array_bytes, read_npy_header
from scr.storage._plain_file import open_plain

FREE_BYTES = 1 << 20
"""Arrays up to this size are not counted against the memory."""
DEFLATE_RATIO = 1032
"""Most bytes that deflate makes of one (zlib's manual, "Maximum Compression Factor")."""
_READ_BYTES = 1 << 22
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
"""Halves of characters, which no text may hold."""
_LOCAL_HEADER_BYTES = 30
_IS_ENCRYPTED = 0x1

ErrorKind = type[SCRError]
_budget: ContextVar[int | None] = ContextVar("_budget", default=None)


@contextmanager
def reading_within(budget: int) -> Iterator[None]:
    """Whatever is read inside counts against this memory of the process, where no other is given.

    Readers of sources are many and deep; the budget of a command reaches them all by this.
    """
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def load_array(
    path: str | Path, *, what: str, budget: int | None = None, error: ErrorKind = StoreError
) -> NDArray[Any]:
    """Read a `.npy` file into memory, in the byte order of this machine.

    Args:
        path: The file.
        what: What it should hold, for messages, such as `the labels`.
        budget: The most memory of this process, with what it holds already; none: that of
            `reading_within`, else what is free.
        error: What is raised for a file that is missing, damaged or not what it should be.

    Raises:
        MemoryBudgetError: The array is larger than the budget.
    """
    path = Path(path)
    with load_errors(path, what, error), open_plain(path) as file:
        shape, is_fortran, dtype = plain_header(file)
        check_data_bytes(file.tell(), array_bytes(shape, dtype), os.fstat(file.fileno()).st_size)
        check_budget(f"Reading `{path}`", array_bytes(shape, dtype), budget)
        return read_values(file, shape, dtype, is_fortran=is_fortran)


def map_array(path: str | Path, *, what: str, error: ErrorKind = StoreError) -> NDArray[Any]:
    """A `.npy` file as a read-only memory map, after the same checks as `load_array`."""
    path = Path(path)
    with load_errors(path, what, error), open_plain(path) as file:
        shape, is_fortran, dtype = plain_header(file)
        begin, size = file.tell(), array_bytes(shape, dtype)
        check_data_bytes(begin, size, os.fstat(file.fileno()).st_size)
        if size == 0:  # nothing cannot be mapped
            return np.empty(shape, dtype)
        order: Any = "F" if is_fortran else "C"
        return np.memmap(path, dtype, "r", begin, shape, order)


def load_arrays(
    path: str | Path,
    *,
    what: str,
    names: Iterable[str] | None = None,
    budget: int | None = None,
    error: ErrorKind = StoreError,
) -> dict[str, NDArray[Any]]:
    """Read arrays of an `.npz` file, all or those named; see `load_array`."""
    path = Path(path)
    with load_errors(path, what, error), open_plain(path) as file:
        archive = open_archive(file)
        members = array_members(archive)
        wanted = list(members) if names is None else list(names)
        missing = [name for name in wanted if name not in members]
        if missing:
            raise ValueError(f"it has no array `{missing[0]}`")
        total = sum(members[name].file_size for name in wanted)
        check_budget(f"Reading `{path}`", total, budget)
        return {name: _load_member(archive, members[name], name) for name in wanted}


def array_names(path: str | Path, *, what: str, error: ErrorKind = StoreError) -> list[str]:
    """The names of the arrays of an `.npz` file, of which none is read."""
    path = Path(path)
    with load_errors(path, what, error), open_plain(path) as file:
        return list(array_members(open_archive(file)))


@contextmanager
def load_errors(path: Path, what: str, error: ErrorKind) -> Iterator[None]:
    """Say in one sentence what keeps a file from being read."""
    sentence = f"`{path}` cannot be read as {what}"
    try:
        with memory_errors(f"`{path}`"):
            yield
    except SCRError:
        raise
    except FileNotFoundError:
        raise error(f"`{path}` does not exist; expected {what}") from None
    except OSError as problem:
        raise error(f"{sentence}: {problem.strerror or problem}") from None
    except DAMAGE as problem:
        raise error(f"{sentence}: {str(problem) or type(problem).__name__}") from None


DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, RuntimeError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
"""What readers of zip archives raise on damaged bytes; new kinds of compression and encryption are
a `RuntimeError`."""


def plain_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """As `read_npy_header`; a `ValueError` for Python objects."""
    shape, is_fortran, dtype = read_npy_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    return shape, is_fortran, dtype


def check_data_bytes(begin: int, declared: int, size: int) -> None:
    """A `ValueError` if data do not end where the file does."""
    if begin + declared != size:
        raise ValueError(
            f"its header declares {declared:,} bytes of data, and {max(size - begin, 0):,} are "
            "there"
        )


def check_budget(what: str, needed: int, budget: int | None) -> None:
    """A `MemoryBudgetError` if so many bytes more do not fit the memory of this process."""
    if needed <= FREE_BYTES:
        return
    limit = _budget.get() if budget is None else budget
    limit = process_budget("auto") if limit is None else limit
    check_memory(
        f"{what} takes", resident_bytes() + needed, limit,
        hint="give more memory, if the file is what you think it is", slack=NAMED_SLACK,
    )  # fmt: skip


def read_values(
    file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], *, is_fortran: bool
) -> NDArray[Any]:
    """The data of an array, whose sizes are checked already, to the end of the file."""
    flat: NDArray[Any] = np.empty(array_bytes(shape, dtype), np.uint8)
    rest = as_bytes(flat)
    while rest:
        count = file.readinto(rest[:_READ_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{len(rest):,} bytes are missing")
        rest = rest[count:]
    if file.read(1):  # which also compares the checksum of an archive
        raise ValueError("it is longer than its header says")
    values = flat.view(dtype)
    if not dtype.isnative:
        values = values.byteswap(inplace=True).view(dtype.newbyteorder("="))
    check_values(values)
    return values.reshape(shape[::-1]).T if is_fortran else values.reshape(shape)


def check_values(values: NDArray[Any]) -> None:
    """A `ValueError` for bytes that are no truth values or no text."""
    if values.dtype.kind == "b" and (values.view(np.uint8) > 1).any():
        raise ValueError("it holds truth values other than 0 and 1")
    if values.dtype.kind == "U":
        characters = values.view(np.uint32)
        first, last = _SURROGATES
        is_half = (characters >= first) & (characters <= last)
        if (is_half | (characters > _LAST_CHARACTER)).any():
            raise ValueError("it holds text with characters that do not exist")


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip archive of plain entries; a `ValueError` where they overlap or lie about sizes."""
    archive = zipfile.ZipFile(file)
    end = 0
    for member in sorted(archive.infolist(), key=lambda each: each.header_offset):
        name = member.filename[:80]
        if member.header_offset < end:
            raise ValueError(f"its entry {name!r} overlaps another")
        end = member.header_offset + _LOCAL_HEADER_BYTES + member.compress_size
        if end > archive.start_dir:
            raise ValueError(f"its entry {name!r} is cut off")
        if member.flag_bits & _IS_ENCRYPTED:
            raise ValueError(f"its entry {name!r} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its entry {name!r} is compressed by neither of the usual methods")
        most = 1 if member.compress_type == zipfile.ZIP_STORED else DEFLATE_RATIO
        if member.file_size > most * member.compress_size:
            raise ValueError(f"its entry {name!r} declares more bytes than it can hold")
    return archive


def array_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Entries of an `.npz` by the names of their arrays; a `ValueError` if one is there twice."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        if not member.filename.endswith(".npy"):
            continue
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"it has the array `{name}` twice")
        members[name] = member
    return members


def _load_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    try:
        with archive.open(member) as file:
            shape, is_fortran, dtype = plain_header(file)
            check_data_bytes(file.tell(), array_bytes(shape, dtype), member.file_size)
            return read_values(file, shape, dtype, is_fortran=is_fortran)
    except DAMAGE as problem:
        if is_out_of_memory(problem):
            raise
        raise ValueError(f"its array `{name}`: {problem}") from None
