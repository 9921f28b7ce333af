"""One process at a time: locks of the system, which a process that is killed gives back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

POLL_SECONDS = 0.1
"""Between two looks at a lock that another process holds."""


class Claim:
    """A lock file that exists while somebody holds it, or was killed holding it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FileLock | None = None

    def acquire(self, *, wait: bool = False) -> bool:
        """Take the lock; without `wait`, only if it is free. Returns whether it was taken.

        Where the file system has no locks it always is.
        """
        while True:
            lock = FileLock(self.path, timeout=-1 if wait else 0)
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire(poll_interval=POLL_SECONDS)
            except Timeout:
                return False
            except FileNotFoundError:
                continue  # the last process has just removed the folder
            except (OSError, NotImplementedError):
                return True
            if self._is_current(lock):
                self._lock = lock
                return True
            lock.release()  # of a file that its holder has removed

    def release(self) -> None:
        """Give the lock back and remove its file."""
        if self._lock is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def _is_current(self, lock: FileLock) -> bool:
        """Whether the file that is locked is the one that others find."""
        descriptor = lock._context.lock_file_fd
        try:
            return descriptor is not None and os.path.samestat(
                os.fstat(descriptor), self.path.stat()
            )
        except FileNotFoundError:
            return False


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
