"""Write the offsets and targets of a graph's rows as they are sorted, so that work can resume.

What is on disk is recorded after some buckets. Work that was killed resumes with the next rows.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import numpy as np

from scr.compute import OnProgress, resident_bytes
from scr.graph import edge_steps
from scr.ingest._plan import IngestPlan
from scr.ingest._row_buckets import (
    CHECKPOINT_BYTES,
    LARGEST_BUCKET,
    Buckets,
    RowRules,
    SortedRows,
    UnitCounts,
    bucket_ranges,
    count_units,
)
from scr.sources import EdgeSource
from scr.storage import ArrayEntry, ChangedFileError, StreamedArray, WorkFolder, sync

FILES = ("indptr.npy", "indices.npy")
_BUCKETS, _SO_FAR = "buckets", "rows so far"


class WrittenRows(NamedTuple):
    """The edges of a store."""

    indptr: ArrayEntry
    indices: ArrayEntry
    loops: int
    """Edges from a node to itself that were dropped."""
    steps: tuple[str, ...]


def write_rows(
    source: EdgeSource,
    rules: RowRules,
    work: WorkFolder,
    plan: IngestPlan | None = None,
    on_progress: OnProgress | None = None,
) -> WrittenRows:
    """Sort edges into rows and write them to `indptr.npy` and `indices.npy` of a work folder.

    Without a plan there is as much memory as the largest buckets take.
    """
    finished = work.finished("rows")
    if finished is None:
        counts = count_rows(source, rules, work, on_progress)
        written = _Output(work, rules, int(counts.directions.sum()))
        try:
            if written.row < rules.num_nodes:  # else only the end of the last attempt is missing
                first = written.row >> rules.bits
                keys = LARGEST_BUCKET
                if plan is not None:
                    largest = int(counts.directions[first:].max())
                    rules, keys = plan.fit(rules, largest, resident_bytes())
                buckets = _filled(source, rules, work, counts, keys, first, on_progress)
                bucket = [start for start, _ in buckets.ranges].index(first)
                used = work.finished(_BUCKETS)["first"]
                for rows in buckets.rows(bucket, on_progress):
                    bucket += 1
                    if written.write(rows):
                        value = {"ranges": buckets.ranges, "first": bucket}
                        work.use_up(_BUCKETS, value, buckets.names(used, bucket))
                        used = bucket
            finished = written.finish(counts.loops)
        finally:
            written.close()
    loops = 0 if rules.keep_loops else finished["loops"]
    indptr, indices = (ArrayEntry.from_json(finished[name]) for name in ("indptr", "indices"))
    listed = source.num_edges - loops
    steps = edge_steps(loops, listed, finished["listed"], indices.shape[0])
    return WrittenRows(indptr, indices, loops, steps)


def count_rows(
    source: EdgeSource, rules: RowRules, work: WorkFolder, on_progress: OnProgress | None = None
) -> UnitCounts:
    """Look at all edges once, which finds those that point outside the graph; `write_rows` does it
    if it was not done before.
    """
    file = work.file("counts.npy")
    known = work.finished("counts")
    if known is not None:
        return UnitCounts(np.load(file, allow_pickle=False), known["loops"])
    counts = count_units(source, rules, on_progress)
    np.save(file, counts.directions)
    sync(file)
    work.finish("counts", {"loops": counts.loops}, [file.name])
    return counts


def _filled(
    source: EdgeSource,
    rules: RowRules,
    work: WorkFolder,
    counts: UnitCounts,
    keys: int,
    first: int,
    on_progress: OnProgress | None,
) -> Buckets:
    """Buckets of at most so many keys, of which one begins with a given unit."""
    directions, known = counts.directions, work.finished(_BUCKETS)
    if isinstance(known, dict):
        ranges = known["ranges"]
        left = ranges[known["first"] :]
        largest = max((int(directions[start:stop].sum()) for start, stop in left), default=0)
        begins = [start for start, _ in left]
        if first in begins and largest <= max(keys, int(directions.max())):
            return Buckets(work.file(_BUCKETS), rules, ranges)
    work.forget(_BUCKETS)
    ranges = bucket_ranges(directions, keys, boundary=first)
    buckets = Buckets(work.file(_BUCKETS), rules, ranges)
    shutil.rmtree(buckets.folder, ignore_errors=True)
    buckets.fill(source, directions, on_progress)
    work.finish_files(_BUCKETS, {"ranges": ranges, "first": 0}, buckets.names())
    return buckets


class _Output:
    """Both files, and the record of how far they are."""

    def __init__(self, work: WorkFolder, rules: RowRules, directions: int) -> None:
        self._work, self._unrecorded = work, 0
        try:
            self._open(work.finished(_SO_FAR) or {}, rules, directions)
        except ChangedFileError:
            work.forget(_SO_FAR)
            self._open({}, rules, directions)

    def _open(self, known: dict[str, Any], rules: RowRules, directions: int) -> None:
        self.row = int(known.get("row", 0))
        """The row to resume with."""
        self._listed, self._total = int(known.get("listed", 0)), int(known.get("total", 0))
        shapes = {
            "indices": ((directions,), np.int32),
            "indptr": ((rules.num_nodes + 1,), np.int64),
        }
        with ExitStack() as stack:
            self._indices, self._indptr = (
                stack.enter_context(closing(StreamedArray(
                    self._work.file(f"{name}.npy"), shape, dtype, target=self._work.target,
                    checkpoint=known.get(name), reserve=name == "indptr",
                )))
                for name, (shape, dtype) in shapes.items()
            )  # fmt: skip
            stack.pop_all()
        if not known:
            self._indptr.write(np.zeros(1, np.int64))

    def write(self, rows: SortedRows) -> bool:
        """Append some rows, and record them now and then; returns whether it did."""
        self._indices.write(rows.targets)
        self._indptr.write(self._total + np.cumsum(rows.degrees))
        self.row, self._listed = rows.last, self._listed + rows.listed
        self._total += len(rows.targets)
        self._unrecorded += rows.targets.nbytes
        if self._unrecorded < CHECKPOINT_BYTES:
            return False
        self._unrecorded = 0
        known = {
            "row": self.row, "listed": self._listed, "total": self._total,
            "indices": self._indices.checkpoint(), "indptr": self._indptr.checkpoint(),
        }  # fmt: skip
        self._work.finish(_SO_FAR, known, changing=FILES)
        return True

    def finish(self, loops: int) -> dict[str, Any]:
        """Close both files and record them."""
        self._indices.trim()
        entries = {"indptr": self._indptr.finish(), "indices": self._indices.finish()}
        known: dict[str, Any] = {name: entry.as_json() for name, entry in entries.items()}
        known |= {"listed": self._listed, "loops": loops}
        arrays = {file: entries[file.removesuffix(".npy")] for file in FILES}
        self._work.finish("rows", known, arrays)
        self._work.forget(_BUCKETS)
        return known

    def close(self) -> None:
        """Close both files, finished or not."""
        self._indices.close()
        self._indptr.close()
