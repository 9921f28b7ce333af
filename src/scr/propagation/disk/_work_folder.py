"""Finished pieces of a long propagation, kept so that a killed one goes on where it was.

A work folder lies beside its target under a hidden name. Each piece is a file of rows, written
once; the journal, a file of JSON lines that only grows, says which pieces are whole, with one
CRC-32 for each slab of rows. A line that a kill cut short is taken away when the folder is opened
again. What a piece holds is believed only after its size and checksums are compared.

    {"identity": ..., "layout": {...}}            what is made, and how it is cut
    {"piece": "part-0-3", "bytes": ..., "crc32": [...]}
    {"gone": "state-0-2"}                         removed, or found damaged
    {"assembled": 8192}                           rows from here on are in the result
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.storage import as_bytes, read_exactly

JOURNAL = "journal.jsonl"
SYNC_BYTES = 256 * 2**20
"""Bytes after which written data is sent to the disk, so that the last wait is short."""


class DamagedPieceError(Exception):
    """A piece is not what the journal says; it has been forgotten and must be made again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Piece:
    """What the journal says of one file."""

    bytes: int
    crc32: tuple[int, ...]
    """One per slab of rows."""


def work_folder_path(target: Path) -> Path:
    """Where the work on a target is kept."""
    return target.parent / f".{target.name}.work"


def work_bytes(target: Path) -> int:
    """Disk that the work on a target takes so far."""
    files = work_folder_path(target).rglob("*")
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())


def discard_work(target: Path) -> None:
    """Remove what is left of the work on a target, unless another process is at it."""
    if not work_folder_path(target).exists():
        return
    try:
        with opened(target) as work:
            work.discard()
    except (StoreError, OSError):
        return


