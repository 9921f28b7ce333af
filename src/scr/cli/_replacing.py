"""`--overwrite`: nothing is replaced without it, and with it only by what is whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scr import storage
from scr.errors import RunError, StoreError


def refuse_existing(path: Path, *, overwrite: bool, expected: str = "folder") -> None:
    """Refuse to write over something before any work is done; `expected` is `folder` or `file`."""
    if expected == "file" and path.is_dir():
        raise StoreError(f"`{path}` is a folder; expected a file to write")
    if _is_occupied(path) and not overwrite:
        raise StoreError(
            f"`{path}` exists already; expected a new {expected}",
            hint="choose another name, or replace it with `--overwrite`",
        )


@contextmanager
def replacing(
    path: Path, *, overwrite: bool, known_by: str, resume: bool = False, finished: str = ""
) -> Iterator[Path]:
    """The folder to write to: `path`, or, to replace one, a hidden sibling that takes its name.

    Only a folder with a file `known_by`, a pattern, is replaced: what this command has made. After
    a failure or Ctrl-C the old folder is as it was. With `resume`, the sibling of a command that
    was stopped is used again; if there is none, so is a folder that has no `finished` file yet.
    """
    if not overwrite or not _is_occupied(path):
        yield path
        return
    if not path.is_dir() or not any(path.glob(known_by)):
        raise RunError(
            f"`{path}` has no {known_by}; `--overwrite` replaces only what the same command wrote",
            hint="choose another folder",
        )
    target = path.resolve()  # not a link to it
    beside = target.with_name(f".{target.name}.new")
    if resume and not beside.exists() and not (target / finished).exists():
        yield path
        return
    if not resume:
        shutil.rmtree(beside, ignore_errors=True)
    yield beside
    with storage.disk_errors(path):
        storage.publish_folder(beside, target)


def _is_occupied(path: Path) -> bool:
    """Whether there is anything at a path but an empty folder."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))
