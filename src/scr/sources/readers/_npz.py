"""Read `.npz` files array by array; object arrays go through the restricted unpickler."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format as npy
import scipy.sparse

from scr.errors import SourceError
from scr.sources.readers._npz_members import SMALL_BYTES, open_member
from scr.sources.readers._pickles import read_pickle
from scr.sources.readers._raw import csr_from_parts

LARGE_PACKED_BYTES = 1 << 30
"""Compressed arrays up to this size are read into memory: 1 GiB."""


class NpzFile(Mapping[str, Any]):
    """The arrays of an ``.npz`` by name, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith(".npy")]
        except (OSError, zipfile.BadZipFile) as error:
            raise SourceError(f"`{path}` cannot be read as an .npz file: {error}") from None
        self._names = {name.removesuffix(".npy"): name for name in names}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __getitem__(self, key: str) -> Any:
        name = self._names[key]
        what = f"`{key}` in `{self.path}`"
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                if not _has_objects(file):
                    file.seek(0)
                    return npy.read_array(file, allow_pickle=False)
                return read_pickle(file, what=what)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise SourceError(f"{what} is damaged: {error}") from None

    def opened(self, key: str) -> Any:
        """An array as a memory map if it is large, read otherwise.

        A compressed one has to be unpacked beside the archive, and therefore counts as large later.
        """
        with zipfile.ZipFile(self.path) as archive:
            member = archive.getinfo(self._names[key])
        is_packed = member.compress_type != zipfile.ZIP_STORED
        is_large = member.file_size > (LARGE_PACKED_BYTES if is_packed else SMALL_BYTES)
        return open_member(self.path, key) if is_large else self[key]

    def number(self, key: str, default: int) -> int:
        """A flag or count stored as an array of one element."""
        return int(np.asarray(self[key]).ravel()[0]) if key in self else default

    def matrix(self, prefix: str, separator: str = "_") -> scipy.sparse.csr_array | None:
        """The sparse matrix stored in parts ``prefix_data``, ``prefix_indices`` and so on."""
        keys = {
            part: f"{prefix}{separator}{part}" for part in ("data", "indices", "indptr", "shape")
        }
        if keys["data"] not in self:
            return None
        missing = [key for key in keys.values() if key not in self]
        if missing:
            raise SourceError(f"`{self.path}` has `{keys['data']}` but no `{missing[0]}`")
        parts = {part: self[key] for part, key in keys.items()}
        return csr_from_parts(parts, what=f"`{prefix}` in `{self.path}`")


def _has_objects(file: IO[bytes]) -> bool:
    """Read the header of a .npy file; leaves the file at the start of its data."""
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    _shape, _fortran, dtype = read_header(file)
    return bool(dtype.hasobject)
