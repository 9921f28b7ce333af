"""Checksums of the finished files of a folder, in a file of the folder itself.

    {"report.json": "9f86d081884c7d65", ...}

The file that says that the folder is finished is written last, after the checksums, which know it
already: a folder that has it has all of them. Files that are not listed do not matter, and names
are relative, so a folder may be moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from scr.errors import StoreError
from scr.storage._atomic import write_bytes
from scr.storage._json import read_object
from scr.storage._plain_file import open_plain

CHECKSUMS = "checksums.json"
_HINT = f"bring the file back, make the folder again, or remove `{CHECKSUMS}` if that was meant"
_READ_BYTES = 1 << 22


def digest(*parts: bytes | memoryview) -> str:
    """Hash bytes, as checksums of files do."""
    running = hashlib.blake2b(digest_size=16)
    for part in parts:
        running.update(part)
    return running.hexdigest()


def seal_folder(path: Path, names: Iterable[str], last: str, content: bytes) -> None:
    """Write checksums of those of the named files that exist, then the last file.

    Args:
        path: The folder.
        names: Files below it that are finished.
        last: The file by which the folder is known as finished.
        content: What is to be written to it.
    """
    sums = {name: _file_digest(path / name) for name in names if (path / name).is_file()}
    _write(path, {**sums, last: digest(content)})
    write_bytes(path / last, content)


def replace_sealed(path: Path, name: str, content: bytes) -> None:
    """Write one file of a sealed folder again; after a kill in between it is not checked."""
    if not is_sealed(path):
        write_bytes(path / name, content)
        return
    sums = _read(path)
    sums.pop(name, None)
    _write(path, sums)
    write_bytes(path / name, content)
    _write(path, {**sums, name: digest(content)})


def is_sealed(path: Path) -> bool:
    """Whether a folder has checksums; older ones have none."""
    file = path / CHECKSUMS
    return file.exists() or file.is_symlink()


def check_sealed(path: Path, *, without: Collection[str] = (), may_lack: bool = False) -> list[str]:
    """Read the files of a folder again, and compare their checksums.

    Args:
        path: The folder; one without checksums is accepted.
        without: Files that are not read.
        may_lack: Accept missing files.

    Returns:
        The names of the files that were read.

    Raises:
        StoreError: A file is missing or is not what was written.
    """
    if not is_sealed(path):
        return []
    checked = []
    for name, expected in _read(path).items():
        file = path / name
        if name in without or (may_lack and not file.exists()):
            continue
        try:
            found = _file_digest(file)
        except FileNotFoundError:
            raise StoreError(
                f"`{file}` is missing; `{path / CHECKSUMS}` lists it", hint=_HINT
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"`{file}` cannot be read: {reason}") from None
        if found != expected:
            raise StoreError(
                f"`{file}` has changed since it was written: its checksum is {found}, expected "
                f"{expected}",
                hint=_HINT,
            )
        checked.append(name)
    return checked


def _read(path: Path) -> dict[str, str]:
    file = path / CHECKSUMS
    sums = read_object(file, what="list of checksums")
    for name, value in sums.items():
        parts = Path(name).parts
        is_inside = parts and ".." not in parts and not Path(name).is_absolute()
        if not isinstance(value, str) or not is_inside or not name.isprintable():
            raise StoreError(f"`{file}` is damaged: expected names of files and their checksums")
    return sums


def _write(path: Path, sums: dict[str, str]) -> None:
    write_bytes(path / CHECKSUMS, (json.dumps(sums, indent=1, sort_keys=True) + "\n").encode())


def _file_digest(file: Path) -> str:
    running = hashlib.blake2b(digest_size=16)
    with open_plain(file) as stream:
        while piece := stream.read(_READ_BYTES):
            running.update(piece)
    return running.hexdigest()
