"""How an ingest will go: in how much memory, on how much disk, for how long.

    memory    sort all edges at once, as small graphs do
    buckets   sort them through files, in ranges that fit memory (`_row_buckets.py`)

A graph of fewer than `LARGE_EDGES` edges goes through memory if it fits; any other goes through
buckets. All of it is arithmetic on a few sizes, so a plan costs nothing and can be printed first.
What the process holds already, its libraries included, counts as part of the budget.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scr.compute import default_threads, readable_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.ingest._row_buckets import (
    CHECKPOINT_BYTES,
    KEY_BYTES,
    LARGEST_BUCKET,
    SMALLEST_CHUNK,
    TARGET_BYTES,
    UNIT_BITS,
    RowRules,
    bucket_size,
    sorting_bytes,
)
from scr.storage import COPY_BYTES, READ_SPEED, WRITE_SPEED

LARGE_EDGES = 1 << 22
"""From so many edges on, they are sorted in buckets on all cores, not all at once: 5 million take
little more than half the memory in about the same time, 50 million 9 s and 0.7 GB instead of 27 s
and 4.8 GB (`benchmarks/scale.py curve`, on 2 cores)."""
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
        edges = TARGET_BYTES * self.directions + 8 * (self.nodes + 1)
        return edges + self.node_bytes + self.feature_store_bytes


@dataclass(frozen=True, kw_only=True)
class IngestPlan:
    """How an ingest will go."""

    method: Literal["memory", "buckets"]
    budget: int
    """Memory that may be used, in bytes."""
    resident: int
    """Memory that the process held when the plan was made."""
    memory_bytes: int
    """Memory that will be used at most, about."""
    final_bytes: int
    """Disk that the store takes, before repeated edges are merged."""
    temporary_bytes: int = 0
    """Disk that is free again in the end."""
    chunk_edges: int = LARGEST_CHUNK
    """Edges read at a time."""
    edge_bytes: int = 8
    """Of one edge as the source is read."""
    seconds: float = 0.0
    """How long it may take."""
    note: str | None = None
    """What else there is to say, as a sentence."""

    def room(self, resident: int = 0, chunk_edges: int | None = None) -> int:
        """Bytes for directions, where the process holds so much by now, compiled code included."""
        held = max(self.resident + MARGIN_BYTES, resident + MARGIN_BYTES // 4)
        chunk_edges = self.chunk_edges if chunk_edges is None else chunk_edges
        return _usable(self.budget) - held - _chunk_bytes(chunk_edges, self.edge_bytes)

    def fit(self, rules: RowRules, largest: int, resident: int) -> tuple[RowRules, int]:
        """Chunks so small that the `largest` unit of rows can be sorted, and the size of buckets.

        A plan is made before anybody knows of rows with very many edges.
        """
        chunk, needed = rules.chunk_edges, sorting_bytes(largest, rules.threads)
        while needed > self.room(resident, chunk) and chunk > SMALLEST_CHUNK:
            chunk //= 2
        room = self.room(resident, chunk)
        if needed > room:
            smallest = _budget_for(_usable(self.budget) - room + needed)
            raise _too_little(smallest, self.budget, "the rows with the most edges")
        return dataclasses.replace(rules, chunk_edges=chunk), bucket_size(room, rules.threads)


def plan_ingest(
    size: IngestSize, *, budget: int, resident: int, free_disk: int, store: Path | None = None
) -> IngestPlan:
    """Choose between memory and buckets, for a process that holds `resident` bytes of its `budget`.

    A `MemoryBudgetError` names the smallest budget that works; a `StoreError` says that the store
    or the buckets do not fit the disk.
    """
    _check_disk(size.final_bytes, free_disk, store)
    held, threads = resident + MARGIN_BYTES, default_threads()
    nodes = NODE_BYTES * size.nodes + 4 * COPY_BYTES * threads
    per_edge = MEMORY_EDGE_BYTES if size.memory_only is None else WEIGHTED_EDGE_BYTES
    # The features are looked at through a memory map, of which every page counts.
    edges = (per_edge + size.edge_bytes) * size.edges + size.feature_source_bytes
    in_memory = IngestPlan(
        method="memory", budget=budget, resident=resident, memory_bytes=held + nodes + edges,
        final_bytes=size.final_bytes, seconds=_seconds(size),
    )  # fmt: skip
    fits = in_memory.memory_bytes <= budget
    if size.memory_only is not None and not fits:
        raise _too_little(in_memory.memory_bytes, budget, size.memory_only)
    if size.memory_only is not None or (fits and size.edges < LARGE_EDGES):
        return in_memory

    # Memory to sort the largest unit of rows, if it is twice as large as they are in the mean.
    unit = size.directions * min(1 << UNIT_BITS, size.nodes) // max(1, size.nodes)
    largest = max(2 * unit, min(SMALLEST_BUCKET, size.directions), 1)
    bucket = sorting_bytes(largest, threads)
    least = max(nodes, bucket + _chunk_bytes(SMALLEST_CHUNK, size.edge_bytes))
    if _budget_for(held + least) > budget:
        if fits:
            return in_memory
        what = f"{size.edges:,} edges of {size.nodes:,} nodes"
        raise _too_little(_budget_for(held + least), budget, what)
    temporary = _temporary_bytes(size.directions)
    if size.final_bytes + temporary > free_disk and fits:
        return in_memory
    _check_disk(size.final_bytes, free_disk, store, temporary)
    room, chunk = _usable(budget) - held, LARGEST_CHUNK
    most = min(room // 4, room - bucket)
    while chunk > SMALLEST_CHUNK and _chunk_bytes(chunk, size.edge_bytes) > most:
        chunk //= 2
    chunks = _chunk_bytes(chunk, size.edge_bytes)
    keys = min(bucket_size(room - chunks, threads), size.directions)
    return dataclasses.replace(
        in_memory, method="buckets", temporary_bytes=temporary, chunk_edges=chunk,
        memory_bytes=held + max(nodes, chunks + sorting_bytes(keys, threads)),
        edge_bytes=size.edge_bytes,
        seconds=_seconds(size, reads=2, threads=threads, temporary=temporary),
    )  # fmt: skip


def _temporary_bytes(directions: int) -> int:
    """Disk that buckets take beyond the rows, which take their place as they are written."""
    rows = TARGET_BYTES * directions
    replaced = max(rows - CHECKPOINT_BYTES - TARGET_BYTES * LARGEST_BUCKET, 0)
    return KEY_BYTES * directions - replaced


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


def _check_disk(final: int, free_disk: int, store: Path | None, temporary: int = 0) -> None:
    if final + temporary > free_disk:
        named = "" if store is None else f" `{store}`"
        more = f", and {readable_bytes(temporary)} while it is made" if temporary else ""
        raise StoreError(
            f"The store{named} takes up to {readable_bytes(final)} of disk{more}; "
            f"{readable_bytes(free_disk)} are free",
            hint="free some space, write elsewhere, or link the features instead of copying them",
        )


def _chunk_bytes(edges: int, edge_bytes: int) -> int:
    """Memory of the chunks under way: as read, as plain numbers, and as keys of buckets."""
    return (default_threads() + 2) * edges * (edge_bytes + 16 + 2 * KEY_BYTES)


def _seconds(size: IngestSize, *, reads: int = 1, threads: int = 1, temporary: int = 0) -> float:
    """How long the disk or the processor takes, whichever is slower."""
    read = reads * size.read_seconds + (size.feature_source_bytes + temporary) / READ_SPEED
    written = (size.final_bytes + temporary) / WRITE_SPEED
    return max(read + written, 1e-9 * SORT_NS * size.directions / threads)
