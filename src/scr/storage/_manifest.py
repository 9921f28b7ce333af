"""Read what `_artifact.py` wrote: the manifest of a folder, and its arrays as memory maps.

Sizes are checked whenever an array is opened, checksums on first use (`_verified.py`). Nothing that
is read can name code to run: arrays that hold pickles are refused. An array may be linked: the
manifest then names a `.npy` file elsewhere, which is read only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import DTypeLike, NDArray

from scr.compute import is_out_of_memory, memory_errors
from scr.errors import StoreError
from scr.storage._file_region import FileRegion, as_bytes, npy_region
from scr.storage._file_rows import ranges, stream_rows
from scr.storage._plain_file import read_plain

MANIFEST = "manifest.json"
CHUNK_BYTES = 64 * 2**20
"""Bytes under one checksum: small enough to find damage, large enough to keep manifests short."""
_READ_BYTES = 1 << 22
FAST = ("0" * 32,)
"""A checksum by XXH3 of 128 bits, an order of magnitude faster than BLAKE2b of 64 bits, for what is
computed: hops are written as fast as the disk takes them. Those of graphs are BLAKE2b for good,
since names of runs and of hops follow from them."""
_LONGEST_REASON = 120

ARRAY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Plain file names only, so that a manifest cannot point outside its folder."""


@dataclass(frozen=True)
class ArrayEntry:
    """What the manifest says of one array."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Of the data, without the header of the file."""
    checksums: tuple[str, ...]
    """One per `CHUNK_BYTES` of the data."""
    file: str | None = None
    """The `.npy` file of a linked array, by its whole path; none: it lies in the artifact."""
    offset: int | None = None
    """Where the data begin in a linked file."""

    @property
    def chunks(self) -> int:
        """How many have a checksum each."""
        return -(-self.bytes // CHUNK_BYTES)

    def as_json(self) -> dict[str, Any]:
        """The entry as a manifest has it."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> ArrayEntry:
        """The entry that `as_json` describes."""
        link = (str(entry["file"]), int(entry["offset"])) if "file" in entry else (None, None)
        shape, dtype = tuple(map(int, entry["shape"])), str(entry["dtype"])
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if min(shape, default=0) < 0 or int(entry["bytes"]) != size or size > sys.maxsize:
            raise ValueError("a size that no array has")
        return cls(shape, dtype, size, tuple(map(str, entry["checksums"])), *link)


@dataclass(frozen=True)
class Manifest:
    """What an artifact holds."""

    path: Path
    kind: str
    schema: int
    created_by: str
    arrays: Mapping[str, ArrayEntry]
    metadata: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    """Hash of the file."""


def read_manifest(
    path: str | Path,
    kind: str | None = None,
    *,
    schema: int | None = None,
    content: bytes | None = None,
) -> Manifest:
    """Read what an artifact holds; `content` is that of its manifest, if it is at hand.

    A `StoreError` if there is none, or it is damaged, of another kind or of another version.
    """
    path = Path(path)
    try:
        content = read_plain(path / MANIFEST) if content is None else content
        raw = json.loads(content.decode("utf-8"))
        if raw["format"] != "scr-artifact":
            raise ValueError("another format")
        arrays = {
            name: ArrayEntry.from_json(entry)
            for name, entry in raw["arrays"].items()
            if ARRAY_NAME.fullmatch(name)
        }
        names = sorted(raw["arrays"])
        if raw.get("array_names", names) != names:  # older ones have none
            raise ValueError("other arrays than were written")
        digest = metadata_checksum(raw["metadata"])
        if raw.get("metadata_checksum", digest) != digest:  # older ones have none
            raise ValueError("other metadata than were written")
        manifest = Manifest(
            path, str(raw["kind"]), int(raw["schema"]), str(raw["created_by"]), arrays,
            dict(raw["metadata"]), hashlib.blake2b(content, digest_size=16).hexdigest(),
        )  # fmt: skip
    except (FileNotFoundError, NotADirectoryError):
        if not path.exists():
            raise StoreError(f"`{path}` does not exist; expected a store") from None
        raise StoreError(f"There is no `{MANIFEST}` in `{path}`; expected a store") from None
    except OSError as error:
        raise unreadable(path / MANIFEST, error) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
            SyntaxError):  # fmt: skip
        raise StoreError(f"`{path / MANIFEST}` is not a manifest of scr, or is damaged") from None
    if kind is not None and manifest.kind != kind:
        raise StoreError(f"`{path}` holds `{manifest.kind}`; expected `{kind}`")
    if schema is not None and manifest.schema != schema:
        raise StoreError(
            f"`{path}` has version {manifest.schema} of the layout of `{manifest.kind}`, written "
            f"by {manifest.created_by}; expected version {schema}",
            hint="make it again from its source",
        )
    return manifest


def unreadable(file: Path, error: OSError) -> StoreError:
    """What the system says of a file that cannot be read, such as that permission is missing."""
    return StoreError(f"`{file}` cannot be read: {error.strerror or error}")


def metadata_checksum(metadata: Mapping[str, Any]) -> str:
    """Hash the metadata of a manifest, whatever the order of their keys."""
    content = json.dumps(metadata, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def array_file(manifest: Manifest, name: str) -> Path:
    """The file of one array: in the artifact's folder, or elsewhere if it is linked."""
    linked = manifest.arrays[name].file if name in manifest.arrays else None
    return manifest.path / f"{name}.npy" if linked is None else Path(linked)


def open_array(manifest: Manifest, name: str) -> np.memmap[Any, Any]:
    """Open one array as a read-only memory map, after checking its size on disk.

    A `StoreError` if it is missing, truncated, or not what the manifest says.
    """
    file = array_file(manifest, name)
    if name not in manifest.arrays:
        raise StoreError(f"`{manifest.path}` has no array `{name}`; it is damaged")
    entry = manifest.arrays[name]
    if entry.file is not None:
        _check_link(manifest, name)
    with memory_errors(f"`{file}`"):
        region = _region(file, entry)
        return np.memmap(file, region.dtype, "r", region.offset, region.shape)


def _region(file: Path, entry: ArrayEntry) -> FileRegion:
    """Where the data of one array are; a `StoreError` if the file is not what the manifest says."""
    try:
        region = npy_region(file)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"`{file}` is missing; expected {entry.bytes:,} bytes") from None
    except OSError as error:
        if is_out_of_memory(error):
            raise
        raise unreadable(file, error) from None
    except ValueError as error:
        raise StoreError(
            f"`{file}` is truncated or damaged: {_reason(error)}",
            hint="make it again from its source",
        ) from None
    if region.shape != entry.shape or region.dtype != np.dtype(entry.dtype):
        raise StoreError(
            f"`{file}` holds {region.dtype} of shape {region.shape}; "
            f"expected {np.dtype(entry.dtype)} of shape {entry.shape}"
        )
    return region


