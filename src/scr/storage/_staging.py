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

from filelock import FileLock, Timeout

from scr.errors import StoreError

LOCK = "lock"
_REPLACED = "replaced"
"""Where a whole folder waits for the exchange, and the old one is removed: never resumed."""


class LockedFolder:
    """A folder that one process has at a time, by a lock in it; it is made if there is none."""

    def __init__(self, path: Path, target: Path) -> None:
        """Plan the folder in which `target`, which messages name, is made."""
        self.path, self.target = path, target
        self._lock: FileLock | None = None

    def acquire(self, *, wait: bool, parents: bool = True) -> None:
        """Make the folder and lock it.

        Raises:
            StoreError: Another process has it, and `wait` is false.
        """
        while True:
            self._make(parents=parents)
            lock = FileLock(self.path / LOCK, timeout=-1 if wait else 0)
            try:
                lock.acquire()
            except FileNotFoundError:
                continue  # the process before has just finished, and removed the folder
            except Timeout:
                if not (self.path / LOCK).exists():
                    continue
                raise StoreError(
                    f"Another process is making `{self.target}` already",
                    hint="wait for it, or write elsewhere",
                ) from None
            if _is_held(lock):
                self._lock = lock
                return
            lock.release()

    @property
    def is_held(self) -> bool:
        """Whether this process has the folder."""
        return self._lock is not None

    def release(self) -> None:
        """Let others have the folder, as it is."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

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
        self.path.mkdir(parents=parents, exist_ok=True)
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
        if is_left_over(entry):
            with suppress(StoreError, OSError):
                left = LockedFolder(entry, entry)
                left.acquire(wait=False)
                left.remove()


def is_left_over(entry: Path) -> bool:
    """Whether an entry is a hidden folder in which something is, or was, being made."""
    is_named = entry.name.startswith(".") and entry.name.endswith((".partial", ".work"))
    if not is_named or entry.is_symlink() or not entry.is_dir():
        return False
    return (entry / LOCK).is_file() or not any(entry.iterdir())


def _is_held(lock: FileLock) -> bool:
    """Whether a lock is of the file that has its name, and not of one that was removed."""
    if os.name == "nt":
        return True
    try:
        named, held = Path(lock.lock_file).stat(), os.fstat(lock._context.lock_file_fd or -1)
    except OSError:
        return False
    return os.path.samestat(named, held)
