"""Artifacts are verified when they are first used, and again when something about them changed.

`verified.json` beside a manifest holds the manifest's hash, and size, times and inode of every file
of its arrays as they were when their content was last known to be right: the writer leaves it, and
so does whoever has read all checksums. As long as they are the same, nothing is read. A copy has
other inodes and times, so the record never travels as truth: what was copied, touched or damaged
is read once more. Where the record cannot be written, that costs one reading per process.

Chunks are read on all cores, a megabyte at a time. Whoever knows what numbers may be there looks at
each piece while it is in the cache (`ContentCheck`), so ranges cost little beside the checksums.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scr.compute import default_threads, map_in_order
from scr.errors import StoreError
from scr.storage import _manifest
from scr.storage._descriptors import open_descriptor
from scr.storage._file_region import FileRegion, fill, open_for_reading, region_of
from scr.storage._manifest import (
    MANIFEST,
    Manifest,
    array_file,
    chunk_hash,
    open_array,
    read_manifest,
    unreadable,
)
from scr.storage._plain_file import check_plain, read_plain

VERIFIED = "verified.json"
VERSION = 1
"""Of what is checked: records of a version that checks less are not believed."""
_PIECE_BYTES = 1 << 20
"""Read, hashed and looked at in one go by a thread: small enough for the caches of its core."""
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, whose ticks are those of the times of files."""
_OTHER_TICK = 0.02
"""Seconds of the longest tick elsewhere."""
_PATIENCE = 5
"""Ticks to wait for files to be left alone; somebody is still writing those that are not."""

_unwritten: dict[Path, dict[str, Any]] = {}
"""Records of this process for folders in which none can be written."""


class ContentCheck(Protocol):
    """What is known of the numbers of an artifact beside their checksums."""

    def piece(self, name: str, values: NDArray[Any], start: int) -> None:
        """Raise an error on a number that may not be there.

        `values` are consecutive numbers of an array, from the one at `start` on, in any order of
        pieces and on any thread. Each piece repeats the last number of the one before it.
        """

    def whole(self) -> None:
        """Raise an error if arrays, of which every piece is right, contradict each other."""


def verify(path: str | Path, content: ContentCheck | None = None) -> Manifest:
    """Read every byte of an artifact again; a `StoreError` names the first chunk that changed."""
    manifest = read_manifest(path)
    _verify(manifest, content)
    return manifest


def verify_once(manifest: Manifest, content: ContentCheck | None = None) -> None:
    """Verify an artifact, unless nothing changed since it was written or verified."""
    if not is_verified(manifest):
        _verify(manifest, content)


def is_verified(manifest: Manifest) -> bool:
    """Whether an artifact is as it was when it was written or verified; nothing is read."""
    now = _observe(manifest)
    known = _recorded(manifest.path), _unwritten.get(manifest.path.absolute())
    return now is not None and now in known


def vouch(path: Path) -> None:
    """Record what this process has just written as verified."""
    manifest = read_manifest(path)
    observed = _settled(manifest)
    if observed is not None:
        _write_record(path, observed)


def _verify(manifest: Manifest, content: ContentCheck | None) -> None:
    # Before anything is read: what changes meanwhile differs from the record.
    observed = _settled(manifest)
    arrays = {name: open_array(manifest, name) for name in manifest.arrays}
    regions = {name: region_of(array) for name, array in arrays.items() if array.size}
    tasks = [
        (name, region, chunk)
        for name, region in regions.items()
        if region is not None
        for chunk in range(_chunks(region.bytes))
    ]
    for name, entry in manifest.arrays.items():
        if len(entry.checksums) != entry.chunks or entry.bytes != arrays[name].nbytes:
            raise StoreError(f"`{manifest.path / MANIFEST}` lacks checksums of `{name}`")

    def check(task: tuple[str, FileRegion, int]) -> None:
        name, region, chunk = task
        then = manifest.arrays[name].checksums[chunk]
        now, problem = _look_at(name, region, chunk, content, chunk_hash(then))
        if now != then:
            raise StoreError(
                f"`{region.path}` has changed since it was written: chunk {chunk} of "
                f"{_chunks(region.bytes)} has the checksum {now}, expected {then}",
                hint="make it again from its source",
            )
        if problem is not None:
            raise problem

    threads = min(default_threads(), len(tasks))
    if threads > 1 and sum(region.bytes for _, region, _ in tasks) > _PIECE_BYTES:
        with closing(map_in_order(check, tasks, threads=threads, ahead=threads + 1)) as checked:
            for _ in checked:
                pass
    else:
        for task in tasks:
            check(task)
    if content is not None:
        content.whole()
    if observed is not None:
        _write_record(manifest.path, observed)


