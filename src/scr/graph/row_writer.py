"""Write the offsets and targets of a graph's rows as they are sorted, so that work can go on.

After every pass over the edges, or some buckets, what is on disk is recorded. An ingest that was
killed goes on with the next rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from scr.errors import MemoryBudgetError
from scr.graph.edge_source import EdgeSource
from scr.graph.edges import edge_steps
from scr.graph.ingest_plan import bucket_keys
from scr.graph.ingest_work import WorkFolder, entry_of
from scr.graph.manifest import ArrayEntry
from scr.graph.row_buckets import Buckets, bucket_ranges, fill_buckets, rows_of_buckets
from scr.graph.sorted_rows import (
    KEY_BYTES,
    BlockCounts,
    OnProgress,
    RowRules,
    SortedRows,
    block_ranges,
    count_blocks,
    range_bytes,
    rows_by_passes,
)
from scr.graph.streamed_array import StreamedArray, disk_error

CHECKPOINT_BYTES = 1 << 30
"""Written between two records of buckets: bringing it to the disk stops everything else."""
FILES = ("indptr.npy", "indices.npy")


class WrittenRows(NamedTuple):
    """The edges of a store."""

    indptr: ArrayEntry
    indices: ArrayEntry
    steps: tuple[str, ...]

    @property
    def stored(self) -> int:
        """How many directions are stored."""
        return self.indices.shape[0]


def write_rows(
    source: EdgeSource,
    rules: RowRules,
    work: WorkFolder,
    *,
    way: Literal["passes", "buckets"],
    room: Callable[[], int],
    refuse: Callable[[int], MemoryBudgetError],
    on_progress: OnProgress | None = None,
) -> WrittenRows:
    """Sort edges into rows and write them to the files `indptr.npy` and `indices.npy`.

    Args:
        source: The edges.
        rules: What becomes of them.
        work: Where the files go, and where it is recorded what is finished.
        way: How to sort.
        room: Says how many bytes of memory there are for directions, when it is asked.
        refuse: The error to raise if so many bytes are needed.
        on_progress: Told of every step.
    """
    finished = work.finished("rows", FILES)
    if finished is None:
        counts = _counts(source, rules, work, on_progress)
        written = _Output(work, rules, int(counts.directions.sum()))
        try:
            sort = _passes if way == "passes" else _buckets
            for rows in sort(source, rules, work, counts, written.row, room(), refuse, on_progress):
                written.write(rows)
            finished = written.finish(counts.loops)
        finally:
            written.close()
    loops = 0 if rules.keep_loops else finished["loops"]
    indptr, indices = (entry_of(finished[name]) for name in ("indptr", "indices"))
    listed = source.num_edges - loops
    steps = edge_steps(loops, listed, finished["listed"], indices.shape[0])
    return WrittenRows(indptr, indices, steps)


def _counts(
    source: EdgeSource, rules: RowRules, work: WorkFolder, on_progress: OnProgress | None
) -> BlockCounts:
    known = work.finished("counts")
    if known is not None:
        return BlockCounts(np.array(known["directions"], np.int64), known["loops"])
    counts = count_blocks(source, rules, on_progress)
    work.finish("counts", {"directions": counts.directions.tolist(), "loops": counts.loops})
    return counts


def _passes(
    source: EdgeSource,
    rules: RowRules,
    work: WorkFolder,
    counts: BlockCounts,
    row: int,
    room: int,
    refuse: Callable[[int], MemoryBudgetError],
    on_progress: OnProgress | None,
) -> Iterator[SortedRows]:
    first, directions = row >> rules.bits, counts.directions
    largest = int(directions[first:].max(initial=0))
    needed = range_bytes(largest, largest, rules.workers)
    if needed > room:
        raise refuse(needed)
    ranges = block_ranges(directions, room, first=first, workers=rules.workers)
    return rows_by_passes(source, rules, directions, ranges, on_progress)


def _buckets(
    source: EdgeSource,
    rules: RowRules,
    work: WorkFolder,
    counts: BlockCounts,
    row: int,
    room: int,
    refuse: Callable[[int], MemoryBudgetError],
    on_progress: OnProgress | None,
) -> Iterator[SortedRows]:
    # One bucket is being written while each thread sorts another.
    per_bucket = KEY_BYTES * (rules.workers + 1)
    largest = int(counts.directions.max(initial=0))
    if largest * per_bucket > room:
        raise refuse(largest * per_bucket)
    known = work.finished("buckets", ["buckets"])
    ranges = [(first, last) for first, last in known or ()]
    sizes = [int(counts.directions[first:last].sum()) for first, last in ranges]
    if known is None or max(sizes) * per_bucket > room:
        ranges = bucket_ranges(counts.directions, bucket_keys(room, rules.workers))
    buckets = Buckets(work.file("buckets"), rules, ranges)
    if [list(each) for each in ranges] != known:
        shutil.rmtree(buckets.folder, ignore_errors=True)
        try:
            fill_buckets(buckets, source, counts.directions, on_progress)
        except OSError as error:
            raise disk_error(error, work.store) from error
        work.finish("buckets", ranges)
    starts = [rules.rows_of(*each)[0] for each in ranges]
    # Work that went by passes before may have stopped inside a bucket: it has been written whole
    # or not at all only if a bucket begins there.
    if row not in (*starts, rules.num_nodes):
        return _passes(source, rules, work, counts, row, room, refuse, on_progress)
    first = starts.index(row) if row in starts else len(starts)
    return rows_of_buckets(buckets, first=first, on_progress=on_progress)


class _Output:
    """Both files, and the record of how far they are."""

    def __init__(self, work: WorkFolder, rules: RowRules, directions: int) -> None:
        self._work = work
        known: dict[str, Any] = work.finished("rows so far", FILES) or {}
        self.row = int(known.get("row", 0))
        """The row to go on with."""
        self._listed, self._total = int(known.get("listed", 0)), int(known.get("total", 0))
        self._unrecorded = 0
        self._indices = StreamedArray(
            work.file("indices.npy"), (directions,), np.int32, target=work.store,
            checkpoint=known.get("indices"),
        )  # fmt: skip
        self._indptr = StreamedArray(
            work.file("indptr.npy"), (rules.num_nodes + 1,), np.int64, target=work.store,
            checkpoint=known.get("indptr"),
        )  # fmt: skip
        if not known:
            self._indptr.write(np.zeros(1, np.int64))

    def write(self, rows: SortedRows) -> None:
        """Append some rows, and record them if work could go on from there."""
        self._indices.write(rows.targets)
        self._indptr.write(self._total + np.cumsum(rows.degrees))
        self.row, self._listed = rows.last, self._listed + rows.listed
        self._total += len(rows.targets)
        self._unrecorded += rows.targets.nbytes
        if rows.is_boundary and self._unrecorded >= CHECKPOINT_BYTES:
            self._unrecorded = 0
            self._work.finish("rows so far", {
                "row": self.row, "listed": self._listed, "total": self._total,
                "indices": self._indices.checkpoint(), "indptr": self._indptr.checkpoint(),
            })  # fmt: skip

    def finish(self, loops: int) -> dict[str, Any]:
        """Close both files and record them."""
        self._indices.trim()
        entries = {"indptr": self._indptr.finish(), "indices": self._indices.finish()}
        known: dict[str, Any] = {name: entry.as_json() for name, entry in entries.items()}
        known |= {"listed": self._listed, "loops": loops}
        self._work.finish("rows", known)
        shutil.rmtree(self._work.file("buckets"), ignore_errors=True)
        return known

    def close(self) -> None:
        """Close both files, finished or not."""
        self._indices.close()
        self._indptr.close()
