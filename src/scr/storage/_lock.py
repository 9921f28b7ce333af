"""One process at a time: locks of the system, which a process that is killed gives back."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

POLL_SECONDS = 0.1
"""Between two looks at a lock that another process holds."""
_NO_LOCKS = {getattr(errno, name, None) for name in ("ENOSYS", "ENOLCK", "ENOTSUP", "EOPNOTSUPP")}
"""What file systems without locks say, such as NFS without its lock service."""


class Claim:
    """A lock file that exists while somebody holds it, or was killed holding it."""

    def __init__(self, path: Path, *, is_needed: bool = False) -> None:
        """Plan a lock; one that is needed is an error where its file cannot be made."""
        self.path = path
        self._is_needed = is_needed
        self._lock: FileLock | None = None

    def acquire(self, *, wait: bool = False) -> bool:
        """Take the lock; without `wait`, only if it is free. Returns whether it was taken.

        Where the file system has no locks it always is.

        Raises:
            OSError: The lock is needed, and its file cannot be made or opened.
        """
        while True:
            lock = FileLock(self.path, timeout=-1 if wait else 0)
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire(poll_interval=POLL_SECONDS)
            except Timeout:
                if self.path.exists():
                    return False
                continue  # its holder has just removed it
            except FileNotFoundError:
                continue  # the last process has just removed the folder
            except (OSError, NotImplementedError) as error:
                if isinstance(error, FileExistsError) and not _is_in_the_way(self.path.parent):
                    continue  # the folder was removed while it was found to be there
                if not isinstance(error, OSError) or error.errno in _NO_LOCKS:
                    with suppress(OSError):
                        self.path.unlink(missing_ok=True)  # it says nothing there
                elif self._is_needed:
                    raise
                return True
            if _is_current(lock):
                self._lock = lock
                return True
            lock.release()  # of a file that its holder has removed

    def release(self, *, remove: bool = True) -> None:
        """Give the lock back and remove its file, unless it is to stay."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if os.name == "nt":  # which removes no file that is open
            lock.release()
        if remove:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        lock.release()


def _is_in_the_way(path: Path) -> bool:
    """Whether there is something that is no folder."""
    return os.path.lexists(path) and not path.is_dir()


def _is_current(lock: FileLock) -> bool:
    """Whether the file that is locked is the one that others find, and not one that was removed."""
    if os.name == "nt":
        return True
    try:
        named, held = Path(lock.lock_file).stat(), os.fstat(lock._context.lock_file_fd or -1)
    except OSError:
        return False
    return os.path.samestat(named, held)


@contextmanager
def one_at_a_time(target: Path) -> Iterator[None]:
    """Wait until no other process works on a file or folder; the lock lies beside it."""
    if not target.absolute().parent.is_dir():
        yield  # nobody can be there yet
        return
    claim = Claim(target.absolute().with_name(f".{target.name}.lock"))
    claim.acquire(wait=True)
    try:
        yield
    finally:
        claim.release()
