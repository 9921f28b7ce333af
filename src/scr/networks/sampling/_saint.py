"""GraphSAINT: subgraphs around drawn nodes, edges or walks, and weights that undo the bias.

Paper: Zeng et al. 2020, "GraphSAINT: Graph Sampling Based Inductive Learning Method",
arXiv:1907.04931. The samplers are those of its algorithm 2, each with the subgraph that the drawn
nodes induce.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import equal_ends, read_only, run_ranges, stream_key
from scr.errors import ConfigError, GraphError
from scr.graph import Graph, check_graph
from scr.networks.sampling import _saint_draws as draws
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_count
from scr.networks.sampling._local_numbers import LocalNumbers, number_nodes
from scr.networks.sampling._saint_normalization import SaintCounts
from scr.networks.sampling._subgraph import induced_subgraph

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
        run_ranges(draws.node_probabilities, indptr, *arguments, threads=self.threads)
        return np.cumsum(chances)

    def _nodes(self, key: np.uint64) -> NDArray[np.int64]:
        """Distinct nodes, in the order in which they are drawn."""
        each = {"node": 1, "edge": 2, "walk": self.walk_length + 1}[self.kind]
        drawn = np.empty(self.size * each, np.int64)
        work = equal_ends(self.size, each)
        edges = self._indptr, self._indices
        draw, *table = {
            "node": (draws.draw_nodes, self._table),
            "edge": (draws.draw_edges, *edges, self._table),
            "walk": (draws.draw_walks, *edges, self.walk_length),
        }[self.kind]
        run_ranges(draw, work, *table, key, drawn, threads=self.threads)
        nodes = np.empty(min(len(drawn), self.graph.num_nodes), np.int64)
        with self._numbers.lend() as (slots, base):
            count = number_nodes(drawn, slots, base, nodes, 0, np.empty(len(drawn), np.int32))
        return nodes[:count]
