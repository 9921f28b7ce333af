"""Finished parts of a long task, with which the same task resumes after it was killed.

A work folder lies beside its target as `.NAME.work`. Its journal, a file of JSON lines that only
grows, says which task it is and which parts of it are finished, with what is known of each and the
files that it needs. A line that a kill cut short is removed when the folder is opened again. A task
of another identity starts from the beginning.

    {"identity": ...}
    {"part": "counts", "value": {"loops": 3}, "files": ["counts.npy"]}
    {"forgotten": "counts"}

    with WorkFolder(Path("cora.store"), {"seed": 0}) as work:
        if work.finished("counts") is None:
            np.save(work.file("counts.npy"), count())
            work.finish("counts", {"loops": 3}, ["counts.npy"])
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from scr.errors import MemoryBudgetError, SCRError, StoreError
from scr.storage._atomic import NOTHING, disk_error, disk_errors
from scr.storage._descriptors import open_descriptor, write_at

JOURNAL = "journal.jsonl"
LOCK = "lock"


def work_folder_path(target: Path) -> Path:
    """The work folder of a target."""
    return target.parent / f".{target.name}.work"


def work_bytes(target: Path) -> int:
    """Disk that the work on a target takes so far."""
    files = work_folder_path(target).rglob("*")
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())


def discard_work(target: Path) -> None:
    """Remove what is left of the work on a target, unless another process is at it."""
    folder = work_folder_path(target)
    with suppress(Timeout, OSError):
        if folder.exists():
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)


class WorkFolder:
    """Finished parts of one task, for one process at a time; use it as a context manager.

    The folder is removed in the end, and on an error that the same task would meet again. It stays
    when the task is interrupted or short of memory; when the disk is full, what is unfinished is
    removed.
    """

    def __init__(self, target: Path, identity: Any) -> None:
        """Plan the work folder of what a task writes.

        `identity` is all that decides the content of the parts, in plain values.
        """
        self.target, self.path = target, work_folder_path(target)
        self._identity = json.loads(json.dumps(identity))
        self._parts: dict[str, tuple[Any, list[str]]] = {}
        self._lock = FileLock(self.path / LOCK, timeout=0)
        self._journal = -1

    def __enter__(self) -> Self:
        with disk_errors(self.target):
            self._acquire()
            try:
                self._journal = open_descriptor(self.file(JOURNAL), os.O_RDWR | os.O_CREAT)
                if not self._recall():
                    self.restart()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        cause = error if isinstance(error, OSError) else getattr(error, "__cause__", None)
        problem = cause if isinstance(cause, OSError) else None
        is_final = isinstance(error, SCRError) and not (
            problem is not None or isinstance(error, (StoreError, MemoryBudgetError))
        )
        is_useful = error is not None and bool(self._parts) and not is_final
        try:
            if not is_useful:
                shutil.rmtree(self.path, ignore_errors=True)
            elif problem is not None:
                self._remove_all_but({name for _, files in self._parts.values() for name in files})
        finally:
            self._close()
        if problem is None or not isinstance(error, (OSError, StoreError)):
            return
        failure = disk_error(error, self.target) if isinstance(error, OSError) else error
        if is_useful:
            failure = StoreError(
                f"{failure.message.removesuffix(NOTHING)}; what is finished stays in `{self.path}`",
                hint="run the same again once that is fixed, which resumes; or remove the folder",
            )
        if failure is not error:
            raise failure from problem

    def file(self, name: str) -> Path:
        """The path of a file of a part."""
        return self.path / name

    def parts(self) -> Iterator[str]:
        """Names of the finished parts."""
        return iter(list(self._parts))

    def finished(self, part: str) -> Any:
        """What is known of a finished part, or none if it or one of its files is missing."""
        value, files = self._parts.get(part, (None, []))
        return value if all(self.file(name).exists() for name in files) else None

    def finish(self, part: str, value: Any = True, files: Iterable[str] = ()) -> None:
        """Record that a part is finished, in place of an earlier one of this name.

        What is known of it (`value`) is in plain values; the files or folders that it needs are
        whole and synced.
        """
        kept = list(files)
        self._append({"part": part, "value": value, "files": kept})
        self._parts[part] = value, kept

    def forget(self, part: str) -> None:
        """Forget a part, then remove its files."""
        _, files = self._parts.pop(part, (None, None))
        if files is not None:
            self._append({"forgotten": part})
            for name in files:
                _remove(self.file(name))

    def restart(self) -> None:
        """Remove everything and begin from the start."""
        self._parts.clear()
        self._remove_all_but(set())
        os.ftruncate(self._journal, 0)
        self._append({"identity": self._identity})

    def _acquire(self) -> None:
        while True:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
            except FileNotFoundError:
                continue  # the process before has just finished, and removed the folder
            except Timeout:
                if not self.file(LOCK).exists():
                    continue
                raise StoreError(
                    f"Another process is making `{self.target}` already",
                    hint="wait for it, or write elsewhere",
                ) from None
            if self.file(LOCK).exists():
                return
            self._lock.release()

    def _close(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        self._lock.release()

    def _remove_all_but(self, names: set[str]) -> None:
        for entry in self.path.iterdir():
            if entry.name not in {*names, JOURNAL, LOCK}:
                _remove(entry)

    def _recall(self) -> bool:
        """Read the journal; false if it is empty, damaged or of another task."""
        lines, whole = [], 0
        for line in self.file(JOURNAL).read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
            whole += len(line)
        os.ftruncate(self._journal, whole)
        try:
            if not lines or lines[0]["identity"] != self._identity:
                return False
            for line in lines[1:]:
                if "part" in line:
                    self._parts[line["part"]] = line["value"], list(line["files"])
                else:
                    self._parts.pop(line["forgotten"], None)
        except (KeyError, TypeError):
            return False
        return True

    def _append(self, line: dict[str, Any]) -> None:
        """Add a line to the journal, whole and synced or not at all."""
        data = json.dumps(line).encode() + b"\n"
        size = os.fstat(self._journal).st_size
        try:
            if write_at(self._journal, data, size) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._journal)
        except OSError:
            os.ftruncate(self._journal, size)
            raise


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)
