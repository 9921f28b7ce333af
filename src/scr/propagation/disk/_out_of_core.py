"""Multiply a graph larger than memory by its features, a few columns at a time.

Columns of A X do not depend on each other. So X is cut into blocks of columns, and each pass
streams the adjacency once while two matrices of one block are in memory. Each hop of a block
becomes a part on disk; `_assembly.py` puts the parts together.

A work that was killed resumes with the first hop that is missing. Where all rows are kept, the
part of a hop is what the next one is computed from. Where only some are, the whole hop of the
block is written too, as a state, if the disk has room: two states take turns, or one is replaced
after each hop, or there is none and a block begins again. Of a walk over a subset of relations
there is none: such walks are many and short, and a whole hop costs more to write than to compute.

Reads a graph store, writes `Hops`; `_plan.py` picks the block width, `_steps.py` the steps.
"""

from __future__ import annotations

import functools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, ProgressCount, aligned_empty
from scr.graph import relation_codes, select_edges
from scr.propagation._normalization import NormalizedAdjacency, normalize
from scr.propagation._steps import fill_block, take_turns
from scr.propagation._subsets import Subset
from scr.propagation._walks import Way
from scr.propagation.disk._assembly import Layout, assemble, result_is_there
from scr.propagation.disk._edge_chunks import edge_chunks, product_by_chunks
from scr.propagation.disk._pieces import DamagedPieceError, Pieces, PieceWriter
from scr.propagation.disk._plan import DiskPlan, DiskRequest
from scr.propagation.disk._steps import Step, block_steps
from scr.storage import ranges

GATHER_BYTES = 16 * 2**20
"""Kept rows copied out at once."""
EDGES = "edges"
"""Files of a work folder with the edges of the subset of relations that is being walked."""


