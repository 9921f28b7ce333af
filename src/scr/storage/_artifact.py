"""Folders of arrays that are on disk whole or not at all.

An artifact is a folder with one `.npy` file per array and a `manifest.json` that names their shapes
and checksums. It is written in a hidden folder beside its target: each file is allocated to its
full size before anything is written, since a full disk under a memory map is a signal and not an
exception; then files and folder are synced and the folder is renamed. A reader therefore never
sees half of one, and a failure leaves nothing.

    with ArtifactWriter("cora.store", kind="graph", schema=1) as writer:
        writer.create_array("labels", (nodes,), np.int64)[:] = labels     # a writable memory map
        writer.write_array("indices", indices)                            # or all at once
        features = writer.stream_array("features", (nodes, 128), np.float16)
        features.write(rows)                                              # or in row order
        writer.link_array("images", "images.npy", ...)                    # or left where it is
        writer.metadata["name"] = "cora"

    manifest = read_manifest("cora.store", kind="graph", schema=1)
    labels = open_array(manifest, "labels")                               # a read-only memory map
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr import __version__
from scr.errors import StoreError
from scr.storage._atomic import (
    check_new_folder,
    disk_errors,
    is_empty_folder,
    publish_folder,
    sync,
)
from scr.storage._contents import ARTIFACT, check_replaceable
from scr.storage._file_region import whole_file
from scr.storage._manifest import (
    ARRAY_NAME,
    CHUNK_BYTES,
    MANIFEST,
    ArrayEntry,
    checksums,
    describe,
    metadata_checksum,
    read_manifest,
)
from scr.storage._staging import Staging
from scr.storage._streamed_array import StreamedArray, allocate, write_npy
from scr.storage._verified import vouch
from scr.storage._work_folder import discard_old_work


class ArtifactWriter:
    """Writes one artifact; use it as a context manager. An exception inside leaves nothing."""

    def __init__(
        self,
        path: str | Path,
        *,
        kind: str,
        schema: int = 1,
        overwrite: bool = False,
        staging: Path | None = None,
    ) -> None:
        """Plan an artifact of a kind and version of its layout, which a reader asks for.

        It is written in `staging`, on the same disk, which stays after a failure; by default in a
        hidden folder beside the target, which does not. Parents of the path are made as well.
        Another process that replaces the same artifact is waited for.
        """
        self.path = Path(path)
        self.metadata: dict[str, Any] = {}
        self._kind, self._schema, self._overwrite = kind, schema, overwrite
        self._hidden = Staging(self.path, wait=overwrite) if staging is None else None
        self._folder = staging or Staging(self.path).content
        self._arrays: dict[str, np.memmap[Any, Any] | StreamedArray | ArrayEntry] = {}

    def __enter__(self) -> ArtifactWriter:
        self.check_target()
        with disk_errors(self.path):
            if self._hidden is not None:
                self._hidden.__enter__()
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError:
                self._remove_hidden()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with disk_errors(self.path):
                    self._finish()
        finally:
            for array in self._arrays.values():
                if isinstance(array, StreamedArray):
                    array.close()
            self._arrays.clear()
            self._remove_hidden()

    def _remove_hidden(self) -> None:
        if self._hidden is not None:
            self._hidden.remove()

    def create_array(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> np.memmap[Any, Any]:
        """Allocate an array on disk, filled with zeros, to be written through its memory map."""
        file, wanted = self._new_file(name, dtype)
        with disk_errors(self.path):
            allocate(file, shape, wanted)
            array = np.lib.format.open_memmap(file, mode="r+")
        self._arrays[name] = array
        return array

    def stream_array(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike, like: Iterable[str] = ()
    ) -> StreamedArray:
        """Allocate an array on disk that is written in row order, by plain writes.

        Its checksums will be compared with others, `like`.
        """
        file, wanted = self._new_file(name, dtype)
        array = StreamedArray(file, shape, wanted, target=self.path, like=like)
        self._arrays[name] = array
        return array

    def write_array(
        self,
        name: str,
        array: NDArray[Any],
        dtype: DTypeLike | None = None,
        like: Iterable[str] = (),
    ) -> None:
        """Write an array that is at hand, converted to another type piece by piece.

        Its checksums are of the kind of others, `like`.
        """
        if array.ndim == 0:
            self.create_array(name, (), dtype or array.dtype)[...] = array
            return
        file, wanted = self._new_file(name, dtype or array.dtype)
        self._arrays[name] = write_npy(file, array, wanted, target=self.path, like=like)

    def adopt_array(self, name: str, file: Path, entry: ArrayEntry) -> None:
        """Take over a finished `.npy` file of the same disk, of which the checksums are known.

        The file keeps its old name as well, until whoever made it removes that. An entry of a
        linked array is taken over as it is.
        """
        target, _ = self._new_file(name, entry.dtype)
        if entry.file is None:
            with disk_errors(self.path):
                os.link(file, target)
        self._arrays[name] = entry

    def link_array(self, name: str, array: NDArray[Any]) -> None:
        """Let the manifest name the file of a memory map, which stays where it is."""
        self._new_file(name, array.dtype)
        self._arrays[name] = linked_entry(array)

    def _new_file(self, name: str, dtype: DTypeLike) -> tuple[Path, np.dtype[Any]]:
        if not ARRAY_NAME.fullmatch(name) or name in self._arrays:
            raise ValueError(f"array name {name!r} is taken or not a plain file name")
        wanted = np.dtype(dtype)
        if wanted.hasobject:
            raise ValueError(f"array {name!r} holds Python objects, which are never stored")
        return self._folder / f"{name}.npy", wanted

    def take_array(self, name: str, digests: Sequence[str]) -> None:
        """Take in `name.npy`, which is whole and in the staging folder already.

        Its checksums are known.
        """
        file, _ = self._new_file(name, np.uint8)
        sync(file)
        array = np.lib.format.open_memmap(file, mode="r")
        size = array.nbytes
        self._arrays[name] = ArrayEntry(array.shape, array.dtype.str, size, tuple(digests))

    def check_target(self) -> None:
        """Raise a `StoreError` if there is something at the path that may not be replaced."""
        if not self._overwrite or not self.path.exists() or is_empty_folder(self.path):
            if self.path.exists():
                discard_old_work(self.path)
            check_new_folder(self.path, hint="choose another name, or replace it with `overwrite`")
            return
        # Only what this module wrote may be replaced, never somebody's folder of photographs.
        read_manifest(self.path)
        check_replaceable(self.path, ARTIFACT)

    def _described(self, name: str) -> ArrayEntry:
        """Bring one array to the disk; returns what the manifest says of it."""
        array = self._arrays[name]
        if isinstance(array, ArrayEntry):
            return array
        if isinstance(array, StreamedArray):
            return array.finish()
        array.flush()
        sync(self._folder / f"{name}.npy")
        return describe(array)

    def _finish(self) -> None:
        described = {name: self._described(name) for name in self._arrays}
        arrays = {name: entry.as_json() for name, entry in described.items()}
        manifest = {
            "format": "scr-artifact", "kind": self._kind, "schema": self._schema,
            "created_by": f"scr {__version__}", "chunk_bytes": CHUNK_BYTES,
            "arrays": arrays, "array_names": sorted(arrays), "metadata": self.metadata,
            "metadata_checksum": metadata_checksum(json.loads(json.dumps(self.metadata))),
        }  # fmt: skip
        file = self._folder / MANIFEST
        file.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
        self.check_target()  # again: somebody may have been faster
        for name, entry in described.items():
            if entry.file is not None and Path(entry.file).is_relative_to(self.path.resolve()):
                raise StoreError(
                    f"`{name}` cannot be linked to `{entry.file}`, which is about to be replaced",
                    hint="let it be copied instead, or choose another name",
                )
        vouch(self._folder)
        publish_folder(self._folder, self.path)


def linked_entry(array: NDArray[Any], digests: Sequence[str] = ()) -> ArrayEntry:
    """What a manifest says of a memory map, all of a plain `.npy` file, that stays where it is.

    Checksums that are not known are made of the file, which is read once for them.
    """
    region = whole_file(array)
    if region is None:
        raise StoreError(
            "The array cannot be linked: it is not all of a plain `.npy` file with rows one after "
            "the other",
            hint="let it be copied instead",
        )
    return ArrayEntry(
        array.shape, array.dtype.str, array.nbytes, tuple(digests or checksums(array)),
        str(region.path.resolve()), region.offset,
    )  # fmt: skip