def _chunks(size: int) -> int:
    return -(-size // _manifest.CHUNK_BYTES)


def _look_at(
    name: str, region: FileRegion, chunk: int, content: ContentCheck | None, digest: Any
) -> tuple[str, StoreError | None]:
    """The checksum of one chunk, which a running one makes, and what is wrong with its numbers."""
    first = chunk * _manifest.CHUNK_BYTES
    last = min(first + _manifest.CHUNK_BYTES, region.bytes)
    dtype = _looked_at_as(region.dtype)
    lap = 0 if dtype is None else dtype.itemsize
    buffer = np.empty(lap + min(_PIECE_BYTES, last - first), np.uint8)
    problem: StoreError | None = None
    try:
        with open_for_reading(region.path) as descriptor:
            for begin in range(first, last, _PIECE_BYTES):
                before = min(lap, begin)
                size = before + min(_PIECE_BYTES, last - begin)
                fill(descriptor, region.offset + begin - before, buffer[:size])
                digest.update(buffer[before:size].data)
                if content is None or dtype is None or problem is not None:
                    continue
                try:
                    values = buffer[:size].view(dtype)
                    content.piece(name, values, (begin - before) // dtype.itemsize)
                except StoreError as error:
                    problem = error
    except EOFError as error:
        raise StoreError(
            f"`{region.path}` is truncated: {error}", hint="make it again from its source"
        ) from None
    except OSError as error:
        raise unreadable(region.path, error) from None
    return str(digest.hexdigest()), problem


def _looked_at_as(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type in which numbers are looked at, code points for text; none: not at all."""
    if dtype.kind == "U":
        return np.dtype(np.uint32).newbyteorder(dtype.byteorder)
    return dtype if dtype.kind in "iufb" and dtype.itemsize <= 8 else None


def _observe(manifest: Manifest) -> dict[str, Any] | None:
    """Size, times and inode of every file, as a record has them; none if there is one missing."""
    files = {}
    try:
        for name in manifest.arrays:
            file = array_file(manifest, name)
            check_plain(file)
            status = file.stat()
            key = file.name if file.parent == manifest.path else str(file)
            files[key] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    except (OSError, ValueError):
        return None
    return {"version": VERSION, "manifest": manifest.digest, "files": files}


def _settled(manifest: Manifest) -> dict[str, Any] | None:
    """What `_observe` gives, once a later change is sure to show; none if files keep changing.

    Times of files have ticks of some milliseconds, and two writes in one tick look the same.
    """
    for _ in range(_PATIENCE):
        observed = _observe(manifest)
        if observed is None:
            return None
        newest = max((times[2] for times in observed["files"].values()), default=0)
        if not 0 <= time.time_ns() - newest <= 1e9 * _tick():
            return observed
        time.sleep(_tick())
    return None


def _tick() -> float:
    is_linux = sys.platform.startswith("linux")
    return 1.1 * time.clock_getres(_COARSE_CLOCK) if is_linux else _OTHER_TICK


def _recorded(path: Path) -> Any:
    try:
        return json.loads(read_plain(path / VERIFIED))
    except (OSError, ValueError, RecursionError):
        return None


def _write_record(path: Path, observed: dict[str, Any]) -> None:
    """Leave the record, or remember it for this process where that cannot be done."""
    file = path / VERIFIED
    try:
        # Never through a link, which a store of a stranger may have under this name.
        file.unlink(missing_ok=True)
        descriptor = open_descriptor(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError:  # also: another process is writing it
        _unwritten[path.absolute()] = observed
        return
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(observed, stream)
    except OSError:
        _unwritten[path.absolute()] = observed
        with suppress(OSError):
            file.unlink(missing_ok=True)
