"""Files and folders that appear under their names whole or not at all, also after a power cut.

Content is written in a hidden folder beside its target (`_staging.py`), synced, and renamed; then
the parent folder is synced.

    with atomic_file(path) as partial:
        partial.write_bytes(content)

A failure of the disk becomes a `StoreError` of one sentence.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from scr.compute import is_out_of_memory
from scr.errors import StoreError
from scr.storage._descriptors import open_descriptor
from scr.storage._staging import Staging, discard_partial_of

NOTHING = "; nothing was written"
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # fcntl.h: paths are relative to the working directory


@contextmanager
def atomic_file(path: Path, *, partial: Path | None = None) -> Iterator[Path]:
    """A file that replaces `path` once it is whole; yields the path to write to until then.

    That is `partial`, on the same disk, or one in a hidden folder beside `path`, which is removed
    in the end. Another process that writes the same file is waited for. A link is replaced, and
    what it names stays as it is.

    Raises:
        StoreError: There is something at `path` that is no plain file, or the disk says no.
    """
    check_plain_file(path)
    with disk_errors(path):
        if partial is None:
            with Staging(path, wait=True, parents=False) as staging:
                yield staging.content
                publish_file(staging.content, path)
            return
        try:
            yield partial
            publish_file(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_file(path) as partial:
        partial.write_bytes(content)


@contextmanager
def atomic_folder(
    path: Path,
    *,
    check: Callable[[Path], None] | None = None,
    keep: bool = False,
    resume: bool = False,
) -> Iterator[Path]:
    """A folder that has its name once all files in it are whole; yields one for them.

    Args:
        path: Where there is nothing, or an empty folder.
        check: Refuses what may not be replaced, before and after; none: nothing is replaced.
        keep: What there is of it stays after a failure, for the next call with `resume`.
        resume: Begin with what an earlier call has kept.

    Raises:
        StoreError: There is something that is not replaced, another process makes the same, or the
            disk says no.
    """
    check = check or check_new_folder
    check(path)
    staging = Staging(path, resume=resume)
    with disk_errors(path):
        staging.__enter__()
    try:
        with disk_errors(path):
            staging.content.mkdir(exist_ok=resume)
        with nullcontext() if keep else disk_errors(path):
            yield staging.content
        check(path)
        with disk_errors(path):
            publish_folder(staging.whole() if path.exists() else staging.content, path)
    except BaseException:
        if keep and staging.content.is_dir() and not is_empty_folder(staging.content):
            staging.release()
        raise
    finally:
        if staging.is_held:
            staging.remove()


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


def check_new_folder(path: Path, hint: str = "choose another name") -> None:
    """Raise a `StoreError` if there is anything at a path but an empty folder."""
    if path.exists() and not is_empty_folder(path):
        raise StoreError(f"`{path}` exists already; expected a new folder", hint=hint)


def check_new_file(path: Path, *, overwrite: bool, option: str = "overwrite") -> None:
    """Refuse, before any work is done, a file that would replace something.

    `option` is what says so, in the hint.

    Raises:
        StoreError: There is a file and `overwrite` is false, or something that is no plain file.
    """
    check_plain_file(path)
    if os.path.lexists(path) and not overwrite:
        discard_partial_of(path)  # a kill came after the file had its name
        raise StoreError(
            f"`{path}` exists already; expected a new file",
            hint=f"choose another name, or replace it with `{option}`",
        )


def check_plain_file(path: Path) -> None:
    """Raise a `StoreError` if what is at a path is no plain file, nor a link to one."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise disk_error(error, path) from error
    link = ""
    if stat.S_ISLNK(mode):
        link = "a link to "
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            raise StoreError(f"`{path}` is a link to nothing; expected a file to write") from None
        except OSError as error:
            raise disk_error(error, path) from error
    if not stat.S_ISREG(mode):
        kinds = {
            stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
            stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
        }  # fmt: skip
        kind = kinds.get(stat.S_IFMT(mode), "no plain file")
        raise StoreError(f"`{path}` is {link}{kind}; expected a file to write")


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
