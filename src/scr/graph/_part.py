"""A part of a graph that knows about the rest: what rows of some nodes are computed from.

Rows of A^k X of a few nodes depend on their neighborhood of k steps alone. Cut out as a graph, the
neighborhood would have other degrees at its border than in the whole graph, so they come along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scr.graph._graph import Graph

Degrees = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Row sums and column sums of an adjacency."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GraphPart(Graph):
    """The neighborhood of some nodes, with what they are in the whole graph.

    The nodes whose rows are wanted come first, then all others by their distance. Those farthest
    away need not have all of their edges.
    """

    numbers: NDArray[np.int64]
    """Of the nodes in the whole graph."""
    reach: tuple[int, ...]
    """How many nodes are at most 0, 1, 2, ... steps away."""
    degrees: Mapping[str, Degrees]
    """In the whole graph, by the direction of the edges."""
    whole_train: NDArray[np.int64]
    """Training nodes of the whole graph, ascending."""
    whole_valid: NDArray[np.int64]
    """The same of its labeled validation nodes."""

    def needed_rows(self, hops: int) -> list[int]:
        """How many rows of hops 1, 2, ... the last of them needs."""
        return [self.reach[hops - hop] for hop in range(1, hops + 1)]

    def fingerprint(self, *parts: Literal["edges", "features", "labels", "splits"]) -> str:
        """As of a graph, with the degrees: the same neighborhood may be elsewhere."""
        content = hashlib.blake2b(super().fingerprint(*parts).encode(), digest_size=16)
        for direction in sorted(self.degrees):
            for sums in self.degrees[direction]:
                content.update(sums.tobytes())
        return content.hexdigest()
