"""Sort more edges into rows than memory holds, through files on disk.

First the directions of every unit of 1,024 rows are counted. Ranges of units that can be sorted in
memory become buckets, and the edges are read once more: each direction goes, as one 64-bit key with
its row high and its target low, into the file of its bucket. Then the buckets are sorted one by
one, and buckets in order are rows in order.

Memory: some chunks of edges, and a bucket for each thread and for the writer. Disk: 8 bytes per
direction, of buckets that are removed when their rows are written, which take half. Edges are read
twice, however little memory there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, ProgressCount, default_threads, ends_of, map_in_order, read_only
from scr.errors import SourceError
from scr.graph import check_node_count, outside_the_graph
from scr.ingest._row_kernels import ROW_SHIFT, count_directions, group_keys, merge_keys
from scr.sources import EdgeSource
from scr.storage import as_bytes

UNIT_BITS = 10
"""Rows that are counted together, as a power of two: no bucket has fewer."""
KEY_BYTES = 8
TARGET_BYTES = 4
"""Of a direction in the store."""
SMALLEST_CHUNK = 1 << 14
"""Edges read at a time, at least."""
LARGEST_BUCKET = 1 << 24
"""Directions in a bucket: beyond 128 MiB, sorting leaves the processor's caches."""
CHECKPOINT_BYTES = 1 << 30
"""Rows written between two records, after which their buckets are removed: bringing them to the
disk stops everything else."""


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """What becomes of the edges on their way into rows."""

    num_nodes: int
    both: bool = True
    """Store each edge in both directions."""
    keep_loops: bool = False
    """Keep edges from a node to itself."""
    bits: int = UNIT_BITS
    chunk_edges: int = 1 << 21
    """Edges read at a time."""
    threads: int = field(default_factory=default_threads)
    """Threads that work."""

    @property
    def units(self) -> int:
        """How many units of rows there are."""
        return -(-self.num_nodes // (1 << self.bits))

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """The rows of a range of units."""
        return first << self.bits, min(last << self.bits, self.num_nodes)


class SortedRows(NamedTuple):
    """The merged targets of some rows."""

    last: int
    """The row after them."""
    targets: NDArray[np.int32]
    degrees: NDArray[np.int64]
    """How many targets each row has."""
    listed: int
    """How many different directions the source lists."""


class UnitCounts(NamedTuple):
    """What the first look at the edges says."""

    directions: NDArray[np.int64]
    """Of each unit of rows, repeated ones included. Shape (units,)."""
    loops: int
    """Edges from a node to itself."""


def count_units(
    source: EdgeSource, rules: RowRules, on_progress: OnProgress | None = None
) -> UnitCounts:
    """Count the directions of every unit of rows, and refuse edges that leave the graph."""

    def work(chunk: NDArray[Any]) -> tuple[int, int, NDArray[np.int64], NDArray[Any]]:
        return *_count(*plain_ends(chunk), rules), chunk

    check_node_count(rules.num_nodes)
    total, all_loops, done = np.zeros(rules.units, np.int64), 0, 0
    for bad, loops, counts, chunk in _each_chunk(work, source, rules):
        if bad >= 0:
            source_node, target_node = chunk[:, bad].tolist()
            raise outside_the_graph(done + bad, source_node, target_node, rules.num_nodes)
        total += counts
        all_loops += loops
        done += chunk.shape[1]
        if on_progress is not None:
            on_progress("count edges", done, source.num_edges)
    return UnitCounts(total, all_loops)


def sorting_bytes(directions: int, threads: int) -> int:
    """Memory to sort buckets of so many directions: one is written while each thread sorts one."""
    return KEY_BYTES * (threads + 1) * directions


def bucket_size(room: int, threads: int) -> int:
    """Directions that a bucket may have where there are so many bytes of memory."""
    return min(LARGEST_BUCKET, max(1, room // sorting_bytes(1, threads)))


def bucket_ranges(
    counts: NDArray[np.int64], keys: int, *, boundary: int = 0
) -> list[tuple[int, int]]:
    """Cut the units into buckets of at most so many keys, a larger unit excepted.

    The unit `boundary` begins a bucket, since work resumes there.
    """
    ranges, start, held = [], 0, 0
    for unit, count in enumerate(counts.tolist()):
        if unit > start and (unit == boundary or held + count > keys):
            ranges.append((start, unit))
            start, held = unit, 0
        held += count
    return [*ranges, (start, len(counts))]


class Buckets:
    """Files of keys, one for each range of units from `bucket_ranges`."""

    def __init__(self, folder: Path, rules: RowRules, ranges: Sequence[tuple[int, int]]) -> None:
        self.folder, self.ranges, self._rules = folder, ranges, rules

    def names(self, first: int = 0, last: int | None = None) -> list[str]:
        """Files of buckets from one to before another, within the folder of their folder."""
        return [
            f"{self.folder.name}/{bucket:05}.keys"
            for bucket in range(first, len(self.ranges) if last is None else last)
        ]

    def _file(self, bucket: int) -> Path:
        return self.folder.parent / self.names(bucket, bucket + 1)[0]

    def fill(
        self, source: EdgeSource, counts: NDArray[np.int64], on_progress: OnProgress | None = None
    ) -> None:
        """Read all edges once and put their directions, as counted, into files that are replaced.

        A full disk shows before the first edge is read.
        """
        rules, starts = self._rules, [first for first, _ in self.ranges]
        whole = KEY_BYTES * np.add.reduceat(counts, starts)
        self.folder.mkdir(exist_ok=True)
        for bucket, size in enumerate(whole.tolist()):
            with self._file(bucket).open("wb") as empty:
                if size and hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(empty.fileno(), 0, size)
        units = [last - first for first, last in self.ranges]
        bucket_of_unit = np.repeat(np.arange(len(units), dtype=np.int32), units)

        def work(chunk: NDArray[Any]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
            sources, targets = plain_ends(chunk)
            bad, _, in_units = _count(sources, targets, rules)
            check_unchanged(bad < 0)
            bounds = ends_of(np.add.reduceat(in_units, starts))
            keys = np.empty(bounds[-1], np.int64)
            settings = (rules.bits, rules.both, rules.keep_loops)
            group_keys(sources, targets, bucket_of_unit, *settings, bounds[:-1].copy(), keys)
            return chunk.shape[1], bounds, keys

        written = np.zeros(len(starts), np.int64)
        progress = ProgressCount("fill buckets", source.num_edges, on_progress)
        for count, bounds, keys in _each_chunk(work, source, rules):
            for bucket in range(len(starts)):
                part = keys[bounds[bucket] : bounds[bucket + 1]]
                with self._file(bucket).open("r+b") as file:
                    file.seek(int(written[bucket]))
                    file.write(as_bytes(part))
                written[bucket] += part.nbytes
            progress.add(count)
        check_unchanged(bool((written == whole).all()))

    def rows(self, first: int = 0, on_progress: OnProgress | None = None) -> Iterator[SortedRows]:
        """Sort the buckets that were filled, from a given one on, and give the rows in order."""

        def work(bucket: int) -> SortedRows:
            keys = np.fromfile(self._file(bucket), np.int64)
            return _merged(keys, self._rules.rows_of(*self.ranges[bucket]))

        threads, count = self._rules.threads, len(self.ranges)
        progress = ProgressCount("sort buckets", count, on_progress, first)
        for rows in map_in_order(work, range(first, count), threads=threads, ahead=threads):
            yield rows
            progress.add(1)


def _merged(keys: NDArray[np.int64], rows: tuple[int, int]) -> SortedRows:
    """Sort keys in place and keep each target of a row once."""
    keys.sort()
    degrees = np.zeros(rows[1] - rows[0], np.int64)
    if len(keys):
        check_unchanged(rows[0] <= keys[0] >> ROW_SHIFT)
        check_unchanged(keys[-1] >> ROW_SHIFT < rows[1])
    targets = keys.view(np.int32)  # overwrites keys that were looked at before
    stored, listed = merge_keys(keys, rows[0], targets, degrees)
    return SortedRows(rows[1], targets[:stored], degrees, listed)


def check_unchanged(as_counted: bool) -> None:
    """Refuse edges that were not counted: compiled loops would write beyond their arrays."""
    if not as_counted:
        raise SourceError(
            "The edges are not those that were counted: their files have changed since",
            hint="ingest again when no other program writes to them",
        )


def plain_ends(chunk: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and targets as contiguous numbers of 32 or 64 bits, and read-only.

    Numba compiles once more for every other type, layout and mix of writable arguments.
    """
    kind = np.int32 if np.can_cast(chunk.dtype, np.int32) else np.int64
    sources, targets = (read_only(np.ascontiguousarray(end, kind)) for end in chunk)
    return sources, targets


def _count(
    sources: NDArray[Any], targets: NDArray[Any], rules: RowRules
) -> tuple[int, int, NDArray[np.int64]]:
    counts = np.zeros(rules.units, np.int64)
    settings = (rules.num_nodes, rules.bits, rules.both, rules.keep_loops)
    return *count_directions(sources, targets, *settings, counts), counts


def _each_chunk(
    work: Callable[[NDArray[Any]], Any], source: EdgeSource, rules: RowRules
) -> Iterator[Any]:
    """Do something with every chunk of the edges, on all threads; results in order."""
    chunks = source.chunks(rules.chunk_edges)
    return map_in_order(work, chunks, threads=rules.threads, ahead=rules.threads + 1)
