"""Multiply a graph larger than memory by its features, a few columns at a time.

Columns of A X do not depend on each other. So X is cut into blocks of columns, and each pass
streams the adjacency once while two matrices of one block are in memory. Each hop of a block
becomes a part on disk; `_assembly.py` puts the parts together, and reads hop 0 from the features
where these are dense and all rows are kept.

A work that was killed resumes with the first hop that is missing. Where all rows are kept, the
part of a hop is what the next one is computed from. Where only some are, the whole hop of the
block is written too, as a state, if the disk has room: two states take turns, or one is replaced
after each hop, or there is none and a block begins again. Of a walk over a subset of relations
there is none: such walks are many and short, and a whole hop costs more to write than to compute.

On a cluster, a block with all its hops is what a worker does (`_worker.py`). The journal is kept
here: it knows a block once all of it is written, so a lost worker, or a kill, costs the blocks that
were being computed.

Reads a graph store, writes `Hops`; `_plan.py` picks the block width, `_steps.py` the steps,
`_blocks.py` computes them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from scr.compute import OnProgress, ProgressCount
from scr.engines import Engine, LocalEngine, Needs
from scr.errors import StoreError
from scr.propagation.disk._assembly import Layout, assemble, result_is_there
from scr.propagation.disk._blocks import EDGES, Blocks
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._pieces import STATE, DamagedPieceError, Pieces
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._sending import sendable
from scr.propagation.disk._steps import Step, block_steps
from scr.propagation.disk._worker import BlockTask, Setup, start_worker


class OutOfCore:
    """One propagation to disk; `run` does what is missing of it."""

    def __init__(
        self,
        request: DiskRequest,
        plan: DiskPlan,
        work: Pieces,
        on_progress: OnProgress | None,
        engine: Engine | None = None,
    ) -> None:
        self.request, self.plan, self.work = request, plan, work
        self._engine = engine or LocalEngine()
        self._on_progress = on_progress or (lambda *_: None)
        self._layout = Layout.of(request, plan)

    def run(self, file: Path) -> dict[int, str]:
        """Make the hops in a `.npy`, resuming earlier work; returns checksums as `assemble`."""
        work = self.work
        if work.assembled is not None and not result_is_there(work, file, self._layout):
            # With the half-made result, rows of the parts are gone.
            self.work.begin(self.plan.layout)
        found: set[str] = set()
        while True:
            try:
                self._compute_missing()
                return assemble(
                    self.work, self._layout, file, slabs=self.plan.slabs,
                    unit=self.request.config.hop_scale == "unit", threads=self.request.threads,
                    on_rows=functools.partial(self._on_progress, "Putting hops together"),
                )  # fmt: skip
            except DamagedPieceError as damaged:
                if damaged.name in found:
                    raise StoreError(
                        f"`{self.work.file(damaged.name)}` was written twice, and was not what was "
                        "written when it was read; expected a disk that keeps it",
                        hint="look for errors of the disk, or write elsewhere",
                    ) from None
                found.add(damaged.name)
                warnings.warn(
                    f"`{self.work.file(damaged.name)}` had changed since it was written; "
                    "it is made again",
                    stacklevel=2,
                )

    def _compute_missing(self) -> None:
        blocks = range(len(self._layout.blocks))
        steps = {block: todo for block in blocks if (todo := self._block_steps(block))}
        if not steps:
            return
        edges = dict(self.request.walks)
        passes = {
            block: sum(edges[step.way] for step in todo if step.way is not None)
            for block, todo in steps.items()
        }
        progress = ProgressCount("Propagating", sum(passes.values()), self._on_progress)
        if self.request.team is None:
            here = Blocks(self.request, self.plan, self.work, progress.add)
            for block, todo in steps.items():
                here.compute(block, todo)
        else:
            for block in self._on_workers(steps):
                progress.add(passes[block])
        for file in self.work.path.glob(f"{EDGES}*"):
            file.unlink()

    def _on_workers(self, steps: Mapping[int, list[Step]]) -> Iterator[int]:
        """Let the workers of a cluster make the missing pieces; yields blocks as they finish."""
        team, work = self.request.team, self.work
        assert team is not None
        setup = Setup(
            request=sendable(self.request, team.cores), plan=self.plan,
            folder=work.path.absolute(), target=work.target,
        )  # fmt: skip
        tasks = [BlockTask(block, todo, self._checksums(block)) for block, todo in steps.items()]
        needs = Needs(cores=team.cores, memory_bytes=self.plan.worker_bytes)
        for task, made in self._engine.run(
            start_worker, setup, tasks, needs=needs, most=team.workers
        ):
            if made.damaged is not None:
                work.remove(made.damaged)
                raise DamagedPieceError(made.damaged)
            for piece in made.written:
                work.adopt(piece)
            for name in work.names():
                if name.startswith(f"{STATE}{task.block}-"):
                    work.remove(name)
            # Of workers that were lost, or taken for lost.
            for file in work.path.glob(f"*-{task.block}-*.*"):
                file.unlink(missing_ok=True)
            yield task.block
        self._engine.release()  # putting the hops together takes memory, too

    def _checksums(self, block: int) -> dict[str, list[int]]:
        """Of the pieces that hold all rows of some hop of a block."""
        names = [self._layout.state(block, place) for place in range(self.request.matrices)]
        return {name: self.work.finished(name)["crc32"] for name in names if self.work.has(name)}

    def _block_steps(self, block: int) -> list[Step]:
        places, assembled = self._layout.places, self.work.assembled
        least = None if assembled is None else assembled * self._layout.row_bytes(block)
        missing = {
            place for place in places if not self.work.has(self._layout.part(block, place), least)
        }
        stored = {place for place in places if self.work.has(self._layout.state(block, place))}
        return block_steps([way for way, _ in self.request.walks], missing, stored)
