"""Edges of all relations as triples (head, relation, tail), and corrupted ones beside them.

A corrupted triple has another head or another tail, of the same type: that an author does not cite
a paper is learned from other authors, not from fields of study, which never could.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.graph import Graph

Numbers = NDArray[Any]
"""int32, or int64 beyond 2^31 nodes."""


@dataclass(frozen=True, eq=False)
class Triples:
    """Edges along their relations, each once."""

    heads: Numbers
    relations: NDArray[np.uint16]
    tails: Numbers
    starts: NDArray[np.int64]
    """First node of the type of the heads and of the tails. Shape (2, relations)."""
    sizes: NDArray[np.int64]
    """How many nodes these types have. Shape (2, relations)."""

    def __len__(self) -> int:
        return len(self.heads)

    def take(self, places: NDArray[np.int64]) -> Triples:
        """Some of the triples, in this order."""
        return Triples(
            self.heads[places], self.relations[places], self.tails[places], self.starts, self.sizes
        )

    def corrupted(
        self, count: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Heads and tails of corrupted triples, `count` for each. Shape (triples, count) both.

        One end of each, the head or the tail, is a node of the end's type drawn at random.
        """
        shape = len(self), count
        is_tail = generator.random(shape) < 0.5
        end, relation = is_tail.astype(np.int64), self.relations[:, None]
        drawn = generator.random(shape) * self.sizes[end, relation]
        nodes = self.starts[end, relation] + drawn.astype(np.int64)
        heads = np.where(is_tail, self.heads[:, None], nodes)
        return heads.astype(np.int64), np.where(is_tail, nodes, self.tails[:, None])


def triples_of(graph: Graph) -> Triples:
    """All edges of a graph, along their relations."""
    kinds = [graph.nodes_of(each.source) for each in graph.relations]
    others = [graph.nodes_of(each.target) for each in graph.relations]
    sources = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), np.diff(graph.indptr))
    if graph.edge_types is None:
        # A single relation; where it joins two types, rows of its target say the same again.
        rows = kinds[0]
        along = (sources >= rows.start) & (sources < rows.stop)
        codes = np.zeros(graph.num_edges, np.uint16)
    else:
        codes = np.asarray(graph.edge_types).astype(np.uint16)
        along = codes < len(graph.relations)
    ranges = [kinds, others]
    return Triples(
        sources[along],
        codes[along],
        np.asarray(graph.indices)[along],
        np.array([[nodes.start for nodes in side] for side in ranges]),
        np.array([[len(nodes) for nodes in side] for side in ranges]),
    )
