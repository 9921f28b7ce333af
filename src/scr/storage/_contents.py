"""What a folder of ours may hold, so that replacing it never removes what is somebody else's.

    OGB: Contents = {"raw": {"*.csv.gz": FILE}, "RELEASE_v1.txt": FILE}

A pattern names entries; its value says what they are: a file, a folder with contents of its own, or
an artifact, whose manifest names its arrays.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, Union

from scr.errors import StoreError
from scr.storage._manifest import MANIFEST, read_manifest
from scr.storage._staging import is_left_over
from scr.storage._verified import VERIFIED

FILE: Final = "file"
ARTIFACT: Final = "artifact"
Contents: TypeAlias = Mapping[str, Union[str, "Contents"]]
CACHES = ("hops", "features")
"""Folders below a graph's store of what was made from it, found again by its name."""
HARMLESS = (".DS_Store", "Thumbs.db", "desktop.ini")
"""What file managers leave in any folder that they show."""
_NAMED = 3
"""Entries that a message names."""


def check_replaceable(path: Path, own: Contents | str) -> None:
    """Raise a `StoreError` if a folder holds anything but contents of its own, or rights lack."""
    try:
        foreign = [*foreign_entries(path, own)]
    except OSError as error:
        raise _no_right(Path(error.filename or path), error.strerror or str(error)) from None
    if not foreign:
        _check_removable(path)
        return
    names = [str(entry.relative_to(path)) for entry in foreign[:_NAMED]]
    more = f" and {len(foreign) - _NAMED:,} more" if len(foreign) > _NAMED else ""
    raise StoreError(
        f"`{path}` would be removed with what scr did not write there: "
        f"{', '.join(f'`{name}`' for name in names)}{more}",
        hint="move that elsewhere, or choose another folder",
    )


def check_replaced(path: Path, own: Contents | str, *, known_by: str) -> None:
    """As `check_replaceable`, and refuse a folder that has no entry `known_by`, a pattern.

    Where there is nothing, or an empty folder, there is nothing to refuse.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir() or not any(path.glob(known_by)):
        raise StoreError(
            f"`{path}` has no {known_by}; `overwrite` replaces only what the same command wrote",
            hint="choose another folder",
        )
    check_replaceable(path, own)


def foreign_entries(path: Path, own: Contents | str) -> Iterator[Path]:
    """What a folder holds beside its own contents, at any depth."""
    if own == ARTIFACT:
        own = _artifact_contents(path)
    assert not isinstance(own, str)
    for entry in sorted(path.iterdir()):
        if entry.name in HARMLESS or is_left_over(entry) or _is_lock(entry):
            continue
        kind = next((own[each] for each in own if fnmatch.fnmatchcase(entry.name, each)), None)
        is_folder = entry.is_dir()
        if kind is None or entry.is_symlink() or is_folder == (kind == FILE):
            yield entry
        elif is_folder:
            yield from _below(entry, kind)


def is_own_file(path: Path, folder: Path, own: Contents | str) -> bool:
    """Whether a path, of a file or of nothing yet, is of one of the files of a folder of ours."""
    kind: Contents | str | None = own
    at = folder
    for part in path.relative_to(folder).parts:
        if kind == ARTIFACT:
            kind = _contents_or_none(at)
        if kind is None or isinstance(kind, str):
            return False
        kind = next((kind[each] for each in kind if fnmatch.fnmatchcase(part, each)), None)
        at /= part
    return kind is not None


def _check_removable(path: Path) -> None:
    """Raise a `StoreError` if a folder may not be moved or emptied, before any work is done."""
    if os.name == "nt":  # where rights are not those of folders
        return
    whole = path.resolve()
    for folder in (whole.parent, whole, *(each for each in whole.rglob("*") if each.is_dir())):
        if not folder.is_symlink() and not os.access(folder, os.W_OK | os.X_OK):
            raise _no_right(folder if folder != whole else path, os.strerror(errno.EACCES))


def _no_right(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"`{path}` cannot be replaced: {reason}",
        hint="choose another folder, or ask whoever owns this one",
    )


def _below(folder: Path, own: Contents | str) -> Iterator[Path]:
    try:
        yield from foreign_entries(folder, own)
    except StoreError:  # an artifact that is none
        yield folder


def _artifact_contents(path: Path) -> Contents:
    arrays = read_manifest(path).arrays
    files = {f"{name}.npy": FILE for name, entry in arrays.items() if entry.file is None}
    caches: Contents = {"*": ARTIFACT}
    return {MANIFEST: FILE, VERIFIED: FILE, **files, **dict.fromkeys(CACHES, caches)}


def _contents_or_none(path: Path) -> Contents | None:
    try:
        return _artifact_contents(path)
    except StoreError:
        return None


def _is_lock(entry: Path) -> bool:
    """Whether an entry is a lock that a killed process left."""
    is_named = entry.name.startswith(".") and entry.name.endswith(".lock")
    return is_named and not entry.is_symlink() and entry.is_file() and entry.stat().st_size == 0
