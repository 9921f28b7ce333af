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

On a cluster, a worker computes a block with all its hops, or, where there are more workers than
blocks, some rows of one hop (`_row_ranges.py`). The journal is kept here: it knows what a task made
once all of it is written, so a lost worker, or a kill, costs the tasks that were being done. The
same workers put the parts together.

Reads a graph store, writes `Hops`; `_plan.py` picks the block width, `_steps.py` the steps,
`_blocks.py` computes them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from scr.compute import OnProgress, ProgressCount
from scr.engines import Engine, LocalEngine, Needs
from scr.errors import StoreError
from scr.propagation.disk._assembly import assemble, result_is_there
from scr.propagation.disk._blocks import EDGES, Blocks
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._joiner import Joiner
from scr.propagation.disk._layout import Layout
from scr.propagation.disk._pieces import DamagedPieceError, Pieces
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._sending import sendable
from scr.propagation.disk._steps import Step, block_steps
from scr.propagation.disk._stretches import Stretches
from scr.propagation.disk._tasks import Tasks
from scr.propagation.disk._worker import Setup, start_worker
from scr.storage import release


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
        self._setup: Setup | None = None

    def run(self, file: Path) -> list[str]:
        """Make the hops in a `.npy`, resuming earlier work; returns checksums as `assemble`."""
        work = self.work
        if work.assembled is not None and not result_is_there(work, file, self._layout):
            # With the half-made result, rows of the parts are gone.
            self.work.begin(self.plan.layout)
        found: set[str] = set()
        while True:
            try:
                self._compute_missing(file)
                return self._assemble(file)
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

    def _assemble(self, file: Path) -> list[str]:
        stretches = Stretches(
            self.work, self._layout, chunks=self.plan.stretch_chunks, most=self.plan.stretches
        )
        told = functools.partial(self._on_progress, "Putting hops together")
        if self.request.team is None:
            joiner = Joiner(self.request, self.plan, self.work.path, file)
            with closing(joiner):
                return assemble(self.work, self._layout, file, stretches, joiner.join_all, told)
        run = functools.partial(self._run_on_workers, file)
        made = assemble(self.work, self._layout, file, stretches, run, told)
        self._engine.release()
        return made

    def _compute_missing(self, file: Path) -> None:
        blocks = range(len(self._layout.blocks))
        steps = {block: todo for block in blocks if (todo := self._block_steps(block))}
        if not steps:
            return
        tasks = Tasks(self.work, self._layout, steps, dict(self.request.walks))
        progress = ProgressCount("Propagating", tasks.edges, self._on_progress)
        if self.request.team is not None:
            for count in self._on_workers(tasks, file):
                progress.add(count)
        elif len(self._layout.cuts) > 1:  # what workers of a cluster have begun
            here = Blocks(self.request, self.plan, self.work)
            for task in filter(None, tasks):
                here.compute_rows(task.block, task.steps, task.number or 0)
                progress.add(tasks.finish(task))
        else:
            here = Blocks(self.request, self.plan, self.work, progress.add)
            for block, todo in steps.items():
                here.compute(block, todo)
        for edges_file in self.work.path.glob(f"{EDGES}*"):
            edges_file.unlink()
        for edges in (self.request.graph.indices, self.request.graph.weights):
            release(edges)  # which blocks may have used from the page cache

    def _on_workers(self, tasks: Tasks, file: Path) -> Iterator[int]:
        """Let the workers of a cluster make the missing pieces; yields edges as they are done."""
        work = self.work
        for task, made in self._run_on_workers(file, tasks):
            if made.damaged is not None:
                work.remove(made.damaged)
                raise DamagedPieceError(made.damaged)
            for piece in made.written:
                work.adopt(piece)
            for name in tasks.outputs(task):  # of workers that were lost, or taken for lost
                for lost in work.path.glob(f"{name}.*"):
                    lost.unlink(missing_ok=True)
            yield tasks.finish(task)

    def _run_on_workers(self, file: Path, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Run blocks, or stretches of the result, by the same workers."""
        team = self.request.team
        assert team is not None
        if self._setup is None:
            self._setup = Setup(
                request=sendable(self.request, team.cores), plan=self.plan,
                folder=self.work.path.absolute(), file=file.absolute(), target=self.work.target,
            )  # fmt: skip
        needs = Needs(cores=team.cores, memory_bytes=self.plan.worker_bytes)
        most = max(self.plan.workers, 1)
        return self._engine.run(start_worker, self._setup, tasks, needs=needs, most=most)

    def _block_steps(self, block: int) -> list[Step]:
        layout, has, assembled = self._layout, self.work.has, self.work.assembled
        ends = layout.shape[0] if assembled is None else layout.rows_before(assembled)
        missing, stored = set(), set()
        for place in layout.places:
            for number, (first, last) in enumerate(layout.cuts.ranges):
                left = min(max(ends - first, 0), last - first)
                least = None if assembled is None else left * layout.part_bytes(block)
                if not has(layout.part(block, place, number), least):
                    missing.add(place)
            pieces = [layout.state(block, place)]
            if len(layout.cuts) > 1:
                pieces = [layout.part(block, place, each) for each in range(len(layout.cuts))]
            if all(map(has, pieces)):
                stored.add(place)
        return block_steps([way for way, _ in self.request.walks], missing, stored)
