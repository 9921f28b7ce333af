"""Ranges of rows: how several workers of a cluster share each hop of one block of columns.

Blocks of columns need nothing of each other, so a worker computes one with all its hops. But there
are no more blocks than cache lines in a row. Where there are more workers than that, each computes
some rows of one hop of a block: it reads all rows of the hop before, as the others have written
them, and the edges of its own rows. A hop begins when all ranges of the one before are there.

This is for results with all rows, of which the parts are what the next hop is computed from. Where
few rows are kept, whole hops would be written for it alone, and their last hops cost little.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scr.propagation.disk._edge_chunks import CHUNK_ROWS


@dataclass(frozen=True)
class Cuts:
    """Ranges of rows, in order."""

    ranges: list[tuple[int, int]]
    largest: float = 1.0
    """Share of all edges and rows that the largest range has."""

    @classmethod
    def of(cls, indptr: NDArray[np.int64], rows: int, count: int, slab_rows: int) -> Cuts:
        """Cut rows into ranges with about as many edges each, between slabs of the result.

        Args:
            indptr: Bounds of the edges of all nodes; it may be a memory map.
            rows: Of the result: all nodes, or any number if there is one range.
            count: Ranges that are wanted; there are fewer where slabs are large.
            slab_rows: So many rows, from the first on, stay together, and so the rows under a
                checksum are in one file.
        """
        if count == 1:
            return cls([(0, rows)])

        def cost(node: int) -> int:
            return int(indptr[node]) - int(indptr[0]) + node  # rows without edges cost something

        inner = set()
        for number in range(1, count):
            node = bisect_left(range(rows), cost(rows) * number // count, key=cost)
            inner.add(round(node / slab_rows) * slab_rows)
        bounds = [0, *sorted(cut for cut in inner if 0 < cut < rows), rows]
        ranges = list(itertools.pairwise(bounds))
        largest = max(cost(last) - cost(first) for first, last in ranges)
        return cls(ranges, largest / max(cost(rows), 1))

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def most_rows(self) -> int:
        """Rows of the longest range."""
        return max(last - first for first, last in self.ranges)

    def between(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """The ranges that rows from `start` to `stop` (exclusive) lie in.

        Each with its number, and the first and the last (exclusive) of these rows.
        """
        return [
            (number, max(start, first), min(stop, last))
            for number, (first, last) in enumerate(self.ranges)
            if first < stop and start < last
        ]


def listed_bytes(nodes: int) -> int:
    """Memory of the numbers of rows of a range, and of what is copied with them."""
    return 4 * 8 * min(CHUNK_ROWS, nodes)
