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
import json
import os
import secrets
import shutil
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr import __version__
from scr.errors import StoreError
from scr.graph.manifest import (
    ARRAY_NAME,
    CHUNK_BYTES,
    MANIFEST,
    ArrayEntry,
    Manifest,
    checksums,
    describe,
    open_array,
    read_manifest,
    verify,
)

__all__ = [
    "CHUNK_BYTES",
    "MANIFEST",
    "ArrayEntry",
    "ArtifactWriter",
    "Manifest",
    "checksums",
    "open_array",
    "read_manifest",
    "verify",
]

_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # fcntl.h: paths are relative to the working directory


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
        if not ARRAY_NAME.fullmatch(name) or name in self._maps:
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

    def write_array(self, name: str, array: NDArray[Any], dtype: DTypeLike | None = None) -> None:
        """Write an array that is at hand; NumPy converts to another type piece by piece."""
        self.create_array(name, array.shape, dtype or array.dtype)[...] = array

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
