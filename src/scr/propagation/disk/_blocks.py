"""Compute the hops of one block of columns, in this process or in a worker of a cluster.

Two matrices of a block take turns while the edges come by. Whoever gives out the blocks
(`_out_of_core.py`) decides the steps; where pieces are written, and who records them, is up to
the `PieceFiles`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty
from scr.graph import relation_codes, select_edges
from scr.propagation._normalization import NormalizedAdjacency, normalize
from scr.propagation._plan import padded
from scr.propagation._steps import fill_block, take_turns
from scr.propagation._subsets import Subset
from scr.propagation._walks import Way
from scr.propagation.disk._assembly import Layout
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._edge_chunks import edge_chunks, product_by_chunks
from scr.propagation.disk._pieces import PieceFiles, PieceWriter
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._steps import Step
from scr.storage import ReadBuffers

GATHER_BYTES = 16 * 2**20
"""Kept rows copied out at once."""
EDGES = "edges"
"""Files of a work folder with the edges of the subset of relations that is being walked."""


class Blocks:
    """Computes blocks of columns one after another, with the same memory."""

    def __init__(
        self,
        request: DiskRequest,
        plan: DiskPlan,
        pieces: PieceFiles,
        on_edges: Callable[[int], None] | None = None,
    ) -> None:
        self._request, self._plan, self._pieces = request, plan, pieces
        self._on_edges = on_edges or (lambda _: None)
        self._rows = request.picked
        self._layout = Layout.of(request, plan)
        self._adjacencies: dict[tuple[str, Subset | None], NormalizedAdjacency] = {}
        size = request.graph.num_nodes * padded(plan.block_columns)
        self._buffers = [aligned_empty((size,), request.config.dtype) for _ in range(2)]
        self._reading = ReadBuffers()

    def compute(self, block: int, steps: Sequence[Step]) -> None:
        """Make the missing pieces of a block."""
        columns, threads = self._layout.blocks[block], self._request.threads
        width = columns.stop - columns.start
        shape = (self._request.graph.num_nodes, padded(width))
        current, spare = (buffer[: math.prod(shape)].reshape(shape) for buffer in self._buffers)
        for step in steps:
            part, state = (
                self._layout.part(block, step.place),
                self._layout.state(block, step.place),
            )
            if step.way is None and step.place == 0:
                with ThreadPoolExecutor(1) as thread:  # most of the time goes to the disk
                    normalized = thread.submit(self._normalize, steps)
                    fill_block(current[:, :width], self._request.source, columns, threads=threads)
                    normalized.result()
                current[:, width:] = 0
            elif step.way is None:
                self._normalize(steps)  # before both matrices take their memory
                self._read(state, current, width)
            elif self._is_written_behind(step):
                with PieceWriter(self._pieces, state, columns=width) as writer:
                    current, spare = self._multiply(step, current, spare, writer)
            else:
                current, spare = self._multiply(step, current, spare)
            if step.is_part and (step.way is None or self._rows is not None):
                self._write(part, current, width, self._rows)
            # The state before is needed until this part is whole.
            if step.is_state and self._rows is not None:
                self._remove_states(but=state)
                if self._plan.state_slots == 1:
                    self._write(state, current, width, None)
        self._remove_states()

    def _normalize(self, steps: Sequence[Step]) -> None:
        """Make the adjacencies of all steps but those of subsets, which are held one at a time."""
        for step in steps:
            if step.way is not None and step.way.subset is None:
                self._adjacency(step.way)

    def _read(self, name: str, hop: NDArray[Any], width: int) -> None:
        """Fill the first columns of one of the matrices with a piece, by way of the other one."""
        other = next(each for each in self._buffers if not np.may_share_memory(each, hop))
        stored = other[: len(hop) * width].reshape(len(hop), width)
        self._pieces.read(name, stored)
        hop[:, :width], hop[:, width:] = stored, 0

    def _is_written_behind(self, step: Step) -> bool:
        """Whether all rows of a hop are written while later rows of it are still computed."""
        if self._rows is None:
            return step.is_part
        return step.is_state and self._plan.state_slots == 2

    def _multiply(
        self,
        step: Step,
        current: NDArray[Any],
        spare: NDArray[Any],
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
            product_by_chunks, chunks=edge_chunks(indptr, self._plan.chunk_edges), rows=rows,
            on_rows=None if writer is None else writer.write_behind, on_edges=self._on_edges,
            memory=self._reading,
        )  # fmt: skip
        matrices = take_turns(
            adjacency, current, spare, threads=self._request.threads, multiply=multiply
        )
        self._on_edges(adjacency.num_edges - int(indptr[-1]))
        return matrices

    def _adjacency(self, way: Way) -> NormalizedAdjacency:
        graph, config = self._request.graph, self._request.config
        key = way.direction if graph.directed else "both", way.subset
        if key not in self._adjacencies:
            if way.subset is not None:
                # Each subset has edges of its own: one of them is held at a time.
                self._adjacencies.clear()
                codes = relation_codes(graph, way.subset)
                graph = select_edges(graph, codes, self._pieces.file(EDGES))
            self._adjacencies[key] = normalize(
                graph, norm=config.norm, self_loops=config.self_loops, direction=key[0]
            )
        return self._adjacencies[key]

    def _remove_states(self, but: str | None = None) -> None:
        for name in self._pieces.names():
            if name.startswith("state-") and name != but:
                self._pieces.remove(name)

    def _write(
        self, name: str, hop: NDArray[Any], width: int, rows: NDArray[np.int64] | None
    ) -> None:
        with PieceWriter(self._pieces, name, columns=width) as writer:
            if rows is None:
                writer.write(hop)
                return
            step = max(GATHER_BYTES // max(hop.strides[0], 1), 1)
            for at in range(0, len(rows), step):
                writer.write(hop.take(rows[at : at + step], axis=0))
