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
from scr.propagation.kernel import _product as kernel
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
    """Whole hops of a block kept for going on after a kill; none where the parts serve for it."""
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
    columns, item = int(source.shape[1]), np.dtype(config.dtype).itemsize
    kept, matrices = graph.num_targets if rows is None else rows, matrices_of(config, subsets)
    has_others = rows is not None or kept < graph.num_nodes
    sizes = subset_sizes(graph, subsets)
    budget = process_budget(memory)
    row_bytes = max(matrices * columns * item, 1)
    per_column, narrowest = 2 * graph.num_nodes * item, min(columns, NARROWEST_BLOCK)
    # Two slabs take no more than half of the narrowest block, which is given back by then.
    slab_bytes = max(SLAB_BYTES[0], min(SLAB_BYTES[1], narrowest * per_column // 4))
    slab_rows = max(slab_bytes // row_bytes, 1)
    slab_rows = slab_rows // SLAB_ROWS * SLAB_ROWS or slab_rows
    chunk_edges = max(min(CHUNK_EDGES, graph.num_edges), kernel.HUB_EDGES)
    fixed = _fixed_bytes(graph, config, chunk_edges) + (8 * kept if has_others else 0)
    fixed += resident_bytes() + LIBRARY_BYTES
    if graph.num_nodes * CACHE_LINE >= TILED_BYTES:
        fixed += buffer_bytes(threads or numba.config.NUMBA_NUM_THREADS)
    if subsets is not None:
        # The edges of each subset are written and normalized while both matrices are held.
        fixed += working_bytes(graph) + _preparing_bytes(graph)
    passing = _preparing_bytes(graph), 2 * min(slab_rows, kept) * row_bytes

    def needed(width: int) -> int:
        return fixed + max(width * per_column + chunk_bytes(source), *passing)

    if needed(narrowest) > budget:
        smallest = needed(narrowest) + NAMED_SLACK
        raise MemoryBudgetError(
            f"{matrices} hops of {graph.num_nodes:,} nodes x {columns:,} columns in "
            f"{config.dtype} on disk need {readable_bytes(smallest)} with the interpreter; "
            f"the budget is {readable_bytes(budget)}",
            hint=f"the smallest that works is `{readable_bytes(smallest)}`"
            + ("" if config.dtype == "float16" else "; less with float16"),
        )
    widths = _widths(columns, CACHE_LINE // item)
    width = next((width for width in widths if needed(width) <= budget), narrowest)
    if block_columns is not None and block_columns <= width:
        width = block_columns
    blocks = -(-columns // width) if columns else 0
    result = kept * matrices * columns * item
    base = result + min(slab_rows, kept) * row_bytes + kept * 8
    base += subset_bytes(graph, max(sizes, default=0))
    state = graph.num_nodes * width * item if has_others and subsets is None else 0
    free = _free_disk(target, disk) + used_bytes
    if base > free:
        raise StoreError(
            f"The hops and the work on them take {readable_bytes(base)} on disk at "
            f"`{target.parent}`; {readable_bytes(free)} may be used",
            hint="free some space, write elsewhere, or keep fewer rows (`--rows labeled`), "
            "fewer hops or float16",
        )
    slots = 0 if state == 0 or config.hops < 2 else min((free - base) // state, 2)
    passes = blocks * (matrices - 1)
    edges = sizes or [graph.num_edges] * len(ways_of(config, subsets))
    return DiskPlan(
        memory_bytes=needed(width), disk_bytes=result, block_columns=width, blocks=blocks,
        passes=passes, budget_bytes=budget, work_bytes=base + slots * state, free_bytes=free,
        state_slots=slots if has_others else None, slab_rows=slab_rows,
        chunk_edges=chunk_edges, rows=kept,
        seconds=_seconds(
            graph, config, source, width, blocks, kept, (state, slots), threads, edges
        ) + 2 * result / WRITE_SPEED + 2 * result / READ_SPEED,
    )  # fmt: skip


def _widths(columns: int, line: int) -> list[int]:
    """Widths of blocks worth trying, widest first: each is the narrowest for its count of blocks.

    Whole cache lines first, then half ones, since the narrowest block may be one.
    """
    made = [columns]
    for unit in (line, NARROWEST_BLOCK):
        blocks = range(2, -(-columns // unit) + 1)
        made += [-(-columns // (count * unit)) * unit for count in blocks]
    return sorted({width for width in made if width <= columns}, reverse=True)


def _fixed_bytes(graph: Graph, config: PropagationConfig, chunk_edges: int) -> int:
    """Memory held all the time: bounds and scales of rows, and edges or the buffers of them."""
    ways = 2 if graph.directed and config.direction == "separate" else 1
    per_node = 8 + 4 * (1 if config.norm == "row" else 2)
    turned = turned_bytes(graph, config.direction)
    edge_bytes = graph.indices.dtype.itemsize + (0 if graph.weights is None else 4)
    # Turning touches all edges, which may be a memory map: they count like a copy.
    edges = turned + edge_bytes * len(graph.indices) if turned else 2 * chunk_edges * edge_bytes
    return int(ways * per_node * graph.num_nodes + edges)


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


def _seconds(
    graph: Graph, config: PropagationConfig, source: Any, width: int, blocks: int, kept: int,
    states: tuple[int, int], threads: int | None, edges: list[int],
) -> float:  # fmt: skip
    """Time of walks over so many edges by the speeds above; edges are read while the cores work."""
    cores = min(threads or numba.config.NUMBA_NUM_THREADS, os.cpu_count() or 1)
    item = np.dtype(config.dtype).itemsize
    edge_bytes = graph.indices.dtype.itemsize + (0 if graph.weights is None else 4)
    state, slots = states[0] / WRITE_SPEED, states[1]
    total = 0.0
    for count in edges:
        gathered = count * -(-width * item // CACHE_LINE) / (LINES_PER_SECOND * cores)
        read = count * edge_bytes / READ_SPEED
        per_pass = max(gathered, read, state * (slots == 2))
        per_pass += state * (slots == 1)  # only two states are written while the cores work
        # Of the last hop of each way, only rows that are kept are computed.
        last = max(gathered * kept / max(graph.num_nodes, 1), read)
        total += (config.hops - 1) * per_pass + last
    features = graph.num_nodes * source.shape[1] * source.dtype.itemsize / READ_SPEED
    return float(blocks * (total + features * max(len(edges), 1)))
