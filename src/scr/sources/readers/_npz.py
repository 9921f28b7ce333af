"""Read `.npz` files array by array, those that are larger than memory as memory maps.

An array that was stored as it is (`np.savez`) is mapped where it lies in the archive. A compressed
one (`np.savez_compressed`) is unpacked once, as a stream, to a `.npy` file in a folder beside the
archive, under a name with its checksum, and mapped from there from then on. Pickles are never
mapped; those that are read go through the restricted unpickler.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._pickles import read_pickle
from scr.sources.readers._raw import as_array, csr_from_parts, unexpected_array
from scr.storage import (
    DAMAGE,
    array_bytes,
    array_members,
    atomic_file,
    check_budget,
    check_data_bytes,
    check_room,
    disk_errors,
    load_errors,
    map_array,
    open_archive,
    open_plain,
    plain_header,
    read_npy_header,
    read_values,
)

SMALL_BYTES = 1 << 26
"""Arrays up to this size are read rather than mapped: 64 MiB."""
LARGE_PACKED_BYTES = 1 << 30
"""Compressed arrays of bundles up to this size are read into memory: 1 GiB."""
_LOCAL_HEADER_BYTES = 30
"""Of a zip member, before its name and extra field, whose lengths are the last four bytes."""
_COPY_BYTES = 1 << 22


class NpzFile(Mapping[str, Any]):
    """The arrays of an ``.npz`` by name, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with load_errors(path, "an .npz file", SourceError), open_plain(path) as file:
            self._members = array_members(open_archive(file))

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def __getitem__(self, key: str) -> Any:
        check_budget(f"Reading {self.name_of(key)}", self._members[key].file_size, None)
        with self._open(key) as file:
            shape, is_fortran, dtype = read_npy_header(file)
            if dtype.hasobject:
                return read_pickle(file, what=self.name_of(key))
            size = self._members[key].file_size
            check_data_bytes(file.tell(), array_bytes(shape, dtype), size)
            return read_values(file, shape, dtype, is_fortran=is_fortran)

    def opened(self, key: str) -> Any:
        """An array as a memory map if it is large, read otherwise.

        A compressed one has to be unpacked beside the archive, and therefore counts as large later.
        """
        member = self._members[key]
        is_packed = member.compress_type != zipfile.ZIP_STORED
        is_large = member.file_size > (LARGE_PACKED_BYTES if is_packed else SMALL_BYTES)
        return self.mapped(key) if is_large else self[key]

    def mapped(self, key: str) -> NDArray[Any]:
        """An array of plain numbers as a memory map; read if it is compressed and small."""
        if key not in self:
            names = ", ".join(list(self)[:8])
            raise SourceError(f"`{self.path}` has no array `{key}`; its arrays are {names}")
        member = self._members[key]
        with self._open(key) as file:
            shape, is_fortran, dtype = plain_header(file)
            begin = file.tell()
            check_data_bytes(begin, array_bytes(shape, dtype), member.file_size)
            if member.compress_type == zipfile.ZIP_STORED and member.file_size > begin:
                order = "F" if is_fortran else "C"
                offset = _data_offset(self.path, member) + begin
                return np.memmap(self.path, dtype, "r", offset, shape, order)  # type: ignore[call-overload, no-any-return]
            if member.file_size <= SMALL_BYTES:
                return read_values(file, shape, dtype, is_fortran=is_fortran)
            file.seek(0)
            folder = self.path.with_name(f"{self.path.stem}-unpacked")
            unpacked = folder / f"{key}-{member.CRC:08x}.npy"
            if not unpacked.exists():
                _unpack(file, member, unpacked)
            return map_array(unpacked, what=f"what `{self.path}` has packed", error=SourceError)

    def name_of(self, key: str) -> str:
        """What to call an array in messages."""
        return f"`{key}` in `{self.path}`"

    def number(self, key: str, default: int) -> int:
        """A flag or count stored as an array of one element."""
        if key not in self:
            return default
        values = as_array(self[key], self.name_of(key)).ravel()
        if values.size != 1 or values.dtype.kind not in "iub":
            raise unexpected_array(self.name_of(key), values, "one whole number")
        return int(values[0])

    def matrix(self, prefix: str, separator: str = "_") -> scipy.sparse.csr_array | None:
        """The sparse matrix stored in parts ``prefix_data``, ``prefix_indices`` and so on."""
        parts = ("data", "indices", "indptr", "shape")
        keys = {part: f"{prefix}{separator}{part}" for part in parts}
        if keys["data"] not in self:
            return None
        missing = [key for key in keys.values() if key not in self]
        if missing:
            raise SourceError(f"`{self.path}` has `{keys['data']}` but no `{missing[0]}`")
        arrays = {part: self[key] for part, key in keys.items()}
        return csr_from_parts(arrays, what=self.name_of(prefix))

    @contextmanager
    def _open(self, key: str) -> Iterator[IO[bytes]]:
        """The bytes of an array; what is wrong with them is said in one sentence."""
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[key]) as file:
                yield file
        except DAMAGE as error:
            raise SourceError(f"{self.name_of(key)} is damaged: {error}") from None
        except OSError as error:
            reason = error.strerror or error
            raise SourceError(f"{self.name_of(key)} cannot be read: {reason}") from None


def _data_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin in the archive."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
    name_bytes = int.from_bytes(header[26:28], "little")
    extra_bytes = int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes


def _unpack(packed: IO[bytes], member: zipfile.ZipInfo, file: Path) -> None:
    """Stream a member to a file, whole or not at all; the archive's checksum is checked."""
    with disk_errors(file):
        file.parent.mkdir(exist_ok=True)
        hint = "free some space, or move the folder to a larger disk"
        check_room(file.parent, member.file_size, f"`{member.filename}`", hint=hint)
        with atomic_file(file) as partial, partial.open("wb") as target:
            shutil.copyfileobj(packed, target, _COPY_BYTES)