def _check_link(manifest: Manifest, name: str) -> None:
    """Refuse a linked file that is not the plain `.npy` that was linked."""
    entry, file = manifest.arrays[name], array_file(manifest, name)
    linked = f"`{file}`, to which `{name}` of `{manifest.path}` is linked,"
    hint = "put the file back, or make the store again from its source"
    if not file.is_absolute() or os.path.normpath(file) != entry.file or "\0" in entry.file:
        raise StoreError(f"{linked} is not a whole path; expected one as `--link` writes it")
    if not file.exists():
        raise StoreError(f"{linked} is missing; expected {entry.bytes:,} bytes", hint=hint)
    try:
        offset = npy_region(file).offset
    except OSError as error:
        raise unreadable(file, error) from None
    except ValueError as error:
        raise StoreError(f"{linked} is truncated or damaged: {_reason(error)}", hint=hint) from None
    if offset != entry.offset:
        raise StoreError(
            f"{linked} has changed since it was linked: its data begin at byte {offset}, "
            f"expected {entry.offset}",
            hint=hint,
        )


def _reason(error: Exception) -> str:
    """What is wrong with a `.npy` file, in a line."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST_REASON]


def describe(array: NDArray[Any]) -> ArrayEntry:
    """What a manifest says of an array."""
    return ArrayEntry(array.shape, array.dtype.str, array.nbytes, tuple(checksums(array)))


def chunk_hash(like: str = "") -> Any:
    """A running checksum of a chunk, of the kind of another one: BLAKE2b, or that of `FAST`."""
    return xxhash.xxh3_128() if len(like) == len(FAST[0]) else hashlib.blake2b(digest_size=8)


def checksums(
    array: NDArray[Any], dtype: DTypeLike | None = None, *, like: Iterable[str] = ()
) -> list[str]:
    """Hash the data of an array, one digest for each `CHUNK_BYTES`.

    With a `dtype`, it is hashed as if it were of this type, without a copy of the whole. Digests
    are of the kind of others, `like`.
    """
    wanted = array.dtype if dtype is None else np.dtype(dtype)
    flat, step = np.ascontiguousarray(array).reshape(-1), max(_READ_BYTES // wanted.itemsize, 1)
    running = RunningChecksums(like=like)
    # Values of a memory map are read by plain reads: touched pages would count as memory.
    for (values,) in stream_rows([flat], ranges(len(flat), step)):
        running.update(as_bytes(values.astype(wanted, copy=False)))
    return running.digests()


class RunningChecksums:
    """The same digests, of bytes that come in any pieces."""

    def __init__(self, finished: Iterable[str] = (), *, like: Iterable[str] = ()) -> None:
        """Begin, or continue after the chunks of which the digests are known.

        Checksums are of the kind of those that they will be compared with, `like`.
        """
        self.finished, self._like = list(finished), next(iter(like), "")
        """Digests of the chunks that are whole."""
        self.bytes = len(self.finished) * CHUNK_BYTES
        """Bytes seen so far."""
        self._current = chunk_hash(self._like)

    def update(self, data: memoryview) -> None:
        """Add some bytes."""
        while data:
            room = CHUNK_BYTES - self.bytes % CHUNK_BYTES
            piece, data = data[:room], data[room:]
            self._current.update(piece)
            self.bytes += len(piece)
            if self.bytes % CHUNK_BYTES == 0:
                self.finished.append(self._current.hexdigest())
                self._current = chunk_hash(self._like)

    def digests(self) -> list[str]:
        """Digests of all bytes so far."""
        is_between = self.bytes % CHUNK_BYTES == 0
        return [*self.finished] if is_between else [*self.finished, self._current.hexdigest()]
