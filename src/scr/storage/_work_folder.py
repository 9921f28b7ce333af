"""Finished parts of a long task, with which the same task resumes after it was killed.

A work folder lies beside its target as `.NAME.work`. Its journal, a file of JSON lines that only
grows, says which task it is and which parts of it are finished, with what is known of each and the
files that it needs. A line that a kill cut short, or whose checksum is wrong, is removed with all
that follow it when the folder is opened again. A task of another identity starts from the
beginning, and a part whose files have changed is made again.

    {"identity": ..., "checksum": "..."}
    {"part": "counts", "value": {"loops": 3}, "files": {"counts.npy": ...}, "checksum": "..."}
    {"forgotten": "counts", "checksum": "..."}

    with WorkFolder(Path("cora.store"), {"seed": 0}) as work:
        if work.finished("counts") is None:
            np.save(work.file("counts.npy"), count())
            work.finish("counts", {"loops": 3}, ["counts.npy"])
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from scr.errors import EngineError, MemoryBudgetError, SCRError, StoreError
from scr.storage._atomic import NOTHING, disk_error, disk_errors
from scr.storage._descriptors import open_descriptor, write_at
from scr.storage._file_record import is_unchanged, kind_of, record_of, stats_of
from scr.storage._manifest import MANIFEST, ArrayEntry
from scr.storage._staging import LockedFolder, remove

JOURNAL = "journal.jsonl"
_DIGEST_BYTES = 8
_ENDING = b', "checksum": "%s"}\n'
_ENDING_BYTES = len(_ENDING % (b"0" * 2 * _DIGEST_BYTES))


class _Part(NamedTuple):
    """A line of the journal."""

    value: Any
    files: dict[str, Any]
    """What is known of each file (`_file_record.py`)."""


def work_folder_path(target: Path) -> Path:
    """The work folder of a target."""
    return target.parent / f".{target.name}.work"


def work_bytes(target: Path) -> int:
    """Disk that the work on a target takes so far."""
    files = work_folder_path(target).rglob("*")
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())


def discard_work(target: Path) -> None:
    """Remove what is left of the work on a target, unless another process is at it."""
    folder = LockedFolder(work_folder_path(target), target)
    with suppress(StoreError, OSError):
        if folder.path.exists():
            folder.acquire(wait=False)
            folder.remove()


def discard_old_work(target: Path) -> None:
    """As `discard_work`, of work that is older than the target: a kill came before its removal."""
    journal, made = work_folder_path(target) / JOURNAL, target / MANIFEST
    with suppress(OSError):
        made = made if made.exists() else target
        if not journal.exists() or journal.stat().st_mtime_ns <= made.stat().st_mtime_ns:
            discard_work(target)


class WorkFolder:
    """Finished parts of one task, for one process at a time; use it as a context manager.

    The folder is removed in the end, and on an error that the same task would meet again. It stays
    when the task is interrupted, short of memory or loses its workers; when the disk is full, what
    is unfinished is removed.
    """

    def __init__(self, target: Path, identity: Any) -> None:
        """Plan the work folder of what a task writes.

        `identity` is all that decides the content of the parts, in plain values.
        """
        self.target, self.path = target, work_folder_path(target)
        self._identity = json.loads(json.dumps(identity))
        self._parts: dict[str, _Part] = {}
        self._checked: set[str] = set()
        self._folder = LockedFolder(self.path, target)
        self._journal = -1

    def __enter__(self) -> Self:
        is_new = False
        with disk_errors(self.target):
            self._folder.acquire(wait=False)
            try:
                if not self.file(JOURNAL).is_file() or self.file(JOURNAL).is_symlink():
                    remove(self.file(JOURNAL))
                self._journal = open_descriptor(self.file(JOURNAL), os.O_RDWR | os.O_CREAT)
                is_new = not self._recall()
                if is_new:
                    self.restart()
                self._remove_unfinished()
            except BaseException as error:
                if isinstance(error, OSError) and is_new:
                    self._folder.remove()
                self._close()
                raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        cause = error if isinstance(error, OSError) else getattr(error, "__cause__", None)
        problem = cause if isinstance(cause, OSError) else None
        is_final = isinstance(error, SCRError) and not (
            problem is not None or isinstance(error, (EngineError, StoreError, MemoryBudgetError))
        )
        is_useful = error is not None and bool(self._parts) and not is_final
        try:
            if not is_useful:
                self._folder.remove()
            elif problem is not None:
                self._remove_unfinished()
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
        """What is known of a finished part; none if it, or one of its files, is missing or changed.

        A part whose files have changed is forgotten.
        """
        if part not in self._parts:
            return None
        value, files = self._parts[part]
        if not all(self.file(name).exists() for name in files):
            return None
        if part not in self._checked:
            if not all(is_unchanged(self.file(name), record) for name, record in files.items()):
                self.forget(part)
                return None
            self._checked.add(part)
        return value

    def finish(
        self,
        part: str,
        value: Any = True,
        files: Iterable[str] | Mapping[str, ArrayEntry | None] = (),
        *,
        changing: Iterable[str] = (),
    ) -> None:
        """Record that a part is finished, in place of an earlier one of this name.

        What is known of it (`value`) is in plain values; the files or folders that it needs are
        whole and synced. Of `.npy` files of which the checksums are known, those serve to recognize
        them. Files that are `changing` are only looked for, and need not be synced: whoever resumes
        with them checks them.
        """
        entries = files if isinstance(files, Mapping) else dict.fromkeys(files)
        records = {name: record_of(self.file(name), entry) for name, entry in entries.items()}
        records |= {name: kind_of(self.file(name)) for name in changing}
        self._record(part, _Part(value, records))

    def finish_files(self, part: str, value: Any, files: Iterable[str]) -> None:
        """As `finish`, of files that are many and used up one by one (`use_up`).

        They are recognized by their sizes and times alone, as those of a folder are.
        """
        self._record(part, _Part(value, {name: stats_of(self.file(name)) for name in files}))

    def use_up(self, part: str, value: Any, files: Iterable[str]) -> None:
        """Record that a part needs some of its files no more, then remove them."""
        records, used = dict(self._parts[part].files), list(files)
        for name in used:
            del records[name]
        self._record(part, _Part(value, records))
        for name in used:
            remove(self.file(name))

    def _record(self, name: str, part: _Part) -> None:
        self._append({"part": name, "value": part.value, "files": part.files})
        self._parts[name] = part
        self._checked.add(name)

    def forget(self, part: str) -> None:
        """Forget a part, then remove its files."""
        if part in self._parts:
            self._append({"forgotten": part})
            for name in self._parts.pop(part).files:
                remove(self.file(name))

    def restart(self) -> None:
        """Remove everything and begin from the start."""
        self._parts.clear()
        self._remove_unfinished()
        os.ftruncate(self._journal, 0)
        self._append({"identity": self._identity})

    def _close(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        self._folder.release()

    def _remove_unfinished(self) -> None:
        files = {self.file(name) for part in self._parts.values() for name in part.files}
        folders = {file.parent for file in files} - {self.path}
        self._folder.sweep(JOURNAL, *(entry.name for entry in files | folders))
        for folder in folders:
            for entry in folder.iterdir() if folder.is_dir() else ():
                if entry not in files:
                    remove(entry)

    def _recall(self) -> bool:
        """Read the journal; false if it is empty, damaged or of another task."""
        lines, whole = [], 0
        for line in self.file(JOURNAL).read_bytes().splitlines(keepends=True):
            content = _checked_line(line)
            if content is None:
                break
            lines.append(content)
            whole += len(line)
        os.ftruncate(self._journal, whole)
        if not lines or lines[0].get("identity") != self._identity:
            return False
        try:
            for content in lines[1:]:
                if "part" in content:
                    files = {_inside(name): known for name, known in content["files"].items()}
                    self._parts[content["part"]] = _Part(content["value"], files)
                else:
                    self._parts.pop(content["forgotten"], None)
        except (AttributeError, KeyError, TypeError, ValueError):
            return False
        return True

    def _append(self, line: dict[str, Any]) -> None:
        """Add a line to the journal, whole and synced or not at all."""
        start = json.dumps(line).encode().removesuffix(b"}")
        data = start + _ENDING % _digest(start)
        size = os.fstat(self._journal).st_size
        try:
            if write_at(self._journal, data, size) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._journal)
        except OSError:
            os.ftruncate(self._journal, size)
            raise


def _checked_line(line: bytes) -> dict[str, Any] | None:
    """What a line of the journal says; none if it is not as it was written."""
    start, ending = line[:-_ENDING_BYTES], line[-_ENDING_BYTES:]
    if ending != _ENDING % _digest(start):
        return None
    content: dict[str, Any] = json.loads(start + b"}")
    return content


def _inside(name: str) -> str:
    """A name that stays in the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).parts:
        raise ValueError(f"{name!r} is outside the folder")
    return name


def _digest(start: bytes) -> bytes:
    return hashlib.blake2b(start, digest_size=_DIGEST_BYTES).hexdigest().encode()
