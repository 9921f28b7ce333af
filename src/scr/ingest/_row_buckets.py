"""Sort more edges into rows than memory holds, through files on disk.

The edges are read once more after counting. Each direction goes, as one 64-bit key with its row
high and its target low, into the file of its range of rows: a bucket. Afterwards every bucket is
small enough to be sorted in memory, and buckets in order are rows in order.

Disk: 8 bytes per direction until the end. Where edges are quick to read again and memory holds a
good part of them, `_sorted_rows.py` is faster and needs no disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import map_in_order
from scr.ingest._row_kernels import count_in_blocks, group_keys
from scr.ingest._sorted_rows import (
    KEY_BYTES,
    OnProgress,
    RowRules,
    SortedRows,
    check_unchanged,
    each_chunk,
    merged,
    plain_ends,
)
from scr.sources import EdgeSource


@dataclass(frozen=True)
class Buckets:
    """Files of keys, one for each range of blocks of rows."""

    folder: Path
    rules: RowRules
    ranges: Sequence[tuple[int, int]]
    """From `bucket_ranges`."""

    def file(self, bucket: int) -> Path:
        """Where the keys of a bucket lie."""
        return self.folder / f"{bucket:05}.keys"


def bucket_ranges(counts: NDArray[np.int64], keys: int) -> list[tuple[int, int]]:
    """Cut the blocks of rows into buckets of at most so many keys, a large block excepted."""
    ranges, start, held = [], 0, 0
    for block, count in enumerate(counts.tolist()):
        if block > start and held + count > keys:
            ranges.append((start, block))
            start, held = block, 0
        held += count
    return [*ranges, (start, len(counts))]


def fill_buckets(
    buckets: Buckets,
    source: EdgeSource,
    counts: NDArray[np.int64],
    on_progress: OnProgress | None = None,
) -> None:
    """Read all edges once and put their directions into the buckets.

    Args:
        buckets: Where to; what is there is replaced.
        source: Edges that `count_blocks` has seen.
        counts: Directions of each block of rows.
        on_progress: Told of the edges read.

    Raises:
        OSError: The disk is full, which shows before the first edge is read.
    """
    rules, edges = buckets.rules, [first for first, _ in buckets.ranges]
    buckets.folder.mkdir(exist_ok=True)
    for bucket, (first, last) in enumerate(buckets.ranges):
        _allocate(buckets.file(bucket), KEY_BYTES * int(counts[first:last].sum()))
    group_of_block = np.zeros(rules.blocks, np.int32)
    group_of_block[edges[1:]] = 1
    group_of_block = np.cumsum(group_of_block, dtype=np.int32)

    def work(chunk: NDArray[Any]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        sources, targets = plain_ends(chunk)
        found = np.zeros(rules.blocks + 1, np.int64)
        settings = (rules.bits, rules.both, rules.keep_loops)
        count_in_blocks(sources, targets, 0, rules.blocks, *settings, found)
        check_unchanged(found[-1] == 0)
        bounds = np.zeros(len(edges) + 1, np.int64)
        np.cumsum(np.add.reduceat(found[:-1], edges), out=bounds[1:])
        keys = np.empty(bounds[-1], np.int64)
        group_keys(sources, targets, group_of_block, *settings, bounds[:-1].copy(), keys)
        return len(sources), bounds, keys

    whole = KEY_BYTES * np.array([counts[first:last].sum() for first, last in buckets.ranges])
    written, done = np.zeros(len(edges), np.int64), 0
    for count, bounds, keys in each_chunk(work, source, rules):
        for bucket in range(len(edges)):
            part = keys[bounds[bucket] : bounds[bucket + 1]]
            _write(buckets.file(bucket), part, int(written[bucket]))
            written[bucket] += part.nbytes
        done += count
        if on_progress is not None:
            on_progress("fill buckets", done, source.num_edges)
    check_unchanged(bool((written == whole).all()))


def rows_of_buckets(
    buckets: Buckets, *, first: int = 0, on_progress: OnProgress | None = None
) -> Iterator[SortedRows]:
    """Sort the buckets that were filled, and give the rows in order.

    Args:
        buckets: Filled by `fill_buckets`.
        first: The bucket to begin with.
        on_progress: Told of the buckets sorted.
    """

    def work(bucket: int) -> SortedRows:
        keys = np.fromfile(buckets.file(bucket), np.int64)
        rows = buckets.rules.rows_of(*buckets.ranges[bucket])
        # Targets take the place of keys that were looked at before.
        return merged(keys, rows, keys.view(np.int32))._replace(is_boundary=True)

    threads, count = buckets.rules.workers, len(buckets.ranges)
    for bucket, rows in enumerate(
        map_in_order(work, range(first, count), threads=threads, ahead=threads), first
    ):
        yield rows
        if on_progress is not None:
            on_progress("sort buckets", bucket + 1, count)


def _allocate(file: Path, size: int) -> None:
    with file.open("wb") as stream:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)


def _write(file: Path, keys: NDArray[np.int64], offset: int) -> None:
    rest = keys.view(np.uint8).data
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
