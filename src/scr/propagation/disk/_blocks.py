"""Compute the hops of one block of columns, in this process or in a worker of a cluster.

Two matrices of a block take turns while the edges come by; of a range of rows of one hop, the
second one has just these (`_row_ranges.py`). Where few rows are kept, the last hops
are computed of the rows that these need (`_reach.py`), and are matrices of as many rows. Whoever
gives out the blocks (`_out_of_core.py`) decides the steps; where pieces are written, and who
records them, is up to the `PieceFiles`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty
from scr.graph import Graph, relation_codes, select_edges
from scr.propagation._normalization import NormalizedAdjacency, normalize
from scr.propagation._plan import padded
from scr.propagation._steps import advance, fill_block, take_turns
from scr.propagation._subsets import Subset
from scr.propagation._walks import Way
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._edge_chunks import edge_chunks, product_by_chunks
from scr.propagation.disk._layout import Layout
from scr.propagation.disk._pieces import PieceFiles, PieceWriter
from scr.propagation.disk._plan import DiskRequest
from scr.propagation.disk._reach import (
    ReachedHop,
    product_along_held,
    reached_hops,
    scale_reached,
)
from scr.propagation.disk._steps import Step
from scr.propagation.kernel._row_sets import RowRange, Rows
from scr.propagation.kernel._rows import EdgeChunk
from scr.storage import ReadBuffers, from_cache

GATHER_BYTES = 16 * 2**20
"""Kept rows copied out at once."""
EDGES = "edges"
"""Files of a work folder with the edges of the subset of relations that is being walked."""


class _Walked(NamedTuple):
    """What walks go along."""

    adjacency: NormalizedAdjacency
    reached: Mapping[int, ReachedHop]
    """Hops of which some rows are computed, by their number in a walk."""


class Blocks:
    """Computes blocks of columns one after another, with the same memory."""

    def __init__(
        self,
        request: DiskRequest,
        plan: DiskPlan,
        pieces: PieceFiles,
        on_edges: Callable[[int], None] | None = None,
    ) -> None:
        if plan.edges_fit:
            request = replace(request, graph=_with_cached_edges(request.graph))
        self._request, self._plan, self._pieces = request, plan, pieces
        self._on_edges = on_edges or (lambda _: None)
        self._rows = request.picked
        self._layout = Layout.of(request, plan)
        self._adjacencies: dict[tuple[str, Subset | None], _Walked] = {}
        rows = request.graph.num_nodes, plan.spare_rows
        sizes = [count * padded(plan.block_columns) for count in rows]
        self._buffers = [aligned_empty((size,), request.config.dtype) for size in sizes]
        self._reading = ReadBuffers()

    def compute_rows(self, block: int, steps: Sequence[Step], number: int) -> None:
        """Make the part of a range of rows by the last of the steps; one before it loads a hop.

        Raises:
            DamagedPieceError: A part of that hop is not what was written.
        """
        layout, columns, step = self._layout, self._layout.blocks[block], steps[-1]
        width, nodes = columns.stop - columns.start, self._request.graph.num_nodes
        first, last = layout.cuts.ranges[number]
        if step.way is None:
            made, threads = self._matrix(0, last - first, width), self._request.threads
            fill_block(made, self._request.source, columns, threads=threads, first=first)
        else:
            hop, place = self._matrix(0, nodes, padded(width)), steps[0].place
            if place == 0:
                self._fill(hop, columns, steps)
            else:
                self._normalize(steps)
                for each, bounds in enumerate(layout.cuts.ranges):
                    self._read(layout.part(block, place, each), hop[slice(*bounds)], width)
            made = self._multiply_reached(
                step.way, ReachedHop(RowRange(nodes, first, last), None), hop
            )
        self._write(layout.part(block, step.place, number), made, width, None)

    def compute(self, block: int, steps: Sequence[Step]) -> None:
        """Make the missing pieces of a block."""
        columns = self._layout.blocks[block]
        width = columns.stop - columns.start
        hop = features = self._matrix(0, self._request.graph.num_nodes, padded(width))
        for step in steps:
            part, state = (
                self._layout.part(block, step.place),
                self._layout.state(block, step.place),
            )
            reached = None
            if step.way is None and step.place == 0:
                self._fill(features, columns, steps)
                hop = features
            elif step.way is None:
                self._normalize(steps)  # before both matrices take their memory
                hop = features
                self._read(state, hop, width)
            elif (reached := self._walked(step.way).reached.get(step.hop)) is not None:
                hop = self._multiply_reached(step.way, reached, hop)
            elif self._is_written_behind(step):
                with PieceWriter(self._pieces, state, columns=width) as writer:
                    hop = self._multiply(step.way, hop, writer)
            else:
                hop = self._multiply(step.way, hop)
            if step.is_part and (step.way is None or self._rows is not None):
                self._write(part, hop, width, self._rows if reached is None else reached.kept)
            # The state before is needed until this part is whole.
            if step.is_state and self._rows is not None and reached is None:
                self._remove_states(but=state)
                if self._plan.state_slots == 1:
                    self._write(state, hop, width, None)
        self._remove_states()
        if self._request.subsets is not None:
            self._adjacencies.clear()  # which keep the edges of a subset on the disk

    def _fill(self, hop: NDArray[Any], columns: slice, steps: Sequence[Step]) -> None:
        """Fill a matrix with features, while the edges are normalized."""
        width = columns.stop - columns.start
        with ThreadPoolExecutor(1) as thread:  # most of the time goes to the disk
            normalized = thread.submit(self._normalize, steps)
            fill_block(hop[:, :width], self._request.source, columns, threads=self._request.threads)
            normalized.result()
        hop[:, width:] = 0

    def _matrix(self, buffer: int, rows: int, columns: int) -> NDArray[Any]:
        """A matrix in one of the two buffers."""
        return self._buffers[buffer][: rows * columns].reshape(rows, columns)

    def _beside(self, hop: NDArray[Any], rows: int) -> NDArray[Any]:
        """A matrix of so many rows in the buffer that does not hold a hop."""
        buffer = int(np.may_share_memory(self._buffers[0], hop))
        return self._matrix(buffer, rows, hop.shape[1])

    def _normalize(self, steps: Sequence[Step]) -> None:
        """Make the adjacencies of all steps but those of subsets, which are held one at a time."""
        for step in steps:
            if step.way is not None and step.way.subset is None:
                self._walked(step.way)

    def _read(self, name: str, hop: NDArray[Any], width: int) -> None:
        """Fill the first columns of a matrix with a piece, by way of the other buffer."""
        stored = self._beside(hop[:, :width], len(hop))
        self._pieces.read(name, stored)
        hop[:, :width], hop[:, width:] = stored, 0

    def _is_written_behind(self, step: Step) -> bool:
        """Whether all rows of a hop are written while later rows of it are still computed."""
        if self._rows is None:
            return step.is_part
        return step.is_state and self._plan.state_slots == 2

    def _multiply(
        self, way: Way, hop: NDArray[Any], writer: PieceWriter | None = None
    ) -> NDArray[Any]:
        """The next hop, of all rows."""
        adjacency, spare = self._walked(way).adjacency, self._beside(hop, len(hop))
        on_rows = None if writer is None else writer.write_behind
        multiply = self._by_chunks(edge_chunks(adjacency.indptr, self._plan.chunk_edges), on_rows)
        threads = self._request.threads
        return take_turns(adjacency, hop, spare, threads=threads, multiply=multiply)[0]

    def _multiply_reached(self, way: Way, reached: ReachedHop, hop: NDArray[Any]) -> NDArray[Any]:
        """The next hop, of the rows that are needed; the one before is scaled in place."""
        adjacency, threads = self._walked(way).adjacency, self._request.threads
        target, edges = self._beside(hop, len(reached.rows)), 0
        if reached.edges is not None:
            scale_reached(hop, adjacency.column_scale, reached.before, threads)
            multiply: Callable[..., bool] = product_along_held
            advance(reached.edges, hop, target, None, threads=threads, multiply=multiply)
        else:
            rows: Rows | None = reached.rows
            indptr = adjacency.indptr
            if reached.rows.places(np.array([len(target)])) == len(target):  # the first rows
                rows, indptr = None, indptr[: len(target) + 1]
            chunks = edge_chunks(indptr, self._plan.chunk_edges, rows)
            edges = sum(chunk.stop - chunk.start for chunk in chunks)
            multiply = self._by_chunks(chunks, rows=rows)
            advance(adjacency, hop, target, hop, threads=threads, multiply=multiply)
        self._on_edges(adjacency.num_edges - edges)
        return target

    def _by_chunks(
        self,
        chunks: list[EdgeChunk],
        on_rows: Callable[[NDArray[Any]], None] | None = None,
        rows: Rows | None = None,
    ) -> Callable[..., bool]:
        """The product that reads the edges from disk."""
        return functools.partial(
            product_by_chunks, chunks=chunks, rows=rows, on_rows=on_rows, on_edges=self._on_edges,
            memory=self._reading,
        )  # fmt: skip

    def _walked(self, way: Way) -> _Walked:
        graph, config = self._request.graph, self._request.config
        key = way.direction if graph.directed else "both", way.subset
        if key not in self._adjacencies:
            if way.subset is not None:
                # Each subset has edges of its own: one of them is held at a time.
                self._adjacencies.clear()
                codes = relation_codes(graph, way.subset)
                graph = select_edges(graph, codes, self._pieces.file(EDGES))
            adjacency = normalize(
                graph, norm=config.norm, self_loops=config.self_loops, direction=key[0]
            )
            reached: Mapping[int, ReachedHop] = {}
            if self._rows is not None:
                reached = reached_hops(
                    adjacency, self._rows, config.hops, chunk_edges=self._plan.chunk_edges,
                    threads=self._request.threads, memory=self._reading,
                )  # fmt: skip
            self._adjacencies[key] = _Walked(adjacency, reached)
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


def _with_cached_edges(graph: Graph) -> Graph:
    weights = None if graph.weights is None else from_cache(graph.weights)
    return replace(graph, indices=from_cache(graph.indices), weights=weights)
