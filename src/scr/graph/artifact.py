"""Folders of arrays that are on disk whole or not at all.

An artifact is a folder with one `.npy` file per array and a `manifest.json` that names their shapes
and checksums. It is written beside its target under a hidden name: each file is allocated to its
full size before anything is written, since a full disk under a memory map is a signal and not an
exception; then files and folder are synced and the folder is renamed. A reader therefore never
sees half of one, and a failure leaves nothing.

    with ArtifactWriter("cora.store", kind="graph", schema=1) as writer:
        writer.create_array("labels", (nodes,), np.int64)[:] = labels     # a writable memory map
        writer.write_array("indices", indices)                            # or all at once
        writer.metadata["name"] = "cora"

    manifest = read_manifest("cora.store", kind="graph", schema=1)
    labels = open_array(manifest, "labels")                               # a read-only memory map
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr import __version__
from scr.errors import StoreError

MANIFEST = "manifest.json"
CHUNK_BYTES = 64 * 2**20
"""Bytes under one checksum: small enough to find damage, large enough to keep manifests short."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # fcntl.h: paths are relative to the working directory


@dataclass(frozen=True)
class ArrayEntry:
    """What the manifest says of one array."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Of the data, without the header of the file."""
    checksums: tuple[str, ...]
    """One per `CHUNK_BYTES` of the data."""


@dataclass(frozen=True)
class Manifest:
    """What an artifact holds."""

    path: Path
    kind: str
    schema: int
    created_by: str
    arrays: Mapping[str, ArrayEntry]
    metadata: dict[str, Any] = field(default_factory=dict)


