"""Multiply a graph larger than memory by its features, a few columns at a time.

Columns of A X do not depend on each other. So X is cut into blocks of columns, and each pass
streams the adjacency once while two matrices of one block are in memory. Each hop of a block
becomes a part on disk; `_assembly.py` puts the parts together.

A work that was killed resumes with the first hop that is missing. Where all rows are kept, the
part of a hop is what the next one is computed from. Where only some are, the whole hop of the
block is written too, as a state, if the disk has room: two states take turns, or one is replaced
after each hop, or there is none and a block begins again. Of a walk over a subset of relations
there is none: such walks are many and short, and a whole hop costs more to write than to compute.

Reads a graph store, writes `Hops`; `_plan.py` picks the block width.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty
from scr.graph import Graph
from scr.propagation._config import PropagationConfig
from scr.propagation._feature_rows import fill_block
from scr.propagation._normalization import NormalizedAdjacency, normalize
from scr.propagation._plan import subset_sizes
from scr.propagation._steps import advance
from scr.propagation._subset_edges import write_subset
from scr.propagation._subsets import Subset
from scr.propagation._walks import Subsets, Way, matrices_of, ways_of
from scr.propagation.disk._assembly import Layout, assemble, result_is_there
from scr.propagation.disk._edge_chunks import edge_chunks, product_by_chunks
from scr.propagation.disk._pieces import DamagedPieceError, Pieces, PieceWriter
from scr.propagation.disk._plan import DiskPlan

Progress = Callable[[str, int, int], None]
Held = dict[tuple[str, Subset | None], NormalizedAdjacency]
GATHER_BYTES = 16 * 2**20
"""Kept rows copied out at once."""
EDGES = "edges"
"""Files of a work folder with the edges of the subset of relations that is being walked."""


@dataclass(frozen=True, eq=False)
class OutOfCore:
    """One propagation to disk; `run` does what is missing of it."""

    graph: Graph
    config: PropagationConfig
    plan: DiskPlan
    source: Any
    """X, as `check_features` returns it."""
    rows: NDArray[np.int64] | None
    """Sorted numbers of the nodes that are kept; none: all."""
    work: Pieces
    threads: int | None = None
    on_progress: Progress | None = None
    subsets: Subsets = None

    @property
    def matrices(self) -> int:
        """Matrices per row of the result."""
        return matrices_of(self.config, self.subsets)

    @property
    def ways(self) -> list[Way]:
        """All walks."""
        return ways_of(self.config, self.subsets)

    @property
    def layout(self) -> Layout:
        """How the result is cut into parts."""
        columns, width = int(self.source.shape[1]), max(self.plan.block_columns, 1)
        blocks = [slice(at, min(at + width, columns)) for at in range(0, columns, width)]
        shape = (self.plan.rows, self.matrices, columns)
        return Layout(shape, np.dtype(self.config.dtype), blocks)

    def run(self, file: Path) -> None:
        """Make the hops in a `.npy`, resuming earlier work."""
        if self.work.assembled is not None and not result_is_there(file, self.layout):
            raise DamagedPieceError(file.name)
        while True:
            self._make_missing()
            try:
                self._assemble(file)
            except DamagedPieceError as damaged:
                warnings.warn(
                    f"`{self.work.file(damaged.name)}` had changed since it was written; "
                    "it is made again",
                    stacklevel=2,
                )
            else:
                return

    def _assemble(self, file: Path) -> None:
        def tell(done: int, total: int) -> None:
            if self.on_progress is not None:
                self.on_progress("Putting hops together", done, total)

        unit = self.config.hop_scale == "unit"
        assemble(self.work, self.layout, file, unit=unit, threads=self.threads, on_rows=tell)

    def _make_missing(self) -> None:
        layout = self.layout
        missing = {
            block: [place for place in range(self.matrices) if not self._has_part(block, place)]
            for block in range(len(layout.blocks))
        }
        if not any(missing.values()):
            return
        size = self.graph.num_nodes * self.plan.block_columns
        buffers = tuple(aligned_empty((size,), self.config.dtype) for _ in range(2))
        sizes = subset_sizes(self.graph, self.subsets) or [self.graph.num_edges] * len(self.ways)
        edges = sum(
            count * _passes(way, places)
            for places in missing.values()
            for way, count in zip(self.ways, sizes, strict=True)
        )
        progress = _EdgeProgress(edges, self.on_progress)
        held: Held = {}
        for block, places in missing.items():
            if places:
                _Block(self, block, places, held, buffers, progress).make()
        for file in self.work.path.glob(f"{EDGES}*"):
            file.unlink()

    def _has_part(self, block: int, place: int) -> bool:
        name, assembled = self.layout.part(block, place), self.work.assembled
        least = None if assembled is None else assembled * self.layout.row_bytes(block)
        return self.work.has(name, least)

    def adjacency(self, way: Way, held: Held) -> NormalizedAdjacency:
        """What a walk goes along; `held` is what earlier calls made, as far as it is kept."""
        key = way.direction if self.graph.directed else "both", way.subset
        if key not in held:
            graph = self.graph
            if way.subset is not None:
                held.clear()  # each subset has edges of its own: one of them is held at a time
                graph = write_subset(graph, way.subset, self.work.path, EDGES)
            held[key] = normalize(
                graph, norm=self.config.norm, self_loops=self.config.self_loops, direction=key[0]
            )
        return held[key]


class _EdgeProgress:
    """Counts edges gone through."""

    def __init__(self, total: int, on_progress: Progress | None) -> None:
        self._done, self._total, self._on_progress = 0, max(total, 1), on_progress

    def add(self, edges: int) -> None:
        self._done += edges
        if self._on_progress is not None:
            self._on_progress("Propagating", min(self._done, self._total), self._total)


@dataclass(eq=False)
class _Block:
    """The hops of one block of columns, in two matrices that take turns."""

    run: OutOfCore
    number: int
    missing: list[int]
    held: Held
    buffers: tuple[NDArray[Any], ...]
    progress: _EdgeProgress

    def __post_init__(self) -> None:
        columns = self.run.layout.blocks[self.number]
        shape = (self.run.graph.num_nodes, columns.stop - columns.start)
        size = shape[0] * shape[1]
        self.current, self.spare = (buffer[:size].reshape(shape) for buffer in self.buffers)
        self.columns = columns

    def make(self) -> None:
        """Write every part that is missing."""
        filled = False
        if 0 in self.missing:
            self._fill()
            self._write_part(0)
            filled = True
        for way in self.run.ways:
            places = way.places
            wanted = [place for place in places if place in self.missing]
            if not wanted:
                continue
            at = self._recall(places, wanted[0])
            if at is None and not filled:
                self._fill()
            filled = False
            for place in places[: places.index(wanted[-1]) + 1]:
                if at is None or place > at:
                    self._advance(way, place)
        for name in self.run.work.names():
            if name.startswith(f"state-{self.number}-"):
                self.run.work.remove(name)

    def _fill(self) -> None:
        fill_block(self.current, self.run.source, self.columns, threads=self.run.threads)

    def _recall(self, places: range, wanted: int) -> int | None:
        """Load the last hop before the wanted one that is whole; none: begin with the features."""
        work = self.run.work
        for place in range(wanted - 1, places[0] - 1, -1):
            name = self._state(place)
            if not work.has(name):
                continue
            try:
                for slab, at in enumerate(range(0, len(self.current), work.slab_rows)):
                    work.read_slab(name, slab, self.current[at : at + work.slab_rows])
            except DamagedPieceError:
                warnings.warn(
                    f"`{work.file(name)}` had changed since it was written; it is made again",
                    stacklevel=2,
                )
                if self.run.rows is None:
                    self.missing = sorted({*self.missing, place})
                continue
            return place
        return None

    def _state(self, place: int) -> str:
        """The piece that holds all rows of a hop of this block."""
        if self.run.rows is None:
            return self.run.layout.part(self.number, place)
        return f"state-{self.number}-{place}"

    def _advance(self, way: Way, place: int) -> None:
        """Replace the current hop by the next one, and write what is to be kept of it."""
        adjacency = self.run.adjacency(way, self.held)
        indptr, rows = adjacency.indptr, None
        if self.run.rows is not None and place == way.places[-1]:
            # Nothing is computed from the last hop: rows that are not kept are left out.
            rows = self.run.rows
            indptr = indptr[: int(rows[-1]) + 2 if len(rows) else 1]
            if len(rows) == len(indptr) - 1:  # all rows up to the last that is kept
                rows = None
        chunks = edge_chunks(indptr, self.run.plan.chunk_edges)
        scaled = adjacency.column_scale is not None
        target = self.current if scaled else self.spare
        with self._behind(place) as on_rows:
            multiply = functools.partial(
                product_by_chunks, chunks=chunks, on_rows=lambda a, b: on_rows(target[a:b]),
                on_edges=self.progress.add, rows=rows,
            )  # fmt: skip
            spare = self.spare if scaled else None
            advance(
                adjacency, self.current, target, spare, threads=self.run.threads, multiply=multiply
            )
        self.progress.add(adjacency.num_edges - int(indptr[-1]))
        if not scaled:
            self.current, self.spare = self.spare, self.current
        if self.run.rows is not None:
            if place in self.missing:
                self._write_part(place)
            # The state before is needed until this part is whole.
            if self._needs_state(place):
                self._forget_states(but=place)
                if self.run.plan.state_slots == 1:
                    self._write(self._state(place), None)

    def _goes_on(self, place: int) -> bool:
        """Whether this hop is not the last of its way."""
        return any(place in way.places[:-1] for way in self.run.ways)

    def _needs_state(self, place: int) -> bool:
        """Whether a later hop is computed from this one."""
        return self._goes_on(place) and any(later > place for later in self.missing)

    @contextmanager
    def _behind(self, place: int) -> Iterator[Callable[[NDArray[Any]], None]]:
        """Write all rows of a hop while later rows of it are still computed, if they are kept."""
        every = self.run.rows is None
        wanted = place in self.missing if every else self._needs_state(place)
        if not wanted or (not every and self.run.plan.state_slots != 2):
            yield lambda rows: None
            return
        with _WriteBehind(PieceWriter(self.run.work, self._state(place))) as writer:
            yield writer.write

    def _forget_states(self, but: int) -> None:
        for name in self.run.work.names():
            if name.startswith("state-") and name != self._state(but):
                self.run.work.remove(name)

    def _write_part(self, place: int) -> None:
        self._write(self.run.layout.part(self.number, place), self.run.rows)

    def _write(self, name: str, rows: NDArray[np.int64] | None) -> None:
        writer = PieceWriter(self.run.work, name)
        try:
            if rows is None:
                writer.write(self.current)
            else:
                step = max(GATHER_BYTES // max(self.current.strides[0], 1), 1)
                for at in range(0, len(rows), step):
                    writer.write(self.current[rows[at : at + step]])
            writer.finish()
        finally:
            writer.close()


class _WriteBehind:
    """Hands rows to a thread that writes them; leaving waits for it and notes the piece."""

    def __init__(self, writer: PieceWriter) -> None:
        self._writer = writer
        self._pool = ThreadPoolExecutor(1)
        self._pending: list[Future[None]] = []

    def __enter__(self) -> _WriteBehind:
        return self

    def write(self, rows: NDArray[Any]) -> None:
        """Write rows that will not change before the end."""
        while self._pending and self._pending[0].done():
            self._pending.pop(0).result()
        self._pending.append(self._pool.submit(self._writer.write, rows))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                for pending in self._pending:
                    pending.result()
                self._writer.finish()
        finally:
            self._pool.shutdown(cancel_futures=True)
            self._writer.close()


def _passes(way: Way, missing: list[int]) -> int:
    """Most hops to be computed, where nothing but the features is there to begin with."""
    return max((way.places.index(place) + 1 for place in missing if place in way.places), default=0)