class OutOfCore:
    """One propagation to disk; `run` does what is missing of it."""

    def __init__(
        self, request: DiskRequest, plan: DiskPlan, work: Pieces, on_progress: OnProgress | None
    ) -> None:
        self.request, self.plan, self.work = request, plan, work
        self._on_progress = on_progress or (lambda *_: None)
        self._rows = request.picked
        width = max(plan.block_columns, 1)
        blocks = [slice(*part) for part in ranges(request.columns, width)]
        shape = (plan.rows, request.matrices, request.columns)
        self._layout = Layout(shape, np.dtype(request.config.dtype), blocks)
        self._adjacencies: dict[tuple[str, Subset | None], NormalizedAdjacency] = {}

    def run(self, file: Path) -> None:
        """Make the hops in a `.npy`, resuming earlier work."""
        work = self.work
        if work.assembled is not None and not result_is_there(work, file, self._layout):
            # With the half-made result, rows of the parts are gone.
            self.work.begin(self.plan.layout)
        while True:
            try:
                self._compute_missing()
                assemble(
                    self.work, self._layout, file, unit=self.request.config.hop_scale == "unit",
                    threads=self.request.threads,
                    on_rows=functools.partial(self._on_progress, "Putting hops together"),
                )  # fmt: skip
            except DamagedPieceError as damaged:
                warnings.warn(
                    f"`{self.work.file(damaged.name)}` had changed since it was written; "
                    "it is made again",
                    stacklevel=2,
                )
            else:
                return

    def _compute_missing(self) -> None:
        steps = [self._block_steps(block) for block in range(len(self._layout.blocks))]
        if not any(steps):
            return
        edges = dict(self.request.walks)
        passes = sum(edges[step.way] for block in steps for step in block if step.way is not None)
        progress = ProgressCount("Propagating", passes, self._on_progress)
        size = self.request.graph.num_nodes * self.plan.block_columns
        buffers = [aligned_empty((size,), self.request.config.dtype) for _ in range(2)]
        for block, todo in enumerate(steps):
            self._compute_block(block, todo, buffers, progress)
        self._adjacencies.clear()
        for file in self.work.path.glob(f"{EDGES}*"):
            file.unlink()

    def _block_steps(self, block: int) -> list[Step]:
        places, assembled = range(self.request.matrices), self.work.assembled
        least = None if assembled is None else assembled * self._layout.row_bytes(block)
        missing = {
            place for place in places if not self.work.has(self._layout.part(block, place), least)
        }
        stored = {place for place in places if self.work.has(self._state(block, place))}
        return block_steps([way for way, _ in self.request.walks], missing, stored)

    def _compute_block(
        self, block: int, steps: list[Step], buffers: list[NDArray[Any]], progress: ProgressCount
    ) -> None:
        columns, threads = self._layout.blocks[block], self.request.threads
        shape = (self.request.graph.num_nodes, columns.stop - columns.start)
        current, spare = (buffer[: math.prod(shape)].reshape(shape) for buffer in buffers)
        for step in steps:
            part, state = self._layout.part(block, step.place), self._state(block, step.place)
            if step.way is None and step.place == 0:
                fill_block(current, self.request.source, columns, threads=threads)
            elif step.way is None:
                self.work.read(state, current)
            elif self._is_written_behind(step):
                with PieceWriter(self.work, state) as writer:
                    current, spare = self._multiply(step, current, spare, progress, writer)
            else:
                current, spare = self._multiply(step, current, spare, progress)
            if step.is_part and (step.way is None or self._rows is not None):
                self._write(part, current, self._rows)
            # The state before is needed until this part is whole.
            if step.is_state and self._rows is not None:
                self._remove_states(but=state)
                if self.plan.state_slots == 1:
                    self._write(state, current, None)
        if steps:
            self._remove_states()

    def _state(self, block: int, place: int) -> str:
        """The piece that holds all rows of a hop of a block."""
        return self._layout.part(block, place) if self._rows is None else f"state-{block}-{place}"

    def _is_written_behind(self, step: Step) -> bool:
        """Whether all rows of a hop are written while later rows of it are still computed."""
        if self._rows is None:
            return step.is_part
        return step.is_state and self.plan.state_slots == 2

    def _multiply(
        self,
        step: Step,
        current: NDArray[Any],
        spare: NDArray[Any],
        progress: ProgressCount,
        writer: PieceWriter | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The next hop, and a matrix to be written over."""
        assert step.way is not None
        adjacency, rows = self._adjacency(step.way), None
        indptr = adjacency.indptr
        if self._rows is not None and step.place == step.way.places[-1]:
            # Nothing is computed from the last hop: rows that are not kept are left out.
            rows = self._rows
            indptr = indptr[: int(rows[-1]) + 2 if len(rows) else 1]
            if len(rows) == len(indptr) - 1:  # all rows up to the last that is kept
                rows = None
        multiply = functools.partial(
            product_by_chunks, chunks=edge_chunks(indptr, self.plan.chunk_edges), rows=rows,
            on_rows=None if writer is None else writer.write_behind, on_edges=progress.add,
        )  # fmt: skip
        matrices = take_turns(
            adjacency, current, spare, threads=self.request.threads, multiply=multiply
        )
        progress.add(adjacency.num_edges - int(indptr[-1]))
        return matrices

    def _adjacency(self, way: Way) -> NormalizedAdjacency:
        graph, config = self.request.graph, self.request.config
        key = way.direction if graph.directed else "both", way.subset
        if key not in self._adjacencies:
            if way.subset is not None:
                # Each subset has edges of its own: one of them is held at a time.
                self._adjacencies.clear()
                codes = relation_codes(graph, way.subset)
                graph = select_edges(graph, codes, self.work.file(EDGES))
            self._adjacencies[key] = normalize(
                graph, norm=config.norm, self_loops=config.self_loops, direction=key[0]
            )
        return self._adjacencies[key]

    def _remove_states(self, but: str | None = None) -> None:
        for name in self.work.names():
            if name.startswith("state-") and name != but:
                self.work.remove(name)

    def _write(self, name: str, hop: NDArray[Any], rows: NDArray[np.int64] | None) -> None:
        with PieceWriter(self.work, name) as writer:
            if rows is None:
                writer.write(hop)
                return
            step = max(GATHER_BYTES // max(hop.strides[0], 1), 1)
            for at in range(0, len(rows), step):
                writer.write(hop[rows[at : at + step]])