class ArtifactWriter:
    """Writes one artifact; use it as a context manager. An exception inside leaves nothing."""

    def __init__(
        self, path: str | Path, *, kind: str, schema: int = 1, overwrite: bool = False
    ) -> None:
        """Plan an artifact.

        Args:
            path: The folder to make. Its parents are made as well.
            kind: What it holds, such as ``graph``; a reader asks for the same kind.
            schema: Version of the layout of this kind.
            overwrite: Replace an artifact that is there already, at once when all is written.
        """
        self.path = Path(path)
        self.metadata: dict[str, Any] = {}
        self._kind, self._schema, self._overwrite = kind, schema, overwrite
        self._folder = self.path.parent / f".{self.path.name}.partial-{secrets.token_hex(4)}"
        self._maps: dict[str, np.memmap[Any, Any]] = {}

    def __enter__(self) -> ArtifactWriter:
        self._check_target()
        try:
            self._folder.mkdir(parents=True)
        except OSError as error:
            raise _disk_error(error, self.path) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except OSError as problem:
            raise _disk_error(problem, self.path) from problem
        finally:
            self._maps.clear()
            shutil.rmtree(self._folder, ignore_errors=True)

    def create_array(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> np.memmap[Any, Any]:
        """Allocate an array on disk, filled with zeros, to be written through its memory map."""
        if not _NAME.fullmatch(name) or name in self._maps:
            raise ValueError(f"array name {name!r} is taken or not a plain file name")
        file, wanted = self._folder / f"{name}.npy", np.dtype(dtype)
        if wanted.hasobject:
            raise ValueError(f"array {name!r} holds Python objects, which are never stored")
        try:
            _allocate(file, shape, wanted)
            self._maps[name] = np.lib.format.open_memmap(file, mode="r+")
        except OSError as error:
            raise _disk_error(error, self.path) from error
        return self._maps[name]

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array that is at hand."""
        self.create_array(name, array.shape, array.dtype)[...] = array

    def _check_target(self) -> None:
        if not self.path.exists() or _is_empty_folder(self.path):
            return
        if not self._overwrite:
            raise StoreError(
                f"`{self.path}` exists already; expected a new folder",
                hint="choose another name, or overwrite it",
            )
        # Only what this module wrote may be replaced, never somebody's folder of photographs.
        read_manifest(self.path)

    def _finish(self) -> None:
        arrays = {}
        for name, array in self._maps.items():
            array.flush()
            arrays[name] = asdict(describe(array))
            _sync(self._folder / f"{name}.npy")
        manifest = {
            "format": "scr-artifact", "kind": self._kind, "schema": self._schema,
            "created_by": f"scr {__version__}", "chunk_bytes": CHUNK_BYTES,
            "arrays": arrays, "metadata": self.metadata,
        }  # fmt: skip
        file = self._folder / MANIFEST
        file.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
        _sync(file)
        _sync(self._folder)
        self._check_target()  # again: somebody may have been faster
        if self.path.exists() and not _is_empty_folder(self.path):
            _exchange(self._folder, self.path)
        else:
            self._folder.rename(self.path)
        _sync(self.path.parent)


def read_manifest(
    path: str | Path, kind: str | None = None, *, schema: int | None = None
) -> Manifest:
    """Read what an artifact holds, and check that it is of the kind and version asked for.

    Raises:
        StoreError: There is no artifact, or it is damaged, of another kind or of another version.
    """
    path = Path(path)
    try:
        raw = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if raw["format"] != "scr-artifact":
            raise ValueError("another format")
        arrays = {
            name: ArrayEntry(
                tuple(map(int, entry["shape"])), str(entry["dtype"]), int(entry["bytes"]),
                tuple(entry["checksums"]),
            )
            for name, entry in raw["arrays"].items()
            if _NAME.fullmatch(name)
        }  # fmt: skip
        manifest = Manifest(
            path, str(raw["kind"]), int(raw["schema"]), str(raw["created_by"]), arrays,
            dict(raw["metadata"]),
        )  # fmt: skip
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"There is no `{MANIFEST}` in `{path}`; expected a store") from None
    except (ValueError, KeyError, TypeError, AttributeError):
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


def open_array(manifest: Manifest, name: str) -> np.memmap[Any, Any]:
    """Open one array as a read-only memory map, after checking its size on disk.

    Raises:
        StoreError: The array is missing, truncated, or not what the manifest says.
    """
    file = manifest.path / f"{name}.npy"
    if name not in manifest.arrays:
        raise StoreError(f"`{manifest.path}` has no array `{name}`; it is damaged")
    entry = manifest.arrays[name]
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except FileNotFoundError:
        raise StoreError(f"`{file}` is missing; expected {entry.bytes:,} bytes") from None
    except (ValueError, OSError):
        # NumPy refuses to map beyond the end of the file, and headers that hold pickles.
        size = file.stat().st_size
        raise StoreError(
            f"`{file}` is truncated or damaged: {size:,} bytes are there, expected more than "
            f"{entry.bytes:,}",
            hint="make it again from its source",
        ) from None
    if array.shape != entry.shape or array.dtype.str != entry.dtype:
        raise StoreError(
            f"`{file}` holds {array.dtype} of shape {array.shape}; "
            f"expected {np.dtype(entry.dtype)} of shape {entry.shape}"
        )
    return array


def verify(path: str | Path) -> Manifest:
    """Read every byte of an artifact again and compare the checksums.

    Raises:
        StoreError: Names the first array and chunk that differ.
    """
    manifest = read_manifest(path)
    for name, entry in manifest.arrays.items():
        found = checksums(open_array(manifest, name))
        for chunk, (now, then) in enumerate(zip(found, entry.checksums, strict=False)):
            if now != then:
                raise StoreError(
                    f"`{manifest.path / name}.npy` has changed since it was written: chunk "
                    f"{chunk} of {len(found)} has the checksum {now}, expected {then}",
                    hint="make it again from its source",
                )
        if len(found) != len(entry.checksums):
            raise StoreError(f"`{manifest.path / MANIFEST}` lacks checksums of `{name}`")
    return manifest


def describe(array: NDArray[Any]) -> ArrayEntry:
    """What a manifest says of an array."""
    return ArrayEntry(array.shape, array.dtype.str, array.nbytes, tuple(checksums(array)))


def checksums(array: NDArray[Any]) -> list[str]:
    """Hash the data of an array, one digest for each `CHUNK_BYTES`."""
    return [hashlib.blake2b(chunk, digest_size=8).hexdigest() for chunk in _chunks(array)]


def _chunks(array: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, len(flat), CHUNK_BYTES):
        yield flat[start : start + CHUNK_BYTES]


def _allocate(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with file.open("wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header)
        begin = stream.tell()
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size == 0:
            return
        stream.flush()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, begin + size)
            return
        zeros = bytes(2**20)  # where the system cannot allocate, writing zeros does the same
        for start in range(0, size, len(zeros)):
            stream.write(zeros[: size - start])


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step where the system can; otherwise in two renames."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        source, target = os.fsencode(new), os.fsencode(old)
        if rename(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_EXCHANGE) == 0:
            return
    except AttributeError:
        pass
    aside = new.with_name(new.name + ".old")
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _disk_error(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(
            f"The disk is too full to write `{path}`; nothing was written",
            hint="free some space or write elsewhere",
        )
    return StoreError(f"`{path}` cannot be written: {error.strerror or error}")
