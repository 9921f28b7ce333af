"""Neighbor fan-out: from some seeds outwards, a few neighbors of each node (GraphSAGE).

Paper: Hamilton et al. 2017, "Inductive Representation Learning on Large Graphs", arXiv:1706.02216.

Each hop draws neighbors of the nodes that the hop before has found for the first time. What is
drawn for a node depends on the seed, the step, the hop and the node alone, so threads share the
frontier in any way. Only the numbering of found nodes is one loop, in the order of the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import (
    compiled,
    derived_key,
    ends_of,
    equal_ends,
    read_only,
    run_ranges,
    stream_key,
)  # fmt: skip
from scr.errors import ConfigError
from scr.graph import Graph, check_graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_count, check_nodes
from scr.networks.sampling._distinct import choose
from scr.networks.sampling._subgraph import LocalNumbers, mark_nodes, number_nodes

ALL = -1
"""A fan-out that takes every neighbor."""
_STREAM = 1
"""Keeps random numbers apart from those of other samplers with the same seed."""


class NeighborSampler:
    """Draws neighbors without replacement; may be used from several threads at once."""

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int] = (15, 10, 5),
        seed: int = 0,
        *,
        normalize: bool = False,
        threads: int | None = None,
    ) -> None:
        """Plan the draws.

        Args:
            graph: Read by row: row i lists the nodes that node i receives from. Weights do not
                change what is drawn.
            fanouts: Neighbors of each node, hop by hop from the seeds outwards; -1: all of them.
                As many hops as the model has layers.
            seed: Of the random numbers.
            normalize: Give ``edge_weight``, degree / drawn neighbors, with which sums (not means)
                over the drawn edges are unbiased.
            threads: Cores to use; none: as many as numba may use. The result does not depend on it.
        """
        check_graph(graph)
        if not isinstance(fanouts, Iterable):
            raise ConfigError("fanouts", fanouts, "a list of numbers of neighbors, one per hop")
        self.fanouts = tuple(fanouts)
        for fanout in self.fanouts:
            if fanout != ALL:
                check_count("fanouts", fanout)
        if not self.fanouts:
            raise ConfigError("fanouts", self.fanouts, "at least one number of neighbors")
        self.seed = check_count("seed", seed, least=0)
        self.normalize, self.threads = normalize, threads
        self._indptr, self._indices = read_only(graph.indptr), read_only(graph.indices)
        self._numbers = LocalNumbers(graph.num_nodes)

    def sample(self, seeds: Any, step: int = 0) -> SubgraphBatch:
        """Neighbors of some nodes, their neighbors, and so on.

        Args:
            seeds: Distinct node numbers.
            step: Another number, other neighbors.

        Raises:
            GraphError: A seed is not in the graph, or is named twice.
        """
        step = check_count("step", step, least=0)
        nodes = check_nodes(seeds, len(self._indptr) - 1)
        num_seeds = len(nodes)
        layer_nodes, layer_edges = [num_seeds], [0]
        hops: list[_Hop] = []
        with self._numbers.lend() as (slots, base):
            mark_nodes(nodes, slots, base)
            for number, fanout in enumerate(self.fanouts):
                before = layer_nodes[-2] if number else 0
                key = stream_key(self.seed, _STREAM, step, number)
                hop = _Hop(self._indptr, self._indices, nodes[before:], fanout, key, self.threads)
                nodes = hop.number(nodes, slots, base)
                hops.append(hop)
                layer_nodes.append(len(nodes))
                layer_edges.append(layer_edges[-1] + len(hop.edges))
        counts = np.concatenate([hop.counts for hop in hops])
        indptr = np.full(len(nodes) + 1, layer_edges[-1], np.int64)
        indptr[: len(counts) + 1] = ends_of(counts)
        return SubgraphBatch(
            nodes=nodes, indptr=indptr, indices=np.concatenate([hop.local for hop in hops]),
            edges=np.concatenate([hop.edges for hop in hops]), num_seeds=num_seeds,
            edge_weight=np.concatenate([h.edge_weight() for h in hops]) if self.normalize else None,
            layer_nodes=tuple(layer_nodes[::-1]), layer_edges=tuple(layer_edges[:0:-1]),
        )  # fmt: skip


class _Hop:
    """The drawn edges of one frontier, row by row."""

    def __init__(
        self, indptr: NDArray[np.int64], indices: NDArray[Any], frontier: NDArray[np.int64],
        fanout: int, key: np.uint64, threads: int | None,
    ) -> None:  # fmt: skip
        self.degrees = np.empty(len(frontier), np.int64)
        work = equal_ends(len(frontier))
        run_ranges(_look_up_degrees, work, indptr, frontier, self.degrees, threads=threads)
        self.counts = self.degrees if fanout == ALL else np.minimum(self.degrees, fanout)
        ends = ends_of(self.counts)
        self.edges = np.empty(ends[-1], np.int64)
        self.found = np.empty(ends[-1], indices.dtype)
        arguments = (indptr, indices, frontier, ends, key, self.edges, self.found)
        run_ranges(_draw, ends, *arguments, threads=threads)

    def number(
        self, nodes: NDArray[np.int64], slots: NDArray[np.int64], base: int
    ) -> NDArray[np.int64]:
        """Number what was found, after the nodes that have a number; returns all of them."""
        known = len(nodes)
        room = np.empty(min(known + len(self.found), len(slots)), np.int64)
        room[:known] = nodes
        self.local = np.empty(len(self.found), np.int32)
        count = number_nodes(self.found, slots, base, room, known, self.local)
        return room[:count]

    def edge_weight(self) -> NDArray[np.float32]:
        factors = self.degrees / np.maximum(self.counts, 1)
        return np.repeat(factors.astype(np.float32), self.counts)


@compiled
def _look_up_degrees(
    indptr: NDArray[np.int64], frontier: NDArray[np.int64], degrees: NDArray[np.int64],
    start: int, stop: int,
) -> None:  # fmt: skip
    for place in range(start, stop):
        degrees[place] = indptr[frontier[place] + 1] - indptr[frontier[place]]


@compiled
def _draw(
    indptr: NDArray[np.int64], indices: NDArray[Any], frontier: NDArray[np.int64],
    ends: NDArray[np.int64], key: np.uint64, edges: NDArray[np.int64], found: NDArray[Any],
    start: int, stop: int,
) -> None:  # fmt: skip
    """Draw ``ends[i + 1] - ends[i]`` edges of each node of the frontier."""
    for place in range(start, stop):
        node = frontier[place]
        first, degree = indptr[node], indptr[node + 1] - indptr[node]
        begin, end = ends[place], ends[place + 1]
        if end - begin < degree:
            choose(edges, begin, end - begin, first, degree, derived_key(key, node))
        else:
            for edge in range(begin, end):
                edges[edge] = first + edge - begin
    # A loop of its own, without branches: so the processor waits for many neighbors at once.
    for edge in range(ends[start], ends[stop]):
        found[edge] = indices[edges[edge]]
