"""`--overwrite`: nothing is replaced without it, and with it only by what is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scr import runs, storage

OPTION = "--overwrite"


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuse to make a folder where something is, before any work is done."""
    if not overwrite:
        if path.exists():
            storage.discard_old_work(path)
            storage.discard_partial_of(path)  # a kill came after the folder had its name
        hint = f"choose another name, or replace it with `{OPTION}`"
        storage.check_new_folder(path, hint=hint)


def refuse_existing_file(path: Path, *, overwrite: bool) -> None:
    """Refuse to write a file where something is, before any work is done.

    Files of a run, of results or of a store are refused even with `--overwrite`.
    """
    storage.check_new_file(path, overwrite=overwrite, option=OPTION)
    runs.refuse_own_file(path)


@contextmanager
def replacing(
    path: Path,
    *,
    overwrite: bool,
    check: Callable[[Path], None],
    resume: bool = False,
    finished: str = "",
) -> Iterator[Path]:
    """The folder to write to: `path`, or, to replace one, a hidden one that takes its name.

    `check` refuses what this command has not made. After a failure or Ctrl-C the old folder is as
    it was. With `resume`, what a command that was stopped has left is used again; if there is
    nothing, so is a folder that has no `finished` file yet.
    """
    if not overwrite or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        yield path
        return
    target = path.resolve()  # not a link to it
    check(path)
    has_more = storage.is_staged(target)
    if resume and not has_more and not (target / finished).exists():
        yield path
        return
    with storage.atomic_folder(target, check=check, keep=True, resume=resume) as folder:
        yield folder
