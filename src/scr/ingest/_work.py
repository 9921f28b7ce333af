"""What an ingest has finished so far, beside the store that it makes.

A work folder has a name that follows from the store's, so that the same command finds it again
after it was killed. It holds finished parts and a record that says of which source and options
they are; another source, or the same one with other sizes or times, starts afresh.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from scr.errors import MemoryBudgetError, SCRError, StoreError
from scr.storage import NOTHING, ArrayEntry, disk_error

_RECORD = "finished.json"


def work_folder(store: Path) -> Path:
    """Where an ingest keeps what it has finished."""
    return store.parent / f".{store.name}.ingest"


def remove_work(store: Path) -> None:
    """Remove what an ingest has left of a store that was then made in another way."""
    folder = work_folder(store)
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return  # there is none
    try:
        with suppress(BlockingIOError):  # somebody is at work there
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


class WorkFolder:
    """Finished parts of one ingest; use it as a context manager.

    The folder is removed in the end, and on an error that the same command would meet again. It
    stays when the work is interrupted; when the disk is full, only what is finished does.
    """

    def __init__(self, store: Path, identity: dict[str, Any]) -> None:
        """Plan a work folder.

        Args:
            store: The store that is being made.
            identity: Of what the parts are made; plain values.
        """
        self.store, self.path = store, work_folder(store)
        self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._finished: dict[str, Any] = {}
        self._files: set[str] = set()
        self._lock = -1

    def __enter__(self) -> WorkFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise StoreError(f"Another process is making `{self.store}` already") from None
            self._read_record()
        except OSError as error:
            raise disk_error(error, self.store) from error
        return self

    def _read_record(self) -> None:
        try:
            record = json.loads((self.path / _RECORD).read_text(encoding="utf-8"))
            if record["identity"] == self._identity:
                self._finished, self._files = dict(record["finished"]), set(record.get("files", ()))
                return
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            pass
        self._remove_all_but(set())

    def _remove_all_but(self, kept: set[str]) -> None:
        for entry in self.path.iterdir():
            if entry.name == "lock" or entry.name in kept:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_disk = isinstance(getattr(error, "__cause__", None), OSError)
        is_useful = error is not None and bool(self._finished)
        if isinstance(error, SCRError) and not (is_disk or isinstance(error, MemoryBudgetError)):
            is_useful = False
        try:
            if not is_useful:
                shutil.rmtree(self.path, ignore_errors=True)
            elif is_disk:
                self._remove_all_but({*self._files, _RECORD})
        finally:
            os.close(self._lock)
        if isinstance(error, StoreError) and is_useful and is_disk:
            raise StoreError(
                f"{error.message.removesuffix(NOTHING)}; what is finished stays in `{self.path}`",
                hint="run the same command again when that is mended, or remove the folder",
            ) from error

    def file(self, name: str) -> Path:
        """Where a part lies or will lie."""
        return self.path / name

    def finished(self, part: str, files: Iterable[str] = ()) -> Any:
        """What is known of a finished part, or none if it or one of its files is not there."""
        if not all(self.file(name).exists() for name in files):
            return None
        return self._finished.get(part)

    def finish(self, part: str, known: Any, files: Iterable[str] = ()) -> None:
        """Record, on the disk, that a part is finished as far as `known` says, and its files."""
        self._finished[part] = known
        self._files.update(files)
        record = {
            "identity": self._identity, "finished": self._finished, "files": sorted(self._files),
        }  # fmt: skip
        partial = self.path / f"{_RECORD}.partial"
        try:
            with partial.open("w", encoding="utf-8") as stream:
                json.dump(record, stream)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(self.path / _RECORD)
        except OSError as error:
            raise disk_error(error, self.store) from error


def entry_of(known: dict[str, Any]) -> ArrayEntry:
    """An entry of a manifest from its record."""
    fields = dict(known)
    fields["shape"], fields["checksums"] = tuple(known["shape"]), tuple(known["checksums"])
    return ArrayEntry(**fields)


def source_identity(*sources: Path) -> list[list[Any]]:
    """Names, sizes and times of the files of some sources, hidden ones left out."""
    found = []
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            if file.is_file() and not any(
                part.startswith(".") for part in file.relative_to(source).parts
            ):
                status = file.stat()
                found.append([str(file.absolute()), status.st_size, status.st_mtime_ns])
    return found
