"""Sort more edges into rows than memory holds, through files on disk.

Edges arrive in any order, a chunk at a time. Each is put into the bucket of its row range, a plain
file; afterwards every bucket is small enough to be sorted in memory, and buckets in order are rows
in order. An edge is one 64-bit key (row high, target low), as in `_edges.py`.

Memory: one chunk, one bucket with its sorted copy (about 20 bytes for each of `BUCKET_KEYS` keys),
and 8 bytes per node for the row offsets. Disk: 8 bytes per stored edge until the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled

BUCKET_KEYS = 1 << 24
"""Keys that a bucket should hold on average: 128 MiB."""
_TARGET_BITS = 32


class EdgeBuckets:
    """Collects undirected edges, then gives them back by row, sorted and merged."""

    def __init__(self, folder: Path, num_nodes: int, num_edges: int) -> None:
        """Plan the buckets.

        Args:
            folder: Where the files may lie for a while.
            num_nodes: How many nodes there are.
            num_edges: How many edges will be added, about; each is stored in both directions.
        """
        self._num_nodes = num_nodes
        self._count = max(1, -(-2 * num_edges // BUCKET_KEYS))
        self._rows_per_bucket = max(1, -(-num_nodes // self._count))
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix=".edges-")
        self.loops = 0
        """Self-loops that were dropped so far."""

    def __enter__(self) -> EdgeBuckets:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def add(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        """Put a chunk of edges into the buckets of both their ends; self-loops are dropped."""
        keys, ends = _partition(sources, targets, self._count, self._rows_per_bucket)
        self.loops += len(sources) - len(keys) // 2
        for bucket in range(self._count):
            with self._file(bucket).open("ab") as file:
                keys[ends[bucket] : ends[bucket + 1]].tofile(file)

    def merge(self, indptr: NDArray[np.int64]) -> int:
        """Sort and merge every bucket, and fill the row offsets.

        Args:
            indptr: Written in place. Shape (nodes + 1,).

        Returns:
            How many edges are stored, both directions counted.
        """
        indptr[0] = 0
        for bucket in range(self._count):
            keys = np.fromfile(self._file(bucket), dtype=np.int64)
            keys.sort()
            is_first = np.ones(len(keys), bool)
            np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
            keys = keys[is_first]
            keys.astype(np.int32).tofile(self._file(bucket))  # the low half is the target
            first, last = self._rows(bucket)
            degrees = np.bincount((keys >> _TARGET_BITS) - first, minlength=last - first)
            indptr[first + 1 : last + 1] = indptr[first] + np.cumsum(degrees)
        return int(indptr[self._num_nodes])

    def targets(self) -> Iterator[NDArray[np.int32]]:
        """After `merge`: the targets of all rows, in order, in blocks."""
        for bucket in range(self._count):
            yield np.fromfile(self._file(bucket), dtype=np.int32)

    def _rows(self, bucket: int) -> tuple[int, int]:
        first = min(bucket * self._rows_per_bucket, self._num_nodes)
        return first, min(first + self._rows_per_bucket, self._num_nodes)

    def _file(self, bucket: int) -> Path:
        return Path(self._folder.name) / f"{bucket:05}.keys"


@compiled
def _partition(
    sources: NDArray[np.int32], targets: NDArray[np.int32], count: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both directions of each edge as keys, grouped by bucket, and where each bucket ends."""
    ends = np.zeros(count + 1, np.int64)
    for edge in range(len(sources)):
        if sources[edge] != targets[edge]:
            ends[sources[edge] // rows + 1] += 1
            ends[targets[edge] // rows + 1] += 1
    for bucket in range(count):
        ends[bucket + 1] += ends[bucket]
    keys = np.empty(ends[count], np.int64)
    place = ends[:-1].copy()
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        if source != target:
            keys[place[source // rows]] = (source << 32) | target
            place[source // rows] += 1
            keys[place[target // rows]] = (target << 32) | source
            place[target // rows] += 1
    return keys, ends