class WorkFolder:
    """The pieces of one work and their journal; `opened` makes one."""

    def __init__(self, path: Path, journal: int) -> None:
        self.path = path
        self.layout: dict[str, Any] = {}
        self.assembled: int | None = None
        """First row that is in the result already; none before assembly has begun."""
        self._pieces: dict[str, Piece] = {}
        self._journal = journal

    @property
    def slab_rows(self) -> int:
        """Rows under one checksum."""
        return int(self.layout["slab_rows"])

    def file(self, name: str) -> Path:
        """The file of a piece."""
        return self.path / name

    def has(self, name: str, at_least: int | None = None) -> bool:
        """Whether a piece is finished and of the right size.

        Args:
            name: The piece.
            at_least: Bytes that must be left of a piece that is being assembled; all by default.
        """
        piece = self._pieces.get(name)
        if piece is None:
            return False
        try:
            size = self.file(name).stat().st_size
        except FileNotFoundError:
            return False
        return size == piece.bytes if at_least is None else at_least <= size <= piece.bytes

    def pieces(self) -> list[str]:
        """Names of the pieces that the journal knows."""
        return list(self._pieces)

    def record(self, name: str, piece: Piece) -> None:
        """Note a piece whose file is whole and synced."""
        self._pieces[name] = piece
        self._append({"piece": name, "bytes": piece.bytes, "crc32": list(piece.crc32)})

    def remove(self, name: str) -> None:
        """Forget a piece, then remove its file."""
        if self._pieces.pop(name, None) is not None:
            self._append({"gone": name})
        self.file(name).unlink(missing_ok=True)

    def record_assembled(self, row: int) -> None:
        """Note that rows from here on are in the result and synced."""
        self.assembled = row
        self._append({"assembled": row})

    def read_slab(self, name: str, slab: int, out: NDArray[Any]) -> None:
        """Fill an array with one slab of a piece, and compare its checksum.

        Raises:
            DamagedPieceError: It is not what was written.
        """
        file, piece = self.file(name), self._pieces[name]
        try:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                read_exactly(descriptor, out, slab * self.slab_rows * _row_bytes(out), file)
            finally:
                os.close(descriptor)
        except (StoreError, FileNotFoundError):
            self.remove(name)
            raise DamagedPieceError(name) from None
        if zlib.crc32(as_bytes(out)) != piece.crc32[slab]:
            self.remove(name)
            raise DamagedPieceError(name)

    def discard(self) -> None:
        """Remove the folder, while nobody else can have it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def restart(self, identity: str, layout: dict[str, Any]) -> None:
        """Throw everything away and begin another work."""
        for file in self.path.iterdir():
            if file.is_dir():
                shutil.rmtree(file)
            elif file.name != JOURNAL:
                file.unlink()
        self._pieces, self.assembled, self.layout = {}, None, dict(layout)
        os.ftruncate(self._journal, 0)
        self._append({"identity": identity, "layout": layout})

    def recall(self, identity: str) -> bool:
        """Read the journal; false if it is empty or of another work."""
        with open(self._journal, "rb", closefd=False) as stream:
            stream.seek(0)
            text = stream.read()
        lines, whole = [], 0
        for line in text.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
            whole += len(line)
        os.ftruncate(self._journal, whole)
        try:
            return self._replay(lines, identity)
        except (KeyError, TypeError, ValueError, AttributeError):
            return False

    def _replay(self, lines: list[Any], identity: str) -> bool:
        if not lines or lines[0]["identity"] != identity:
            return False
        self.layout = dict(lines[0]["layout"])
        for line in lines[1:]:
            if "piece" in line:
                self._pieces[line["piece"]] = Piece(int(line["bytes"]), tuple(line["crc32"]))
            elif "gone" in line:
                self._pieces.pop(line["gone"], None)
            else:
                self.assembled = int(line["assembled"])
        return True

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        size = os.fstat(self._journal).st_size
        try:
            if os.pwrite(self._journal, data, size) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._journal)
        except OSError:
            os.ftruncate(self._journal, size)
            raise


@contextmanager
def opened(target: Path) -> Iterator[WorkFolder]:
    """Open or make the work folder of a target, for this process alone.

    Raises:
        StoreError: Another process is at work on the same target.
    """
    folder = work_folder_path(target)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        journal = os.open(folder / JOURNAL, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"Another process is at work on `{target}`; expected to be the only one",
                    hint="wait for it, or write elsewhere",
                ) from None
            if not _is_still(folder / JOURNAL, journal):
                continue  # whoever had it before has finished, and removed it
            yield WorkFolder(folder, journal)
            return
        finally:
            os.close(journal)


class PieceWriter:
    """Writes the rows of one piece in their order; `finish` makes it known to the journal."""

    def __init__(self, work: WorkFolder, name: str) -> None:
        self._work, self._name = work, name
        work.remove(name)
        self._descriptor = os.open(work.file(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._crc32: list[int] = []
        self._rows = self._bytes = self._unsynced = 0

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows; C-contiguous."""
        while len(rows):
            inside = self._rows % self._work.slab_rows
            part, rows = np.split(rows, [min(self._work.slab_rows - inside, len(rows))])
            data = as_bytes(part)
            if inside == 0:
                self._crc32.append(0)
            self._crc32[-1] = zlib.crc32(data, self._crc32[-1])
            self._rows += len(part)
            self._bytes += len(data)
            while len(data):
                data = data[os.write(self._descriptor, data[: 2**26]) :]
            self._sync_if_due(part.nbytes)

    def finish(self) -> None:
        """Send everything to the disk, then note the piece."""
        os.fsync(self._descriptor)
        self.close()
        self._work.record(self._name, Piece(self._bytes, tuple(self._crc32)))

    def close(self) -> None:
        """Leave the file as it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _sync_if_due(self, written: int) -> None:
        self._unsynced += written
        if self._unsynced >= SYNC_BYTES:
            os.fsync(self._descriptor)
            self._unsynced = 0


def _is_still(file: Path, descriptor: int) -> bool:
    """Whether a file that was opened has not been removed since."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _row_bytes(rows: NDArray[Any]) -> int:
    return int(rows.nbytes // len(rows)) if len(rows) else 0
