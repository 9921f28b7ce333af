"""A plan for a propagation out of core, as `_plan.py` makes it and as a user is shown it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DiskPlan:
    """What a propagation out of core will take."""

    memory_bytes: int
    """Most memory of the whole process."""
    budget_bytes: int
    disk_bytes: int
    """Size of the hops."""
    work_bytes: int
    """Most disk in use beside the graph, the result included."""
    free_bytes: int
    """Disk that may be used."""
    block_columns: int
    """Columns that are multiplied together."""
    spare_rows: int
    """Rows of the second of the two matrices of a block."""
    blocks: int
    passes: int
    """Times that the adjacency is read."""
    edges_fit: bool
    """Whether there is memory for all edges beside a block: where the page cache holds them, they
    are used from there, instead of being copied from it in each pass."""
    state_slots: int | None
    """Whole hops of a block kept for resuming after a kill; none where the parts serve for it."""
    row_ranges: int
    """Ranges of rows that the hops of a block are cut into, one for each worker at most; 1: a
    worker computes whole blocks."""
    tasks: int
    """What workers are given."""
    slab_rows: int
    """Rows under one checksum."""
    slabs: int
    """How many such are written at once."""
    stretch_chunks: int
    """Most chunks of the result that are put together in one go."""
    stretches: int
    """How many such are on their way to the disk at once."""
    chunk_edges: int
    rows: int
    """Rows that are kept."""
    at_once: bool
    """Whether the result is put together in memory and written once, without parts on disk."""
    seconds: float
    """Estimated time."""
    read_bytes: int
    """Edges and features read by all, and what is put together."""
    read_again_bytes: int
    """Of these, parts that are put together, and features that are hop 0."""
    written_bytes: int
    """Parts and the result."""
    workers: int = 0
    """Workers of a cluster with a block to compute; 0: this process computes all of them."""
    worker_bytes: int = 0
    """Most memory of a worker."""

    @property
    def layout(self) -> dict[str, int]:
        """How the work is cut into files, which stays the same when it is resumed."""
        names = ("block_columns", "row_ranges", "slab_rows")
        return {name: getattr(self, name) for name in names}
