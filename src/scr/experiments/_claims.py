"""Which process runs which task of an experiment, where several work in one folder.

Before a task is run its key is claimed, by a lock that ends with the process. A task that another
process has claimed is left for later, when its record is in `runs.jsonl`, or, if that process was
killed, its lock is free again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scr.errors import StoreError
from scr.report import read_records, record_checksum
from scr.storage import Claim, open_descriptor, write_all

if TYPE_CHECKING:
    from scr.experiments._runner import Task

RUNS = "runs.jsonl"
FOLDER = ".claims"
_APPEND = "append"


class Claims:
    """Tasks of one folder that this process runs, and the records of all that are finished."""

    def __init__(self, out: Path | None, done: dict[str, dict[str, Any]]) -> None:
        """Take the folder, or none if nothing is kept, and records by key, which are added to."""
        self.out, self.done = out, done
        self._held: dict[str, Claim] = {}
        self._size = self._bytes()

    def take(self, key: str) -> bool:
        """Claim a task; False: it is finished, or another process is at it."""
        if self.out is None:
            return True
        claim = Claim(self.out / FOLDER / f"{key}.lock")
        if not claim.acquire():
            return False
        self.look()
        if key in self.done:
            claim.release()
            return False
        self._held[key] = claim
        return True

    def look(self) -> None:
        """Read what other processes have added."""
        if self.out is not None and self._bytes() != self._size:
            self._size = self._bytes()
            for key, record in read_records(self.out / RUNS).items():
                self.done.setdefault(key, record)

    def finish(self, record: dict[str, Any]) -> None:
        """Keep the record of a task that was claimed."""
        key = record["key"]
        self.done[key] = record
        if self.out is None:
            return
        append = Claim(self.out / FOLDER / f"{_APPEND}.lock")
        append.acquire(wait=True)
        try:
            is_alone = self._bytes() == self._size
            _append(self.out / RUNS, record)
            if is_alone:
                self._size = self._bytes()
        finally:
            append.release()
        claim = self._held.pop(key, None)
        if claim is not None:
            claim.release()

    def close(self) -> None:
        """Give back what was not finished."""
        for claim in self._held.values():
            claim.release()
        self._held.clear()
        if self.out is not None:
            for file in (self.out / FOLDER).glob("*.lock"):  # of processes that were killed
                left = Claim(file)
                if left.acquire():
                    left.release()
            with suppress(OSError):  # others still work here
                (self.out / FOLDER).rmdir()

    def _bytes(self) -> int:
        file = None if self.out is None else self.out / RUNS
        return file.stat().st_size if file is not None and file.exists() else 0


class Waiting:
    """Tasks that are still to be run, handed out one by one when there is room for one."""

    def __init__(self, tasks: Mapping[str, Task], claims: Claims) -> None:
        self._tasks, self._claims = dict(tasks), claims
        self.finished_elsewhere: list[str] = []
        """Keys of tasks that other processes have run meanwhile."""

    def __iter__(self) -> Iterator[Task | None]:
        """The next task; none where other processes are at all that are left."""
        while self._tasks:
            task = self._next()
            if task is not None or self._tasks:
                yield task

    def _next(self) -> Task | None:
        for key in list(self._tasks):
            if self._claims.take(key):
                return self._tasks.pop(key)
            if key in self._claims.done:
                del self._tasks[key]
                self.finished_elsewhere.append(key)
        return None


def _append(path: Path, record: Mapping[str, Any]) -> None:
    """Write a finished run to a line of its own, whole or not at all.

    A torn line, of a process that was killed, is cut off first.
    """
    line = json.dumps({**record, "checksum": record_checksum(record)}) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT)
        try:
            end = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(descriptor, end)
            try:
                write_all(descriptor, memoryview(line.encode()), end)
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"`{path}` could not be written: {error.strerror}") from None
