"""Open arrays of an `.npz` that is larger than memory, as memory maps.

A member that was stored as it is (`np.savez`) is mapped where it lies in the archive. A compressed
one (`np.savez_compressed`) is unpacked once, as a stream, to a `.npy` file in a folder beside the
archive, under a name with the member's checksum, and mapped from there from then on. Small members
are simply read. Pickles are refused in every case.
"""

from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format as npy
from numpy.typing import NDArray

from scr.errors import SourceError, StoreError
from scr.storage import atomic_file, disk_errors

SMALL_BYTES = 1 << 26
"""Compressed members up to this size are read into memory: 64 MiB."""
_LOCAL_HEADER_BYTES = 30
"""Of a zip member, before its name and extra field, whose lengths are the last four bytes."""
_COPY_BYTES = 1 << 22


def open_member(path: Path, key: str, *, unpacked: Path | None = None) -> NDArray[Any]:
    """Open one array of an archive without reading the others.

    Args:
        path: The `.npz` file.
        key: The name of the array.
        unpacked: Folder for what has to be unpacked; none: `NAME-unpacked` beside the archive.

    Raises:
        SourceError: There is no such array, or it is damaged, or holds Python objects.
        StoreError: There is no room to unpack it.
    """
    what = f"`{key}` in `{path}`"
    try:
        with zipfile.ZipFile(path) as archive:
            if f"{key}.npy" not in archive.namelist():
                names = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:8])
                raise SourceError(f"`{path}` has no array `{key}`; its arrays are {names}")
            member = archive.getinfo(f"{key}.npy")
            with archive.open(member) as file:
                shape, is_fortran, dtype = _header(file, what)
                begin = file.tell()
            needed = begin + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if needed != member.file_size:
                raise SourceError(f"{what} is damaged: {member.file_size:,} of {needed:,} bytes")
            if member.compress_type == zipfile.ZIP_STORED and member.file_size > begin:
                order = "F" if is_fortran else "C"
                offset = _data_offset(path, member) + begin
                return np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload, no-any-return]
            if member.file_size <= SMALL_BYTES:
                with archive.open(member) as file:
                    return npy.read_array(file, allow_pickle=False)
            folder = unpacked or path.with_name(f"{path.stem}-unpacked")
            return _open_unpacked(archive, member, folder / f"{key}-{member.CRC:08x}.npy")
    except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise SourceError(f"{what} is damaged: {error}") from None
    except OSError as error:
        raise SourceError(f"{what} cannot be read: {error.strerror or error}") from None


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise SourceError(f"{what} holds Python objects, which are not read; expected numbers")
    return shape, is_fortran, dtype


def _data_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin in the archive."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
    name_bytes = int.from_bytes(header[26:28], "little")
    extra_bytes = int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes


def _open_unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: Path) -> NDArray[Any]:
    if not file.exists():
        _unpack(archive, member, file)
    return np.load(file, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: Path) -> None:
    """Stream a member to a file, whole or not at all; the archive's checksum is checked."""
    with disk_errors(file):
        file.parent.mkdir(exist_ok=True)
        free = shutil.disk_usage(file.parent).free
        if free < member.file_size:
            raise StoreError(
                f"`{member.filename}` takes {member.file_size:,} bytes unpacked; "
                f"{free:,} are free in `{file.parent}`",
                hint="free some space, or move the folder to a larger disk",
            )
        with (
            atomic_file(file) as partial,
            archive.open(member) as packed,
            partial.open("wb") as target,
        ):
            shutil.copyfileobj(packed, target, _COPY_BYTES)
