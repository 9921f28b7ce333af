"""How an ingest will go: which way, in how much memory, on how much disk, for how long.

    memory    sort all edges at once, as small graphs do
    passes    read the edges once for each range of rows that fits memory (`_sorted_rows.py`)
    buckets   read them once and sort them through files (`_row_buckets.py`)

All of it is arithmetic on a few sizes, so a plan costs nothing and can be printed first. What the
process holds already, its libraries included, counts as part of the budget.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from scr.compute import default_threads, readable_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.ingest._sorted_rows import BLOCK_BITS, KEY_BYTES, range_bytes
from scr.storage import COPY_BYTES

LARGE_EDGES = 1 << 26
"""From so many edges on, sorting by ranges is faster than all at once, whatever memory there is."""
MARGIN_BYTES = 96 << 20
"""For compiled code, small arrays and what the allocator keeps."""
SPARE = 32
"""One part in so many of a budget stays free: the allocator does not give all back at once."""
SLACK_BYTES = 8 << 20
"""By less than this, two runs of the same command differ in what their libraries hold."""
MEMORY_EDGE_BYTES = 100
"""Sorting in memory, per edge, beside the edges themselves: keys, both directions of them, and
their sorted copies. Measured: 98."""
WEIGHTED_EDGE_BYTES = 125
"""The same where edges have weights. Measured: 122."""
NODE_BYTES = 40
"""Labels, splits and ids while they are checked: a few 8-byte arrays."""
LARGEST_CHUNK, SMALLEST_CHUNK = 1 << 21, 1 << 14
"""Edges read at a time."""
LARGEST_BUCKET = 1 << 24
"""Directions in a bucket: beyond 128 MiB, sorting leaves the processor's caches."""

READ_BYTES_PER_SECOND, WRITE_BYTES_PER_SECOND = 1.8e9, 0.4e9
"""Of the disk of a rented machine."""
HASH_BYTES_PER_SECOND = 0.54e9
"""Of one core, with the checksum that manifests have."""
COUNT_NS, DISTRIBUTE_NS, PLACE_NS, SORT_NS, GROUP_NS = 4.5, 8.0, 12.0, 15.0, 14.0
"""Processor time on a busy machine of 2.8 GHz, as are all speeds of one core here: per edge counted
and looked at in a pass, per direction placed, sorted and put into a bucket. A pass over edges was
measured as a whole; how it divides between looking and placing is a guess."""

Way = Literal["memory", "passes", "buckets"]


@dataclass(frozen=True, kw_only=True)
class IngestSize:
    """What a source holds and what a store of it will."""

    nodes: int
    edges: int
    both: bool = True
    """Whether each edge is stored in both directions."""
    edge_bytes: int = 8
    """Of one edge as the source is read."""
    read_seconds: float = 0.0
    """To read all edges once."""
    node_bytes: int = 8
    """Stored for all nodes: labels, splits, ids."""
    feature_source_bytes: int = 0
    """Of dense features that are on disk."""
    feature_store_bytes: int = 0
    """What they take in the store; nothing if they are linked."""
    memory_only: str | None = None
    """Why edges must be sorted in memory, if they must."""

    @property
    def directions(self) -> int:
        """Most directions that can be stored."""
        return self.edges * (2 if self.both else 1)

    @property
    def final_bytes(self) -> int:
        """Disk that the store may take."""
        edges = 4 * self.directions + 8 * (self.nodes + 1)
        return edges + self.node_bytes + self.feature_store_bytes


