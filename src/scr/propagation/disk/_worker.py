"""A worker of a cluster: opens the graph once, computes blocks or parts of them, then joins parts.

It writes pieces under names that no other worker uses, and tells the process that gave out the
blocks what it wrote. Only that process gives pieces their names and keeps the journal. So a worker
that was taken for lost and still writes cannot change a piece that another one has made. Stretches
of the result are written where they belong, by several at the worst: of the same pieces, all make
the same bytes.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from scr.errors import StoreError
from scr.propagation.disk._blocks import Blocks
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._joiner import Joiner
from scr.propagation.disk._pieces import DamagedPieceError, WrittenPiece, read_checked
from scr.propagation.disk._sending import SentRequest, received
from scr.propagation.disk._steps import Step
from scr.propagation.disk._stretches import JoinedStretch, Stretch
from scr.storage import disk_errors


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What every worker is sent once."""

    request: SentRequest
    plan: DiskPlan
    folder: Path
    """The work folder."""
    file: Path
    """The result."""
    target: Path
    """What messages name."""


class BlockTask(NamedTuple):
    """A block of columns for a worker, or a range of rows of one hop of it."""

    block: int
    number: int | None
    """Of the range; none: the block is computed whole."""
    steps: list[Step]
    stored: Mapping[str, list[int]]
    """Checksums of the pieces that the steps begin with."""


class BlockPieces(NamedTuple):
    """What a worker made of a block."""

    written: list[WrittenPiece]
    damaged: str | None = None
    """A stored piece that was not what the journal says, so that nothing was made."""


def start_worker(setup: Setup) -> Callable[[Any], BlockPieces | JoinedStretch]:
    """Set up a worker of an `Engine`.

    It makes `BlockPieces` of a `BlockTask`, and a `JoinedStretch` of a `Stretch`.

    Raises:
        StoreError: The worker does not see the graph or the work folder.
    """
    if not setup.folder.is_dir():
        raise StoreError(
            f"A worker on `{socket.gethostname()}` does not see `{setup.folder}`",
            hint="write the hops to a file system that all machines of the cluster share",
        )
    return _Worker(setup)


class _Worker:
    """Computes blocks, then puts stretches of the result together."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._request = setup, received(setup.request)
        self._pieces = _WorkerPieces(setup.folder, setup.plan.slab_rows)
        self._blocks: Blocks | None = None
        self._joiner: Joiner | None = None

    def __call__(self, task: BlockTask | Stretch) -> BlockPieces | JoinedStretch:
        with disk_errors(self._setup.target):
            return self._join(task) if isinstance(task, Stretch) else self._compute(task)

    def _compute(self, task: BlockTask) -> BlockPieces:
        if self._blocks is None:
            self._blocks = Blocks(self._request, self._setup.plan, self._pieces)
        self._pieces.begin(task.stored)
        try:
            if task.number is None:
                self._blocks.compute(task.block, task.steps)
            else:
                self._blocks.compute_rows(task.block, task.steps, task.number)
        except DamagedPieceError as damaged:
            return BlockPieces([], damaged.name)
        return BlockPieces(self._pieces.written)

    def _join(self, stretch: Stretch) -> JoinedStretch:
        self._blocks = None  # with all its memory
        if self._joiner is None:
            self._joiner = Joiner(
                self._request, self._setup.plan, self._setup.folder, self._setup.file
            )
        try:
            return JoinedStretch(self._joiner.join(stretch).result())
        except DamagedPieceError as damaged:
            return JoinedStretch([], damaged.name)


class _WorkerPieces:
    """Pieces of one block at a time, under names of their own."""

    def __init__(self, folder: Path, slab_rows: int) -> None:
        self._folder, self.slab_rows = folder, slab_rows
        self._stored: Mapping[str, list[int]] = {}
        self._ending = ""
        self.written: list[WrittenPiece] = []

    def begin(self, stored: Mapping[str, list[int]]) -> None:
        """Begin a block."""
        self._stored, self.written = stored, []
        self._ending = f".{os.getpid()}-{uuid.uuid4().hex[:12]}"

    def file(self, name: str) -> Path:
        return self._folder / f"{name}{self._ending}"

    def names(self) -> list[str]:
        return []

    def remove(self, name: str) -> None:
        self.file(name).unlink(missing_ok=True)

    def record(self, name: str, size: int, checksums: list[int]) -> None:
        self.written.append(WrittenPiece(name, self.file(name).name, size, checksums))

    def read(self, name: str, out: NDArray[Any]) -> None:
        rows, file = self.slab_rows, self._folder / name
        for slab, at in enumerate(range(0, len(out), rows)):
            if not read_checked(file, at, self._stored[name][slab], out[at : at + rows]):
                raise DamagedPieceError(name)
