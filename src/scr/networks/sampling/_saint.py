"""GraphSAINT: subgraphs around drawn nodes, edges or walks, and weights that undo the bias.

Paper: Zeng et al. 2020, "GraphSAINT: Graph Sampling Based Inductive Learning Method",
arXiv:1907.04931. The samplers are those of its algorithm 2, each with the subgraph that the drawn
nodes induce. Every draw is a function of a key and of its own number, so threads share the draws in
any way.

Normalization (section 3.2), with N subgraphs of which C_v hold node v and C_uv hold the edge from u
to v, counted beforehand:

    alpha_uv = C_uv / C_v     the aggregation at v divides what comes from u by it
    lambda_v = C_v / N        the loss at v is divided by it
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import (
    below,
    compiled,
    derived_key,
    ends_of,
    equal_ends,
    read_only,
    run_ranges,
    stream_key,
    uniform,
)  # fmt: skip
from scr.errors import ConfigError, GraphError
from scr.graph import Graph, check_graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_count
from scr.networks.sampling._subgraph import LocalNumbers, induced_subgraph, mark_nodes, number_nodes

Kind = Literal["node", "edge", "walk"]

_STREAM, _COUNTED_STREAM = 3, 4
"""Subgraphs that are counted beforehand are others than those that are trained on."""


class SaintSampler:
    """Draws subgraphs; may be used from several threads at once."""

    def __init__(
        self,
        graph: Graph,
        kind: Kind = "walk",
        size: int = 2000,
        *,
        walk_length: int = 2,
        coverage: int = 50,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        """Prepare the draws, and count subgraphs for the normalization.

        Args:
            graph: Read by row: row i lists the nodes that node i receives from. Weights do not
                change what is drawn.
            kind: ``node`` draws nodes that matter to many, ``edge`` edges (so never a node without
                neighbors), ``walk`` random walks.
            size: How many nodes, edges or walks are drawn for a subgraph, with replacement.
            walk_length: Steps of a walk.
            coverage: Subgraphs are counted until each node was in as many of them on average; 0:
                no normalization. More is closer to unbiased.
            seed: Of the random numbers.
            threads: Cores to use; none: as many as numba may use. The result does not depend on it.
        """
        check_graph(graph)
        if kind not in get_args(Kind):
            raise ConfigError("kind", kind, f"one of {', '.join(get_args(Kind))}")
        if graph.num_nodes == 0 or (kind == "edge" and graph.num_edges == 0):
            raise GraphError(f"There is no {kind} to begin with in {graph!r}")
        self.graph, self.kind, self.threads = graph, kind, threads
        self.seed = check_count("seed", seed, least=0)
        self.size = check_count("size", size)
        self.walk_length = check_count("walk_length", walk_length)
        self.coverage = check_count("coverage", coverage, least=0)
        self._indptr, self._indices = read_only(graph.indptr), read_only(graph.indices)
        self._numbers = LocalNumbers(graph.num_nodes)
        self._table = self._prepare()
        self.counts = self._count() if coverage else None
        """What the normalization is made from; none without it."""

    def sample(self, step: int) -> SubgraphBatch:
        """The subgraph of a step, with ``edge_weight`` 1 / alpha and ``node_weight`` 1 / lambda."""
        step = check_count("step", step, least=0)
        return self._subgraph(stream_key(self.seed, _STREAM, step))

    def counted_subgraph(self, number: int) -> SubgraphBatch:
        """One of the ``counts.subgraphs`` subgraphs that the normalization was counted on."""
        return self._subgraph(stream_key(self.seed, _COUNTED_STREAM, number))

    def _subgraph(self, key: np.uint64) -> SubgraphBatch:
        batch = induced_subgraph(
            self.graph, self._nodes(key), threads=self.threads, numbers=self._numbers
        )
        if self.counts is None:
            return batch
        return dataclasses.replace(
            batch,
            edge_weight=self.counts.edge_weight(batch),
            node_weight=self.counts.node_weight(batch),
        )

    def _count(self) -> SaintCounts:
        counts, seen = SaintCounts(self.graph, self.threads), 0
        while seen < self.coverage * self.graph.num_nodes:
            nodes = self._nodes(stream_key(self.seed, _COUNTED_STREAM, counts.subgraphs))
            with self._numbers.lend() as (slots, base):
                counts.add(nodes, slots, base)
            seen += len(nodes)
        return counts

    def _prepare(self) -> NDArray[Any]:
        """What draws look up: running chances of nodes, or nodes that have neighbors."""
        if self.kind == "edge":
            return np.flatnonzero(np.diff(self._indptr))
        if self.kind == "walk":
            return np.zeros(0, np.int64)
        # A node matters to those that receive from it: its column, not its row.
        indptr, indices = self._indptr, self._indices
        if self.graph.directed:
            ones = np.ones(len(indices), np.int8)
            shape = (self.graph.num_nodes, self.graph.num_nodes)
            turned = sp.csr_array((ones, indices, indptr), shape=shape).T.tocsr()
            indptr, indices = read_only(turned.indptr.astype(np.int64)), read_only(turned.indices)
        chances = np.empty(self.graph.num_nodes, np.float64)
        arguments = (indptr, indices, self._indptr, chances)
        run_ranges(node_probabilities, indptr, *arguments, threads=self.threads)
        return np.cumsum(chances)

    def _nodes(self, key: np.uint64) -> NDArray[np.int64]:
        """Distinct nodes, in the order in which they are drawn."""
        each = {"node": 1, "edge": 2, "walk": self.walk_length + 1}[self.kind]
        drawn = np.empty(self.size * each, np.int64)
        work = equal_ends(self.size, each)
        edges = self._indptr, self._indices
        draws: dict[Kind, tuple[Any, ...]] = {
            "node": (draw_nodes, self._table),
            "edge": (draw_edges, *edges, self._table),
            "walk": (draw_walks, *edges, self.walk_length),
        }
        draw, *table = draws[self.kind]
        run_ranges(draw, work, *table, key, drawn, threads=self.threads)
        nodes = np.empty(min(len(drawn), self.graph.num_nodes), np.int64)
        with self._numbers.lend() as (slots, base):
            count = number_nodes(drawn, slots, base, nodes, 0, np.empty(len(drawn), np.int32))
        return nodes[:count]


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


@compiled
def node_probabilities(
    indptr: NDArray[np.int64], indices: NDArray[Any], received: NDArray[np.int64],
    weights: NDArray[np.float64], start: int, stop: int,
) -> None:  # fmt: skip
    """Write the squared norm of each column of (D + I)^-1 (A + I), which is the node sampler's P.

    The paper leaves open whether its matrix has self-loops; with them nodes without neighbors are
    drawn too. Rows list the nodes that receive from each node; the differences of `received` are D.
    """
    for node in range(start, stop):
        total = 1.0 / (received[node + 1] - received[node] + 1.0) ** 2
        for edge in range(indptr[node], indptr[node + 1]):
            other = indices[edge]
            total += 1.0 / (received[other + 1] - received[other] + 1.0) ** 2
        weights[node] = total


@compiled
def draw_nodes(
    cumulative: NDArray[np.float64], key: np.uint64, drawn: NDArray[np.int64],
    start: int, stop: int,
) -> None:  # fmt: skip
    """Nodes with replacement, each with the chance that it has in the running sum."""
    nodes = len(cumulative)
    for place in range(start, stop):
        target = uniform(key, place) * cumulative[nodes - 1]
        found = np.searchsorted(cumulative, target, side="right")
        drawn[place] = min(found, nodes - 1)  # rounding may reach the end


@compiled
def draw_edges(
    indptr: NDArray[np.int64], indices: NDArray[Any], connected: NDArray[np.int64],
    key: np.uint64, drawn: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    """Ends of edges with replacement, each edge {u, v} with a chance in 1/deg(u) + 1/deg(v).

    That is the chance to come from a uniform node to a uniform neighbor, in either direction; so
    no table of edges is needed. Of a directed edge, only the end that receives is begun from.
    """
    for place in range(start, stop):
        node = connected[below(key, 2 * place, len(connected))]
        degree = indptr[node + 1] - indptr[node]
        drawn[2 * place] = node
        drawn[2 * place + 1] = indices[indptr[node] + below(key, 2 * place + 1, degree)]


@compiled
def draw_walks(
    indptr: NDArray[np.int64], indices: NDArray[Any], length: int, key: np.uint64,
    drawn: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    """Nodes of walks from uniform roots; a walk that cannot go on stays where it is."""
    for place in range(start, stop):
        walk = derived_key(key, place)
        node = np.int64(below(walk, 0, len(indptr) - 1))
        drawn[place * (length + 1)] = node
        for turn in range(1, length + 1):
            degree = indptr[node + 1] - indptr[node]
            if degree > 0:
                node = np.int64(indices[indptr[node] + below(walk, turn, degree)])
            drawn[place * (length + 1) + turn] = node