@dataclass(frozen=True, kw_only=True)
class IngestPlan:
    """How an ingest will go."""

    way: Way
    budget: int
    """Memory that may be used, in bytes."""
    resident: int
    """Memory that the process held when the plan was made."""
    memory_bytes: int
    """Memory that will be used at most, about."""
    temporary_bytes: int
    """Disk that is free again in the end."""
    final_bytes: int
    """Disk that the store takes, before repeated edges are merged."""
    passes: int = 1
    """How often the edges are read, after they were counted."""
    chunk_edges: int = LARGEST_CHUNK
    """Edges read at a time."""
    edge_bytes: int = 8
    """Of one edge as the source is read."""
    seconds: float = 0.0
    """How long it may take."""
    note: str | None = None
    """What else there is to say, as a sentence."""

    def room(self, resident: int = 0, chunk_edges: int | None = None) -> int:
        """Bytes for directions.

        Args:
            resident: Memory that the process holds by now, its compiled code included.
            chunk_edges: Edges read at a time, if not those of the plan.
        """
        held = max(self.resident + MARGIN_BYTES, resident + MARGIN_BYTES // 4)
        chunk_edges = self.chunk_edges if chunk_edges is None else chunk_edges
        return _usable(self.budget) - held - _chunk_bytes(chunk_edges, self.edge_bytes)


def plan_ingest(size: IngestSize, *, budget: int, resident: int, free_disk: int) -> IngestPlan:
    """Choose the fastest way that fits.

    Args:
        size: Of the source and of its store.
        budget: Bytes of memory for the whole process.
        resident: Bytes that it holds already.
        free_disk: Bytes.

    Raises:
        MemoryBudgetError: No way fits the memory; names the smallest budget that does.
        StoreError: The store does not fit the disk.
    """
    _check_disk(size, free_disk)
    in_memory = _in_memory(size, budget, resident)
    if size.memory_only is not None:
        if in_memory.memory_bytes > budget:
            raise _too_little(in_memory.memory_bytes, budget, size.memory_only)
        return in_memory
    if size.edges < LARGE_EDGES and in_memory.memory_bytes <= budget:
        return in_memory
    smallest = _budget_for(resident + MARGIN_BYTES + max(_node_phase(size), _least_room(size)))
    if smallest > budget:
        raise _too_little(smallest, budget, f"{size.edges:,} edges of {size.nodes:,} nodes")
    ways = [_by_passes(size, budget, resident), _by_buckets(size, budget, resident)]
    fitting = [plan for plan in ways if plan.final_bytes + plan.temporary_bytes <= free_disk]
    return min(fitting, key=lambda plan: plan.seconds)


def too_little_memory(needed: int, plan: IngestPlan, resident: int) -> MemoryBudgetError:
    """The error for a range of rows that turned out to be larger than the room there is."""
    room = plan.room(resident, min(plan.chunk_edges, SMALLEST_CHUNK))
    smallest = _budget_for(_usable(plan.budget) - room + needed)
    return _too_little(smallest, plan.budget, "the rows with the most edges")


def _usable(budget: int) -> int:
    return budget - budget // SPARE


def _budget_for(needed: int) -> int:
    """The smallest budget of which so much is usable."""
    return -(-needed * SPARE // (SPARE - 1))


def _too_little(needed: int, budget: int, what: str) -> MemoryBudgetError:
    needed = (needed // SLACK_BYTES + 2) * SLACK_BYTES
    return MemoryBudgetError(
        f"Sorting {what} takes {readable_bytes(needed)} of memory; "
        f"the budget is {readable_bytes(budget)}",
        hint=f"the smallest that works is `--memory {readable_bytes(needed)}`",
    )


def _check_disk(size: IngestSize, free_disk: int) -> None:
    if size.final_bytes > free_disk:
        raise StoreError(
            f"The store takes up to {readable_bytes(size.final_bytes)} of disk; "
            f"{readable_bytes(free_disk)} are free",
            hint="free some space or write elsewhere; `--link` leaves features where they are",
        )


def _in_memory(size: IngestSize, budget: int, resident: int) -> IngestPlan:
    per_edge = MEMORY_EDGE_BYTES if size.memory_only is None else WEIGHTED_EDGE_BYTES
    # The features are looked at through a memory map, of which every page counts.
    edges = (per_edge + size.edge_bytes) * size.edges + size.feature_source_bytes
    return IngestPlan(
        way="memory",
        budget=budget,
        resident=resident,
        memory_bytes=resident + MARGIN_BYTES + _node_phase(size) + edges,
        temporary_bytes=0,
        final_bytes=size.final_bytes,
        seconds=_counted(size) + _written(size) + 2e-9 * SORT_NS * size.directions,
    )


def _by_passes(size: IngestSize, budget: int, resident: int) -> IngestPlan:
    plan = _streamed(size, "passes", budget, resident, temporary=0)
    threads, room, block = default_threads(), plan.room(), _block(size)
    # The least room holds two blocks of the usual size, so there is always one in a range.
    in_range = max(1, (room - KEY_BYTES * threads * block) // range_bytes(block, 0, 0)) * block
    passes = math.ceil(size.directions / in_range) if size.directions else 1
    looked_at = 1e-9 * DISTRIBUTE_NS * size.edges / threads
    placed = 1e-9 * PLACE_NS * size.directions / threads
    sorted_ = max(1e-9 * SORT_NS * size.directions / threads, _written(size))
    used = range_bytes(min(in_range, size.directions), block, threads)
    return dataclasses.replace(
        plan,
        passes=passes,
        memory_bytes=_peak(size, plan, used),
        seconds=_counted(size) + passes * max(size.read_seconds, looked_at) + placed + sorted_,
    )


def _by_buckets(size: IngestSize, budget: int, resident: int) -> IngestPlan:
    temporary = KEY_BYTES * size.directions
    plan = _streamed(size, "buckets", budget, resident, temporary=temporary)
    threads = default_threads()
    keys = min(bucket_keys(plan.room(), threads), size.directions)
    filled = max(
        size.read_seconds,
        1e-9 * GROUP_NS * size.directions / threads,
        temporary / WRITE_BYTES_PER_SECOND,
    )
    sorted_ = max(
        1e-9 * SORT_NS * size.directions / threads,
        temporary / READ_BYTES_PER_SECOND,
        _written(size),
    )
    return dataclasses.replace(
        plan,
        memory_bytes=_peak(size, plan, KEY_BYTES * (threads + 1) * keys),
        seconds=_counted(size) + filled + sorted_,
    )


def bucket_keys(room: int, threads: int) -> int:
    """Directions in a bucket: one is written while each thread sorts another."""
    return min(LARGEST_BUCKET, max(1, room // (KEY_BYTES * (threads + 1))))


def _streamed(
    size: IngestSize, way: Way, budget: int, resident: int, *, temporary: int
) -> IngestPlan:
    room = _usable(budget) - resident - MARGIN_BYTES
    most, chunk = min(room // 4, room - _least_range(size)), LARGEST_CHUNK
    while chunk > SMALLEST_CHUNK and _chunk_bytes(chunk, size.edge_bytes) > most:
        chunk //= 2
    return IngestPlan(
        way=way, budget=budget, resident=resident, memory_bytes=0, temporary_bytes=temporary,
        final_bytes=size.final_bytes, chunk_edges=chunk, edge_bytes=size.edge_bytes,
    )  # fmt: skip


def _chunk_bytes(edges: int, edge_bytes: int) -> int:
    """Memory of the chunks under way: as read, as plain numbers, and as keys of buckets."""
    return (default_threads() + 2) * edges * (edge_bytes + 16 + 2 * KEY_BYTES)


def _peak(size: IngestSize, plan: IngestPlan, directions: int) -> int:
    chunks = _chunk_bytes(plan.chunk_edges, plan.edge_bytes)
    return plan.resident + MARGIN_BYTES + max(_node_phase(size), chunks + directions)


def _node_phase(size: IngestSize) -> int:
    return NODE_BYTES * size.nodes + 4 * COPY_BYTES * default_threads()


def _block(size: IngestSize) -> int:
    """Directions in a block of rows, if all rows have as many."""
    return max(1, size.directions * min(1 << BLOCK_BITS, size.nodes) // max(1, size.nodes))


def _least_range(size: IngestSize) -> int:
    """Memory to sort the largest block, if it is twice as large as they are in the mean."""
    threads, block = default_threads(), 2 * _block(size)
    return max(range_bytes(block, block, threads), KEY_BYTES * (threads + 1) * block)


def _least_room(size: IngestSize) -> int:
    return _least_range(size) + _chunk_bytes(SMALLEST_CHUNK, size.edge_bytes)


def _counted(size: IngestSize) -> float:
    """Seconds until the features are in the store and the edges have been counted."""
    read, threads = size.feature_source_bytes, default_threads()
    features = max(
        read / READ_BYTES_PER_SECOND,
        read / HASH_BYTES_PER_SECOND / threads,
        size.feature_store_bytes / WRITE_BYTES_PER_SECOND,
    )
    return features + max(size.read_seconds, 1e-9 * COUNT_NS * size.edges / threads)


def _written(size: IngestSize) -> float:
    """Seconds to write everything but the features."""
    return (size.final_bytes - size.feature_store_bytes) / WRITE_BYTES_PER_SECOND
