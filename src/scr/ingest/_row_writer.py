"""Write the offsets and targets of a graph's rows as they are sorted, so that work can go on.

After every pass over the edges, or some buckets, what is on disk is recorded. An ingest that was
killed goes on with the next rows.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.errors import MemoryBudgetError
from scr.graph import edge_steps
from scr.ingest._plan import SMALLEST_CHUNK, bucket_keys
from scr.ingest._row_buckets import Buckets, bucket_ranges, fill_buckets, rows_of_buckets
from scr.ingest._sorted_rows import (
    KEY_BYTES,
    UNIT_BITS,
    BlockCounts,
    OnProgress,
    RowRules,
    SortedRows,
    block_ranges,
    count_blocks,
    fitting_blocks,
    range_bytes,
    rows_by_passes,
)
from scr.sources import EdgeSource
from scr.storage import ArrayEntry, StreamedArray, WorkFolder, disk_errors, sync

CHECKPOINT_BYTES = 1 << 30
"""Written between two records of buckets: bringing it to the disk stops everything else."""
FILES = ("indptr.npy", "indices.npy")
Way = Literal["passes", "buckets"]


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
    way: Way,
    room: Callable[[int], int],
    refuse: Callable[[int], MemoryBudgetError],
    on_progress: OnProgress | None = None,
) -> WrittenRows:
    """Sort edges into rows and write them to the files `indptr.npy` and `indices.npy`.

    Args:
        source: The edges.
        rules: What becomes of them.
        work: Where the files go, and where it is recorded what is finished.
        way: How to sort.
        room: Says how many bytes of memory there are for directions, when it is asked, if so many
            edges are read at a time.
        refuse: The error to raise if so many bytes are needed.
        on_progress: Told of every step.
    """
    finished = work.finished("rows")
    if finished is None:
        counts = count_rows(source, rules, work, on_progress)
        written = _Output(work, rules, int(counts.directions.sum()))
        try:
            if written.row < rules.num_nodes:  # else only the end of the last attempt is missing
                largest = int(counts.directions[written.row >> _unit_bits(rules) :].max())
                way, rules = _fitting(way, rules, largest, room)
                task = _Task(
                    source, rules, work, counts, written.row, room(rules.chunk_edges), refuse,
                    on_progress,
                )  # fmt: skip
                for rows in task.passes() if way == "passes" else task.buckets():
                    written.write(rows)
            finished = written.finish(counts.loops)
        finally:
            written.close()
    loops = 0 if rules.keep_loops else finished["loops"]
    indptr, indices = (ArrayEntry.from_json(finished[name]) for name in ("indptr", "indices"))
    listed = source.num_edges - loops
    steps = edge_steps(loops, listed, finished["listed"], indices.shape[0])
    return WrittenRows(indptr, indices, steps)


def _fitting(
    way: Way, rules: RowRules, largest: int, room: Callable[[int], int]
) -> tuple[Way, RowRules]:
    """The same way with smaller chunks, else the one that needs less, if rows are that many.

    A plan is made before anybody knows of rows with very many edges.
    """
    ways: tuple[Way, ...] = ("passes",) if way == "passes" else ("buckets", "passes")
    for each in ways:
        chunk = rules.chunk_edges
        while _needed(each, largest, rules.workers) > room(chunk) and chunk > SMALLEST_CHUNK:
            chunk //= 2
        if _needed(each, largest, rules.workers) <= room(chunk):
            break
    return each, dataclasses.replace(rules, chunk_edges=chunk)


def _needed(way: Way, largest: int, workers: int) -> int:
    """Bytes to sort a block of so many directions."""
    if way == "passes":
        return range_bytes(largest, largest, workers)
    return KEY_BYTES * (workers + 1) * largest  # one is written while each thread sorts another


def _unit_bits(rules: RowRules) -> int:
    return min(rules.bits, UNIT_BITS)


def count_rows(
    source: EdgeSource, rules: RowRules, work: WorkFolder, on_progress: OnProgress | None = None
) -> BlockCounts:
    """Look at all edges once, which finds those that point outside the graph; `write_rows` does it
    if it was not done before.
    """
    file = work.file("counts.npy")
    known = work.finished("counts")
    if known is not None:
        return BlockCounts(np.load(file, allow_pickle=False), known["loops"])
    units = dataclasses.replace(rules, bits=_unit_bits(rules))
    counts = count_blocks(source, units, on_progress)
    np.save(file, counts.directions)
    sync(file)
    work.finish("counts", {"loops": counts.loops}, [file.name])
    return counts


@dataclass(frozen=True)
class _Task:
    """What is to be sorted, and the room there is for it."""

    source: EdgeSource
    rules: RowRules
    work: WorkFolder
    counts: BlockCounts
    row: int
    """The row to begin with."""
    room: int
    refuse: Callable[[int], MemoryBudgetError]
    on_progress: OnProgress | None

    def passes(self) -> Iterator[SortedRows]:
        """Sort by reading the edges again for each range of rows."""
        workers = self.rules.workers
        rules, counts = self._blocks("passes")
        ranges = block_ranges(counts, self.room, first=self.row >> rules.bits, workers=workers)
        return rows_by_passes(self.source, rules, counts, ranges, self.on_progress)

    def buckets(self) -> Iterator[SortedRows]:
        """Sort through files."""
        rules, counts = self._blocks("buckets")
        ranges = self._filled_ranges(bucket_keys(self.room, rules.workers), rules, counts)
        starts = [rules.rows_of(*each)[0] for each in ranges]
        if self.row not in starts:
            # Passes that were made before need not end where a bucket begins.
            return self.passes()
        first = starts.index(self.row)
        buckets = Buckets(self.work.file("buckets"), rules, ranges)
        return rows_of_buckets(buckets, first=first, on_progress=self.on_progress)

    def _blocks(self, way: Way) -> tuple[RowRules, NDArray[np.int64]]:
        """Blocks of rows that can be sorted at once, and the directions of each."""

        def needed(largest: int) -> int:
            return _needed(way, largest, self.rules.workers)

        rules, counts = fitting_blocks(
            self.counts.directions, self.rules, _unit_bits(self.rules), row=self.row,
            fits=lambda largest: needed(largest) <= self.room,
        )  # fmt: skip
        largest = int(counts[self.row >> rules.bits :].max(initial=0))
        if needed(largest) > self.room:
            raise self.refuse(needed(largest))
        return rules, counts

    def _filled_ranges(
        self, most: int, rules: RowRules, counts: NDArray[np.int64]
    ) -> list[tuple[int, int]]:
        """The ranges of the buckets, which are filled if they were not."""
        known = self.work.finished("buckets")
        if known is not None and known["bits"] == rules.bits:
            ranges = [(first, last) for first, last in known["ranges"]]
            largest = max(int(counts[first:last].sum()) for first, last in ranges)
            if largest <= max(most, int(counts.max())):
                return ranges
        buckets = Buckets(self.work.file("buckets"), rules, bucket_ranges(counts, most))
        shutil.rmtree(buckets.folder, ignore_errors=True)
        with disk_errors(self.work.target):
            fill_buckets(buckets, self.source, counts, self.on_progress)
        known = {"bits": rules.bits, "ranges": buckets.ranges}
        self.work.finish("buckets", known, ["buckets"])
        return list(buckets.ranges)


class _Output:
    """Both files, and the record of how far they are."""

    def __init__(self, work: WorkFolder, rules: RowRules, directions: int) -> None:
        self._work = work
        known: dict[str, Any] = work.finished("rows so far") or {}
        self.row = int(known.get("row", 0))
        """The row to go on with."""
        self._listed, self._total = int(known.get("listed", 0)), int(known.get("total", 0))
        self._unrecorded = 0
        self._indices = StreamedArray(
            work.file("indices.npy"), (directions,), np.int32, target=work.target,
            checkpoint=known.get("indices"),
        )  # fmt: skip
        self._indptr = StreamedArray(
            work.file("indptr.npy"), (rules.num_nodes + 1,), np.int64, target=work.target,
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
            known = {
                "row": self.row, "listed": self._listed, "total": self._total,
                "indices": self._indices.checkpoint(), "indptr": self._indptr.checkpoint(),
            }  # fmt: skip
            self._work.finish("rows so far", known, FILES)

    def finish(self, loops: int) -> dict[str, Any]:
        """Close both files and record them."""
        self._indices.trim()
        entries = {"indptr": self._indptr.finish(), "indices": self._indices.finish()}
        known: dict[str, Any] = {name: entry.as_json() for name, entry in entries.items()}
        known |= {"listed": self._listed, "loops": loops}
        self._work.finish("rows", known, FILES)
        shutil.rmtree(self._work.file("buckets"), ignore_errors=True)
        return known

    def close(self) -> None:
        """Close both files, finished or not."""
        self._indices.close()
        self._indptr.close()
