"""GraphSAINT's normalization: how often nodes and edges are in a subgraph, counted beforehand.

Equations (Zeng et al. 2020, section 3.2), with N subgraphs of which C_v hold node v and C_uv hold
the edge from u to v:

    alpha_uv = C_uv / C_v     the aggregation at v divides what comes from u by it
    lambda_v = C_v / N        the loss at v is divided by it
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled, ends_of, read_only, run_ranges
from scr.graph import Graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._local_numbers import mark_nodes


class SaintCounts:
    """The counts over subgraphs; they grow by `add`."""

    def __init__(self, graph: Graph, threads: int | None = None) -> None:
        self.graph, self.threads = graph, threads
        self.node_counts = np.zeros(graph.num_nodes, np.int32)
        """C_v. Shape (nodes,)."""
        self.edge_counts = np.zeros(graph.num_edges, np.int32)
        """C_uv, at the place of u in row v of the graph. Shape (stored edges,)."""
        self.subgraphs = 0
        """N."""

    def add(self, nodes: NDArray[np.int64], slots: NDArray[np.int64], base: int) -> None:
        """Count the subgraph that distinct nodes induce, with scratch of `LocalNumbers`.

        A row is counted by one thread, so no two of them write to the same number.
        """
        indptr, indices = read_only(self.graph.indptr), read_only(self.graph.indices)
        mark_nodes(nodes, slots, base)
        work = ends_of(indptr[nodes + 1] - indptr[nodes])
        arguments = (indptr, indices, nodes, slots, base, self.node_counts, self.edge_counts)
        run_ranges(_count, work, *arguments, threads=self.threads)
        self.subgraphs += 1

    def edge_weight(self, batch: SubgraphBatch) -> NDArray[np.float32]:
        """1 / alpha of each edge of a batch; what was never counted is taken as counted once."""
        receiving = np.repeat(self._of_nodes(batch), np.diff(batch.indptr))
        together = np.maximum(self.edge_counts[batch.edges], 1)
        return (receiving / together).astype(np.float32)

    def node_weight(self, batch: SubgraphBatch) -> NDArray[np.float32]:
        """1 / lambda of each node of a batch; what was never counted is taken as counted once."""
        return (self.subgraphs / self._of_nodes(batch)).astype(np.float32)

    def _of_nodes(self, batch: SubgraphBatch) -> NDArray[np.int32]:
        return np.maximum(self.node_counts[batch.nodes], 1)


@compiled
def _count(
    indptr: NDArray[np.int64], indices: NDArray[Any], nodes: NDArray[np.int64],
    slots: NDArray[np.int64], base: int, node_counts: NDArray[np.int32],
    edge_counts: NDArray[np.int32], start: int, stop: int,
) -> None:  # fmt: skip
    for place in range(start, stop):
        node = nodes[place]
        node_counts[node] += 1
        for edge in range(indptr[node], indptr[node + 1]):
            if slots[indices[edge]] >= base:
                edge_counts[edge] += 1
