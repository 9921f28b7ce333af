"""What is known of a file when it is finished, by which it is known again.

Size, times and number are compared first, since that reads nothing. Only a file that was touched
since, be it by a copy or a second name for it, is read and compared with its checksums; if there
are none, it has changed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from scr.storage._manifest import ArrayEntry, RunningChecksums
from scr.storage._streamed_array import npy_header

MOST_HASHED = 16 * 2**20
"""Bytes of a file that is read once more for its checksum; larger ones would cost time."""
_READ_BYTES = 1 << 22


def record_of(path: Path, entry: ArrayEntry | None = None) -> dict[str, Any]:
    """What is known of a file or a folder, in plain values; `entry` if it is a known array."""
    if path.is_dir():
        return {"stats": _stats_below(path)}
    record: dict[str, Any] = {"stats": _stats(path)}
    if entry is not None:
        record["array"] = entry.as_json()
    elif record["stats"][0] <= MOST_HASHED:
        record["checksum"] = _checksum(path)
    return record


def stats_of(path: Path) -> dict[str, Any]:
    """What is known of a file that is not read for it."""
    return {"stats": _stats(path)}


def kind_of(path: Path) -> dict[str, Any]:
    """What is known of a file or a folder that changes still."""
    return {"folder": path.is_dir()}


def is_unchanged(path: Path, record: dict[str, Any]) -> bool:
    """Whether a file or a folder is what was recorded of it."""
    if "stats" not in record:
        return not path.is_symlink() and path.is_dir() == record["folder"]
    try:
        if record["stats"] == (_stats_below(path) if path.is_dir() else _stats(path)):
            return True
        if "array" in record:
            return _is_array(path, ArrayEntry.from_json(record["array"]))
        return path.is_file() and record.get("checksum", "") == _checksum(path)
    except OSError:
        return False


def _stats(path: Path) -> list[int]:
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _stats_below(folder: Path) -> list[list[Any]]:
    files = sorted(folder.rglob("*"))
    return [[str(each.relative_to(folder)), *_stats(each)] for each in files if each.is_file()]


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _is_array(path: Path, entry: ArrayEntry) -> bool:
    """Whether a file is all of a `.npy` that `StreamedArray` has written."""
    if entry.file is not None:
        return False
    header = npy_header(entry.shape, np.dtype(entry.dtype))
    running = RunningChecksums(like=entry.checksums)
    if path.stat().st_size != len(header) + entry.bytes:
        return False
    with path.open("rb") as file:
        if file.read(len(header)) != header:
            return False
        while data := file.read(_READ_BYTES):
            running.update(memoryview(data))
    return tuple(running.digests()) == entry.checksums
