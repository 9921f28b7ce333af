"""How an ingest will go: in how much memory, on how much disk, for how long.

    memory    sort all edges at once, as small graphs do
    buckets   sort them through files, in ranges that fit memory (`_row_buckets.py`)

A graph of fewer than `LARGE_EDGES` edges goes through memory if it fits; any other goes through
buckets. All of it is arithmetic on a few sizes, so a plan costs nothing and can be printed first.
What the process holds already, its libraries included, counts as part of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scr.compute import default_threads, readable_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.ingest._row_buckets import KEY_BYTES, UNIT_BITS, bucket_size, sorting_bytes
from scr.ingest._row_writer import SMALLEST_CHUNK
from scr.storage import COPY_BYTES, READ_SPEED, WRITE_SPEED

LARGE_EDGES = 1 << 26
"""From so many edges on, sorting in buckets on all cores is faster than all at once."""
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
LARGEST_CHUNK = 1 << 21
"""Edges read at a time, at most."""
SMALLEST_BUCKET = 1 << 20
"""Directions in a bucket for which there must be memory: small files are slow to write."""

SORT_NS = 30.0
"""Processor time per direction on a busy machine of 2.8 GHz: counted, put into a bucket, sorted."""

Method = Literal["memory", "buckets"]


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

    method: Method
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
    """Choose between memory and buckets.

    Args:
        size: Of the source and of its store.
        budget: Bytes of memory for the whole process.
        resident: Bytes that it holds already.
        free_disk: Bytes.

    Raises:
        MemoryBudgetError: Neither fits the memory; names the smallest budget that does.
        StoreError: The store does not fit the disk, or the buckets do not.
    """
    _check_disk(size.final_bytes, free_disk)
    in_memory = _in_memory(size, budget, resident)
    fits = in_memory.memory_bytes <= budget
    if size.memory_only is not None and not fits:
        raise _too_little(in_memory.memory_bytes, budget, size.memory_only)
    if size.memory_only is not None or (fits and size.edges < LARGE_EDGES):
        return in_memory
    smallest = _budget_for(resident + MARGIN_BYTES + max(_node_phase(size), _least_room(size)))
    if smallest > budget:
        raise _too_little(smallest, budget, f"{size.edges:,} edges of {size.nodes:,} nodes")
    buckets = _in_buckets(size, budget, resident)
    if fits and buckets.final_bytes + buckets.temporary_bytes > free_disk:
        return in_memory
    _check_disk(buckets.final_bytes, free_disk, buckets.temporary_bytes)
    return buckets


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
        hint=f"the smallest that works is `{readable_bytes(needed)}`",
    )


def _check_disk(final: int, free_disk: int, temporary: int = 0) -> None:
    if final + temporary > free_disk:
        more = f", and {readable_bytes(temporary)} while it is made" if temporary else ""
        raise StoreError(
            f"The store takes up to {readable_bytes(final)} of disk{more}; "
            f"{readable_bytes(free_disk)} are free",
            hint="free some space, write elsewhere, or link the features instead of copying them",
        )


def _in_memory(size: IngestSize, budget: int, resident: int) -> IngestPlan:
    per_edge = MEMORY_EDGE_BYTES if size.memory_only is None else WEIGHTED_EDGE_BYTES
    # The features are looked at through a memory map, of which every page counts.
    edges = (per_edge + size.edge_bytes) * size.edges + size.feature_source_bytes
    return IngestPlan(
        method="memory",
        budget=budget,
        resident=resident,
        memory_bytes=resident + MARGIN_BYTES + _node_phase(size) + edges,
        temporary_bytes=0,
        final_bytes=size.final_bytes,
        seconds=_seconds(size, reads=1, threads=1),
    )


def _in_buckets(size: IngestSize, budget: int, resident: int) -> IngestPlan:
    threads, temporary = default_threads(), KEY_BYTES * size.directions
    room = _usable(budget) - resident - MARGIN_BYTES
    chunk = LARGEST_CHUNK
    most = min(room // 4, room - _least_bucket(size))
    while chunk > SMALLEST_CHUNK and _chunk_bytes(chunk, size.edge_bytes) > most:
        chunk //= 2
    chunks = _chunk_bytes(chunk, size.edge_bytes)
    keys = min(bucket_size(room - chunks, threads), size.directions)
    work = max(_node_phase(size), chunks + sorting_bytes(keys, threads))
    return IngestPlan(
        method="buckets",
        budget=budget,
        resident=resident,
        memory_bytes=resident + MARGIN_BYTES + work,
        temporary_bytes=temporary,
        final_bytes=size.final_bytes,
        chunk_edges=chunk,
        edge_bytes=size.edge_bytes,
        seconds=_seconds(size, reads=2, threads=threads, temporary=temporary),
    )


def _chunk_bytes(edges: int, edge_bytes: int) -> int:
    """Memory of the chunks under way: as read, as plain numbers, and as keys of buckets."""
    return (default_threads() + 2) * edges * (edge_bytes + 16 + 2 * KEY_BYTES)


def _node_phase(size: IngestSize) -> int:
    return NODE_BYTES * size.nodes + 4 * COPY_BYTES * default_threads()


def _least_bucket(size: IngestSize) -> int:
    """Memory to sort the largest unit of rows, if it is twice as large as they are in the mean."""
    unit = size.directions * min(1 << UNIT_BITS, size.nodes) // max(1, size.nodes)
    keys = max(2 * unit, min(SMALLEST_BUCKET, size.directions), 1)
    return sorting_bytes(keys, default_threads())


def _least_room(size: IngestSize) -> int:
    return _least_bucket(size) + _chunk_bytes(SMALLEST_CHUNK, size.edge_bytes)


def _seconds(size: IngestSize, *, reads: int, threads: int, temporary: int = 0) -> float:
    """How long the disk or the processor takes, whichever is slower."""
    read = reads * size.read_seconds + (size.feature_source_bytes + temporary) / READ_SPEED
    written = (size.final_bytes + temporary) / WRITE_SPEED
    return max(read + written, 1e-9 * SORT_NS * size.directions / threads)
