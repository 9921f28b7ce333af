"""Cut the neighborhood of new nodes out of the graph that they join.

A row of A^k X depends on the nodes within k steps and on their degrees, and on nothing else. So new
nodes are predicted from a `GraphPart` around them, which is as large as their neighborhood, however
large the graph is; what is computed from it is what the whole enlarged graph would give.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.graph import GraphPart, joined_rows, known_labels
from scr.propagation._normalization import degree_sums, directed_edges
from scr.storage import in_memory

if TYPE_CHECKING:
    from scr.graph import Degrees, Graph, NewNodes

Numbers = NDArray[np.int64]
REVERSE = {"out": "in", "in": "out", "both": "both"}


class _Edges(NamedTuple):
    """Edges in the order of a list of nodes: each with its node, the other end, its weight."""

    nodes: Numbers
    others: Numbers
    weights: NDArray[np.float32] | None


class _Spread(NamedTuple):
    """What is within some steps of some nodes."""

    nodes: Numbers
    """By distance."""
    reach: tuple[int, ...]
    edges: dict[str, list[_Edges]]
    """Of all nodes but the farthest, by the way they were found: `out` or `in`."""


class Neighborhoods:
    """A graph of one type, and what is needed of it again and again.

    That is the degrees, the edges of a directed graph turned around, and a number per node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._degrees: dict[str, Degrees] = {}
        self._lock = threading.Lock()

    def part(
        self, new: NewNodes, rows: Numbers, radius: int, directions: Collection[str]
    ) -> GraphPart:
        """What rows of the new nodes, and of some known ones, are computed from.

        Args:
            new: Nodes that join the graph.
            rows: Known nodes whose rows are wanted too, behind those of the new nodes.
            radius: Steps, at most, of what will be propagated.
            directions: Of the edges that will be walked along: `out`, `in`, `both`.

        Returns:
            A `GraphPart`, whose first nodes are the new ones and `rows`, in this order.
        """
        graph, known = self.graph, self.graph.num_nodes
        start = np.concatenate([np.arange(known, known + new.count), rows])
        with self._places_of_one():
            spread = self._spread(new, start, radius, _ways(graph, directions))
            adjacency = self._adjacency(spread)
            self._place[spread.nodes[spread.nodes < known]] = -1
        nodes = spread.nodes
        of_graph = nodes[new.count :]
        valid = in_memory(np.asarray(graph.valid))
        splits: dict[str, Any] = {
            name: new.count + np.flatnonzero(_is_in(of_graph, np.asarray(getattr(graph, name))))
            for name in ("train", "valid", "test")
        }
        unknown = np.full((new.count, *graph.labels.shape[1:]), -1, graph.labels.dtype)
        taken = None if graph.features is None else graph.features[of_graph]
        return GraphPart(
            indptr=adjacency.indptr.astype(np.int64), indices=adjacency.indices,
            weights=None if graph.weights is None else adjacency.data.astype(np.float32),
            features=joined_rows(new.features, taken),
            labels=np.concatenate([unknown, np.asarray(graph.labels[of_graph])]),
            class_names=graph.class_names, name=graph.name, directed=graph.directed,
            numbers=nodes, reach=spread.reach,
            degrees=self._degrees_of(new, nodes, directions),
            whole_train=np.asarray(graph.train),
            whole_valid=valid[known_labels(np.asarray(graph.labels[valid]))],
            **splits,
        )  # fmt: skip

    def changed(self, new: NewNodes, radius: int, directions: Collection[str]) -> Numbers:
        """Known nodes whose rows new nodes change, ascending.

        These are all that read, over `radius` steps, a new node or a known one whose degree is
        another now.
        """
        known = self.graph.num_nodes
        ways = [REVERSE[way] for way in _ways(self.graph, directions)]
        if not self.graph.directed:
            ways = ["out"]
        start = np.concatenate([np.arange(known, known + new.count), new.ends[new.ends < known]])
        with self._places_of_one():
            nodes = self._spread(new, start, radius, ways).nodes
            self._place[nodes[nodes < known]] = -1
        return np.sort(nodes[nodes < known])

    @contextmanager
    def _places_of_one(self) -> Iterator[None]:
        """One neighborhood at a time is collected; what an interrupted one has left is dropped."""
        with self._lock:
            try:
                yield
            except BaseException:
                self.__dict__.pop("_place", None)
                raise

    @cached_property
    def _place(self) -> NDArray[np.int32]:
        """Where each known node is among those that are being collected; -1 outside."""
        return np.full(self.graph.num_nodes, -1, np.int32)

    @cached_property
    def _turned(self) -> tuple[Any, Any, Any]:
        return directed_edges(self.graph, "in")

    @cached_property
    def _stored(self) -> tuple[Any, Any, Any]:
        graph = self.graph
        return in_memory(np.asarray(graph.indptr)), graph.indices, graph.weights

    def _spread(self, new: NewNodes, start: Numbers, radius: int, ways: list[str]) -> _Spread:
        """Collect nodes ring by ring; whoever calls it clears `_place` again."""
        rings, count = [start], len(start)
        reach = [count]
        of_graph = start[new.count :]
        self._place[of_graph] = np.arange(new.count, count)
        edges: dict[str, list[_Edges]] = {way: [] for way in ways}
        for _ in range(radius):
            for way in ways:
                edges[way].append(self._edges_of(new, rings[-1], way))
            others = np.concatenate([edges[way][-1].others for way in ways])
            others = others[others < self.graph.num_nodes]
            fresh = others[self._place[others] < 0]
            order = np.arange(len(fresh), dtype=np.int32)
            self._place[fresh] = order  # of equal ones, the last stays
            ring = np.sort(fresh[self._place[fresh] == order])
            self._place[ring] = np.arange(count, count + len(ring))
            count += len(ring)
            rings.append(ring)
            reach.append(count)
        return _Spread(np.concatenate(rings), tuple(reach), edges)

    def _edges_of(self, new: NewNodes, nodes: Numbers, way: str) -> _Edges:
        """Stored edges that leave some nodes (`out`) or enter them (`in`), known and new ones."""
        indptr, indices, weights = self._stored if way == "out" else self._turned
        known = nodes[nodes < self.graph.num_nodes]
        counts = indptr[known + 1] - indptr[known]
        before = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(indptr[known] - before, counts)
        ends = (new.sources, new.targets) if way == "out" else (new.targets, new.sources)
        added = _is_in(ends[0], np.sort(nodes))
        values = None
        if weights is not None and new.edges.weights is not None:
            values = np.concatenate([weights[places], new.edges.weights[added]])
        return _Edges(
            np.concatenate([np.repeat(known, counts), ends[0][added]]),
            np.concatenate([indices[places].astype(np.int64), ends[1][added]]),
            values,
        )

    def _adjacency(self, spread: _Spread) -> Any:
        """The edges that were found, between places; of a directed graph in their direction."""
        inner = spread.reach[-2] if len(spread.reach) > 1 else 0
        sources, targets, weights = [], [], []
        for way, rings in spread.edges.items():
            for ring in rings:
                near, far = self._places(ring.nodes), self._places(ring.others)
                # An edge between two inner nodes was found at both of its ends.
                once = slice(None) if way == "out" or "out" not in spread.edges else far >= inner
                near, far = near[once], far[once]
                sources.append(near if way == "out" else far)
                targets.append(far if way == "out" else near)
                values = np.ones(len(ring.nodes), np.float32)
                weights.append((values if ring.weights is None else ring.weights)[once])
        shape = (len(spread.nodes),) * 2
        if not sources:
            return sp.csr_array(shape, dtype=np.float32)
        places = (np.concatenate(sources), np.concatenate(targets))
        return sp.csr_array((np.concatenate(weights), places), shape=shape)

    def _places(self, nodes: Numbers) -> NDArray[np.int32]:
        known = self.graph.num_nodes
        places = (nodes - known).astype(np.int32)  # new nodes come first
        places[nodes < known] = self._place[nodes[nodes < known]]
        return places

    def _degrees_of(
        self, new: NewNodes, nodes: Numbers, directions: Collection[str]
    ) -> dict[str, Degrees]:
        """Degrees of some nodes in the enlarged graph."""
        found = {}
        is_known = nodes < self.graph.num_nodes
        is_end = _is_in(nodes, new.ends)
        ends = np.searchsorted(new.ends, nodes[is_end])
        for direction in directions:
            if direction not in self._degrees:
                self._degrees[direction] = degree_sums(self.graph, direction)
            both = []
            for known, added in zip(
                self._degrees[direction], degree_sums(new.edges, direction), strict=True
            ):
                sums = np.zeros(len(nodes))
                sums[is_known] = known[nodes[is_known]]
                sums[is_end] += added[ends]
                both.append(sums)
            found[direction] = both[0], both[1]
        return found


def _ways(graph: Graph, directions: Collection[str]) -> list[str]:
    """Along which stored edges a node is reached from: `out`, `in`."""
    if not graph.directed:
        return ["out"]
    return [way for way in ("out", "in") if way in directions or "both" in directions]


def _is_in(values: NDArray[Any], listed: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are in an ascending list."""
    if len(listed) == 0:
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(listed, values), len(listed) - 1)
    return np.asarray(listed[places] == values)
