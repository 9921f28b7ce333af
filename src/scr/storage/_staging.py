"""Hidden folders in which something is made before it has its name, for one process at a time.

What becomes `NAME` is made as `.NAME.partial/NAME`, beside a lock that the system lets go of when
its process ends. The name is always the same: what a killed process left is found, and removed, by
the next one that makes the same. In the end the folder is gone, with its lock.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Self

from scr.errors import StoreError
from scr.storage._lock import Claim

LOCK = "lock"
_REPLACED = "replaced"
"""Where a whole folder waits for the exchange, and the old one is removed: never resumed."""


class LockedFolder:
    """A folder that one process has at a time, by a lock in it; it is made if there is none."""

    def __init__(self, path: Path, target: Path) -> None:
        """Plan the folder in which `target`, which messages name, is made."""
        self.path, self.target = path, target
        self.is_held = False
        """Whether this process has the folder."""
        self._claim = Claim(path / LOCK, is_needed=True)

    def acquire(self, *, wait: bool, parents: bool = True) -> None:
        """Make the folder and lock it.

        Raises:
            StoreError: Another process has it, and `wait` is false; or another user left it.
        """
        self._make(parents=parents)
        try:
            self.is_held = self._claim.acquire(wait=wait)
        except PermissionError as error:
            if not self._claim.path.exists():
                raise
            raise StoreError(
                f"`{self.target}` cannot be written: `{self.path}` is there already, and this "
                f"process may not use it ({error.strerror})",
                hint="it is of another user; have it removed, or write elsewhere",
            ) from None
        if not self.is_held:
            raise StoreError(
                f"Another process is making `{self.target}` already",
                hint="wait for it, or write elsewhere",
            )

    def release(self) -> None:
        """Let others have the folder, as it is."""
        self._claim.release(remove=False)
        self.is_held = False

    def sweep(self, *kept: str) -> None:
        """Remove all entries but the lock and those with some names."""
        for entry in self.path.iterdir():
            if entry.name not in {*kept, LOCK}:
                remove(entry)

    def remove(self) -> None:
        """Remove the folder, the lock last, and let others make it again."""
        with suppress(OSError):
            self.sweep()
        if os.name == "nt":  # which removes no file that is open
            self.release()
        with suppress(OSError):
            (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()
        self.release()

    def _make(self, *, parents: bool) -> None:
        # Through a link, the folder of somebody else would be swept.
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            self.path.unlink(missing_ok=True)
        while not self.path.is_dir():
            with suppress(FileExistsError):  # another process may remove it at any time
                self.path.mkdir(parents=parents)
        lock = self.path / LOCK
        if lock.is_symlink() or lock.is_dir():
            remove(lock)


class Staging(LockedFolder):
    """`.NAME.partial` beside a target; use it as a context manager."""

    def __init__(
        self, target: Path, *, wait: bool = False, parents: bool = True, resume: bool = False
    ) -> None:
        """Plan the folder of a target.

        With `resume`, what another process left of it stays. `parents`: folders above are made.
        """
        if target.name in ("", ".."):
            target = target.resolve()
        super().__init__(target.with_name(f".{target.name}.partial"), target)
        self.content = self.path / target.name
        """What becomes the target."""
        self._wait, self._parents, self._resume = wait, parents, resume

    def __enter__(self) -> Self:
        self.acquire(wait=self._wait, parents=self._parents)
        try:
            self.sweep(*([self.content.name] if self._resume else []))
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def whole(self) -> Path:
        """Say that the content is finished: it moves to where no other process resumes it."""
        moved = self.path / _REPLACED
        self.content.rename(moved)
        return moved


def remove(entry: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)


def is_staged(target: Path) -> bool:
    """Whether something is being made, or was begun and is left, that becomes a target."""
    return Staging(target).content.exists()


def discard_partial(folder: Path) -> None:
    """Remove what killed processes left in a folder of things that they were making there."""
    for entry in [*folder.glob(".*.partial")]:
        _discard(LockedFolder(entry, entry))


def discard_partial_of(target: Path) -> None:
    """Remove what a killed process left of the making of one target."""
    _discard(Staging(target))


def _discard(left: LockedFolder) -> None:
    if is_left_over(left.path):
        with suppress(StoreError, OSError):
            left.acquire(wait=False)
            left.remove()


def is_left_over(entry: Path) -> bool:
    """Whether an entry is a hidden folder in which something is, or was, being made."""
    is_named = entry.name.startswith(".") and entry.name.endswith((".partial", ".work"))
    if not is_named or entry.is_symlink() or not entry.is_dir():
        return False
    return (entry / LOCK).is_file() or not any(entry.iterdir())
