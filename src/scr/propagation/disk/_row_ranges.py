"""Ranges of rows: how several workers of a cluster share each hop of one block of columns.

Blocks of columns need nothing of each other, so a worker computes one with all its hops. But there
are no more blocks than cache lines in a row. Where there are more workers than that, each computes
some rows of one hop of a block: it reads all rows of the hop before, as the others have written
them, and the edges of its own rows. A hop begins when all ranges of the one before are there.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cuts:
    """Ranges of all nodes, and of the rows of the result that belong to these nodes."""

    nodes: list[tuple[int, int]]
    rows: list[tuple[int, int]]

    @classmethod
    def of(
        cls,
        indptr: NDArray[np.int64],
        picked: NDArray[np.int64] | None,
        count: int,
        slab_rows: int,
    ) -> Cuts:
        """Cut rows into ranges with about as many edges each, between slabs of the result.

        Args:
            indptr: Bounds of the edges of all nodes; it may be a memory map.
            picked: Sorted numbers of the nodes of the result; none: all.
            count: Ranges that are wanted; there are fewer where slabs are large.
            slab_rows: So many rows of the result, from its first on, stay together, and so the
                rows under a checksum are in one file.
        """
        nodes = len(indptr) - 1
        rows = nodes if picked is None else len(picked)

        def cost(node: int) -> int:
            return (
                int(indptr[node]) - int(indptr[0]) + node
            )  # rows without edges cost something, too

        inner = set()
        for number in range(1, count):
            node = bisect_left(range(nodes), cost(nodes) * number // count, key=cost)
            row = node if picked is None else int(np.searchsorted(picked, node))
            inner.add(round(row / slab_rows) * slab_rows)
        row_cuts = [0, *sorted(cut for cut in inner if 0 < cut < rows), rows]
        node_cuts = row_cuts
        if picked is not None:
            node_cuts = [0, *(int(picked[cut]) for cut in row_cuts[1:-1]), nodes]
        return cls(list(itertools.pairwise(node_cuts)), list(itertools.pairwise(row_cuts)))

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def most_nodes(self) -> int:
        """Nodes of the largest range."""
        return max(last - first for first, last in self.nodes)

    def between(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """The ranges of which rows of the result lie from `start` to `stop` (exclusive).

        Each with its number, and the first and the last (exclusive) of these rows.
        """
        return [
            (number, max(start, first), min(stop, last))
            for number, (first, last) in enumerate(self.rows)
            if first < stop and start < last
        ]
