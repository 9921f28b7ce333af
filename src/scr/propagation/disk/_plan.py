"""What a propagation out of core will take: memory of the whole process, disk, passes, time.

Columns of A X do not depend on each other, so X is cut into blocks of columns, and each pass
streams the adjacency once while two matrices of one block are in memory. The plan picks the widest
block that fits, in whole cache lines where it can: a narrower row costs as much to gather.

Memory counts everything: the interpreter with its libraries, the bounds and scales of the rows,
the buffers of the edges, the two matrices, and what puts the result together at the end.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from scr.compute import CACHE_LINE, process_budget, readable_bytes, resident_bytes
from scr.config import parse_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.propagation._config import PropagationConfig
from scr.propagation._feature_rows import chunk_bytes
from scr.propagation._normalization import CHUNK_ROWS, turned_bytes
from scr.propagation._plan import NARROWEST_BLOCK, PropagationPlan, subset_sizes
from scr.propagation._subset_edges import subset_bytes, working_bytes
from scr.propagation._walks import Subsets, matrices_of, ways_of
from scr.propagation.disk._edge_chunks import CHUNK_EDGES
from scr.propagation.kernel import _rows
from scr.propagation.kernel._tiles import TILED_BYTES, buffer_bytes
from scr.storage import READ_SPEED, WRITE_SPEED

if TYPE_CHECKING:
    from scr.graph import Graph

LINES_PER_SECOND = 20e6
"""Cache lines that one core gathers from all over gigabytes of memory in a second; three times as
many from a few hundred megabytes, where an estimate is of no use anyway."""
LIBRARY_BYTES = 128 * 2**20
"""What compiled code, threads and small arrays will take beside the memory in use already."""
NAMED_SLACK = 16 * 2**20
"""Added to a budget that an error names: the process may be a little larger the next time."""
SLAB_BYTES = (32 * 2**20, 512 * 2**20)
"""Fewest and most bytes of the result put together at once; up to as much again is read for them.
Each slab waits for the disk, so large ones are faster."""
SLAB_ROWS = 1 << 13
"""Slabs are a multiple of this where they can be, so that rows are scaled in the same steps as in
memory."""


@dataclass(frozen=True, kw_only=True)
class DiskPlan(PropagationPlan):
    """What a propagation out of core will take."""

    budget_bytes: int
    work_bytes: int
    """Most disk in use beside the graph, the result included."""
    free_bytes: int
    """Disk that may be used."""
    state_slots: int | None
    """Whole hops of a block kept for resuming after a kill; none where the parts serve for it."""
    slab_rows: int
    """Rows under one checksum, and put together at once."""
    chunk_edges: int
    rows: int
    """Rows that are kept."""
    seconds: float
    """Estimated time."""


def plan_on_disk(
    graph: Graph,
    config: PropagationConfig,
    source: Any,
    target: Path,
    *,
    rows: int | None = None,
    memory: str | int = "auto",
    disk: str | int = "auto",
    used_bytes: int = 0,
    block_columns: int | None = None,
    threads: int | None = None,
    subsets: Subsets = None,
) -> DiskPlan:
    """Choose the widest block of columns that fits.

    Args:
        graph: The graph.
        config: What is propagated.
        source: X, as `check_features` returns it.
        target: Where the hops will be.
        rows: How many rows are kept; all of the target type by default.
        memory: Most memory of the whole process.
        disk: Most disk for the work and the result; by default all that is free.
        used_bytes: Disk that earlier work on the same target takes, which will be used again.
        block_columns: Width of the blocks of earlier work; taken if it fits.
        threads: Cores, for the estimate of the time.
        subsets: Subsets of relations that are walked apart, if they are.

    Raises:
        MemoryBudgetError: Not even the narrowest block fits; names the smallest budget that works.
        StoreError: The disk is too small for the result; names what it takes.
    """
    work = _Work.of(graph, config, source, rows, subsets, threads)
    budget, narrowest = process_budget(memory), min(work.columns, NARROWEST_BLOCK)
    if work.memory(narrowest) > budget:
        raise _too_little_memory(work, config, budget, work.memory(narrowest) + NAMED_SLACK)
    width = next(
        (
            each
            for each in _widths(work.columns, CACHE_LINE // work.item)
            if work.memory(each) <= budget
        ),
        narrowest,
    )
    if block_columns is not None and block_columns <= width:
        width = block_columns
    free = _free_disk(target, disk) + used_bytes
    if work.disk > free:
        raise _too_little_disk(work.disk, free, target)
    state = work.state(width)
    slots = 0 if state == 0 or config.hops < 2 else min((free - work.disk) // state, 2)
    blocks = -(-work.columns // width) if work.columns else 0
    return DiskPlan(
        memory_bytes=work.memory(width), disk_bytes=work.result, block_columns=width,
        blocks=blocks, passes=blocks * (work.matrices - 1), budget_bytes=budget,
        work_bytes=work.disk + slots * state, free_bytes=free,
        state_slots=slots if work.has_others else None, slab_rows=work.slab_rows,
        chunk_edges=work.chunk_edges, rows=work.kept,
        seconds=work.seconds(width, blocks, slots),
    )  # fmt: skip


@dataclass(frozen=True)
class _Work:
    """Sizes of a propagation, and what follows from them for a width of the blocks."""

    graph: Graph
    config: PropagationConfig
    source: Any
    kept: int
    """Rows that are kept."""
    has_others: bool
    """Whether the graph has rows that are not kept."""
    subsets: Subsets
    subset_edges: list[int]
    threads: int

    @classmethod
    def of(
        cls, graph: Graph, config: PropagationConfig, source: Any, rows: int | None,
        subsets: Subsets, threads: int | None,
    ) -> _Work:  # fmt: skip
        kept = graph.num_targets if rows is None else rows
        has_others = rows is not None or kept < graph.num_nodes
        cores = threads or numba.config.NUMBA_NUM_THREADS
        edges = subset_sizes(graph, subsets)
        return cls(graph, config, source, kept, has_others, subsets, edges, cores)

    @property
    def columns(self) -> int:
        return int(self.source.shape[1])

    @property
    def item(self) -> int:
        return np.dtype(self.config.dtype).itemsize

    @property
    def matrices(self) -> int:
        return matrices_of(self.config, self.subsets)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the result."""
        return max(self.matrices * self.columns * self.item, 1)

    @property
    def edge_bytes(self) -> int:
        return self.graph.indices.dtype.itemsize + (0 if self.graph.weights is None else 4)

    @property
    def chunk_edges(self) -> int:
        return max(min(CHUNK_EDGES, self.graph.num_edges), _rows.HUB_EDGES)

    @property
    def slab_rows(self) -> int:
        # Two slabs take no more than half of the narrowest block, which is given back by then.
        narrowest = min(self.columns, NARROWEST_BLOCK) * 2 * self.graph.num_nodes * self.item
        rows = max(max(SLAB_BYTES[0], min(SLAB_BYTES[1], narrowest // 4)) // self.row_bytes, 1)
        return rows // SLAB_ROWS * SLAB_ROWS or rows

    # Memory of the whole process.

    def memory(self, width: int) -> int:
        """Most memory with blocks of so many columns: what is always held, and the largest step."""
        slabs = 2 * min(self.slab_rows, self.kept) * self.row_bytes
        block = 2 * width * self.graph.num_nodes * self.item + chunk_bytes(self.source)
        return self._held_bytes() + max(block, _preparing_bytes(self.graph), slabs)

    def _held_bytes(self) -> int:
        """Interpreter, bounds and scales of rows, edges or their buffers, kernel's buffers."""
        graph, config = self.graph, self.config
        directions = 2 if graph.directed and config.direction == "separate" else 1
        per_node = 8 + 4 * (1 if config.norm == "row" else 2)
        turned = turned_bytes(graph, config.direction)
        # Turning touches all edges, which may be a memory map: they count like a copy.
        edges = (
            turned + self.edge_bytes * len(graph.indices)
            if turned
            else 2 * self.chunk_edges * self.edge_bytes
        )
        held = directions * per_node * graph.num_nodes + edges + resident_bytes() + LIBRARY_BYTES
        if self.has_others:
            held += 8 * self.kept
        if graph.num_nodes * CACHE_LINE >= TILED_BYTES:
            held += buffer_bytes(self.threads)
        if self.subsets is not None:
            # The edges of each subset are written and normalized while both matrices are held.
            held += working_bytes(graph) + _preparing_bytes(graph)
        return int(held)

    # Disk beside the graph.

    @property
    def result(self) -> int:
        return self.kept * self.matrices * self.columns * self.item

    @property
    def disk(self) -> int:
        """The result and one slab of it, its rows, and the edges of the largest subset."""
        slab = min(self.slab_rows, self.kept) * self.row_bytes
        subset = subset_bytes(self.graph, max(self.subset_edges, default=0))
        return self.result + slab + 8 * self.kept + subset

    def state(self, width: int) -> int:
        """A whole hop of a block, kept to resume from where parts have only some of its rows."""
        stored = self.has_others and self.subsets is None
        return self.graph.num_nodes * width * self.item if stored else 0

    # Time, by the speeds above; edges are read while the cores work.

    def seconds(self, width: int, blocks: int, slots: int) -> float:
        """Estimated time with blocks of so many columns and so many stored states."""
        graph, cores = self.graph, min(self.threads, os.cpu_count() or 1)
        state, total = self.state(width) / WRITE_SPEED, 0.0
        edges = self.subset_edges or [graph.num_edges] * len(ways_of(self.config, self.subsets))
        for count in edges:
            gathered = count * -(-width * self.item // CACHE_LINE) / (LINES_PER_SECOND * cores)
            read = count * self.edge_bytes / READ_SPEED
            per_pass = max(gathered, read, state * (slots == 2))
            per_pass += state * (slots == 1)  # only two states are written while the cores work
            # Of the last hop of each walk, only rows that are kept are computed.
            last = max(gathered * self.kept / max(graph.num_nodes, 1), read)
            total += (self.config.hops - 1) * per_pass + last
        features = graph.num_nodes * self.columns * self.source.dtype.itemsize / READ_SPEED
        passes = float(blocks * (total + features * max(len(edges), 1)))
        return passes + 2 * self.result / WRITE_SPEED + 2 * self.result / READ_SPEED


def _widths(columns: int, line: int) -> list[int]:
    """Widths of blocks worth trying, widest first: each is the narrowest for its count of blocks.

    Whole cache lines first, then half ones, since the narrowest block may be one.
    """
    widths = {columns}
    for unit in (line, NARROWEST_BLOCK):
        widths |= {-(-columns // (n * unit)) * unit for n in range(2, -(-columns // unit) + 1)}
    return sorted((width for width in widths if width <= columns), reverse=True)


def _too_little_memory(
    work: _Work, config: PropagationConfig, budget: int, smallest: int
) -> MemoryBudgetError:
    return MemoryBudgetError(
        f"{work.matrices} hops of {work.graph.num_nodes:,} nodes x {work.columns:,} columns in "
        f"{config.dtype} on disk need {readable_bytes(smallest)} with the interpreter; "
        f"the budget is {readable_bytes(budget)}",
        hint=f"the smallest that works is `{readable_bytes(smallest)}`"
        + ("" if config.dtype == "float16" else "; less with float16"),
    )


def _too_little_disk(needed: int, free: int, target: Path) -> StoreError:
    return StoreError(
        f"The hops and the work on them take {readable_bytes(needed)} on disk at "
        f"`{target.parent}`; {readable_bytes(free)} may be used",
        hint="free some space, write elsewhere, or keep fewer rows (those of labeled nodes), "
        "fewer hops or float16",
    )


def _preparing_bytes(graph: Graph) -> int:
    """Memory that normalization takes for a while: sums of all rows, and parts of them."""
    sums = (3 if graph.directed else 2) * 8 * graph.num_nodes
    return sums + 32 * min(CHUNK_ROWS, max(graph.num_nodes, graph.num_edges))


def _free_disk(target: Path, disk: str | int) -> int:
    place = target.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    return free if disk == "auto" else min(parse_bytes(disk, setting="disk"), free)
