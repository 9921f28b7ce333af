"""Files and folders that appear under their names whole or not at all, also after a power cut.

Content is written to a hidden sibling, synced, and renamed; then the parent folder is synced.

    with atomic_file(path) as partial:
        partial.write_bytes(content)

A failure of the disk becomes a `StoreError` of one sentence.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scr.compute import is_out_of_memory
from scr.errors import StoreError
from scr.storage._descriptors import open_descriptor

NOTHING = "; nothing was written"
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # fcntl.h: paths are relative to the working directory


@contextmanager
def atomic_file(path: Path, *, partial: Path | None = None) -> Iterator[Path]:
    """A file that replaces `path` once it is whole; yields the path to write to until then.

    That is `partial`, on the same disk, or a hidden sibling. It is removed if writing fails.
    """
    partial = partial or partial_path(path)
    try:
        with disk_errors(path):
            yield partial
            publish_file(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_file(path) as partial:
        partial.write_bytes(content)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder that replaces `path` once all files in it are whole; yields an empty one for them.

    It is removed if writing fails.
    """
    partial = partial_path(path)
    try:
        with disk_errors(path):
            partial.mkdir(parents=True)
            yield partial
            publish_folder(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def publish_file(partial: Path, path: Path) -> None:
    """Sync a file that is whole, and give it its name."""
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def publish_folder(partial: Path, path: Path) -> None:
    """Sync a folder whose files are whole, and give it its name; what had it before is removed."""
    for entry in (*partial.rglob("*"), partial):
        sync(entry)
    if path.exists() and not is_empty_folder(path):
        _exchange(partial, path)
        shutil.rmtree(partial, ignore_errors=True)
    else:
        partial.rename(path)
    sync(path.parent)


def partial_path(path: Path) -> Path:
    """A hidden sibling that nobody else writes to."""
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


def check_new_folder(path: Path, hint: str = "choose another name") -> None:
    """Raise a `StoreError` if there is anything at a path but an empty folder."""
    if path.exists() and not is_empty_folder(path):
        raise StoreError(f"`{path}` exists already; expected a new folder", hint=hint)


def is_empty_folder(path: Path) -> bool:
    """Whether there is a folder without entries."""
    return path.is_dir() and not any(path.iterdir())


def sync(path: Path) -> None:
    """Wait until the disk has what was written to a file, or the names in a folder."""
    if os.name == "nt":  # which syncs files open for writing, and no folders
        if path.is_dir():
            return
        descriptor = open_descriptor(path, os.O_RDWR)
    else:
        descriptor = open_descriptor(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_room(folder: Path, needed: int, what: str, *, hint: str) -> None:
    """Raise a `StoreError` if fewer bytes are free in a folder than `what` needs."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreError(
            f"{what} takes {needed:,} bytes unpacked; {free:,} are free in `{folder}`", hint=hint
        )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise what the system says on writing as a `StoreError` that names `path`."""
    try:
        yield
    except OSError as error:
        if is_out_of_memory(error):
            raise
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> StoreError:
    """What the system said on writing, as one sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(
            f"The disk is too full to write `{path}`{NOTHING}",
            hint="free some space or write elsewhere",
        )
    return StoreError(f"`{path}` cannot be written: {error.strerror or error}")


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step where the system can; otherwise in two renames."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        source, target = os.fsencode(new), os.fsencode(old)
        if rename(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_EXCHANGE) == 0:
            return
    except (AttributeError, OSError, TypeError):  # Windows has no such library, macOS no call
        pass
    aside = new.with_name(new.name + ".old")
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    shutil.rmtree(aside, ignore_errors=True)
