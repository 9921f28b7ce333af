"""Nodes that join a graph, with the edges that they bring: numbered behind those that are known."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._arrays import as_features, as_numpy, as_weights
from scr.graph._edges import check_node_count, compress_edges, edge_keys
from scr.graph._graph import Graph
from scr.graph._validation import check_features

Matrix = NDArray[Any] | sp.csr_array


@dataclass(frozen=True, eq=False)
class NewNodes:
    """Nodes for a graph of one type, checked against it."""

    count: int
    features: Matrix | None
    """Of the new nodes. Shape (count, columns)."""
    ends: NDArray[np.int64]
    """Known and new nodes with a new edge, ascending."""
    edges: Graph
    """The new edges, stored as the graph stores its own; node i is `ends[i]`."""

    @classmethod
    def of(
        cls, graph: Graph, features: Any, edges: Any = None, weights: Any = None, *, count: int = 0
    ) -> NewNodes:
        """Check what is to join a graph.

        Args:
            graph: Of one type of nodes and one relation.
            features: Of the new nodes, with the columns that those of the graph have; none where
                the graph has none, and then `count` says how many nodes there are.
            edges: Pairs of node numbers, shape (edges, 2); new nodes are numbered from the number
                of known nodes on. Each edge has a new node; those that the graph has already are
                left out. None: no edges.
            weights: One per edge; none: all are 1.
            count: Of the new nodes, where there are no features.
        """
        if graph.is_typed:
            raise GraphError(
                f"The graph `{graph.name}` has several types of nodes or relations, which edges of "
                "new nodes do not name; expected a graph of one type and relation",
                hint="build the enlarged graph and name it as another graph when predicting",
            )
        matrix = as_features(features)
        count = count if matrix is None else matrix.shape[0]
        if count == 0:
            raise GraphError("There are no new nodes; expected at least one")
        _check_columns(graph, matrix, count)
        total = graph.num_nodes + count
        check_node_count(total)
        pairs = np.zeros((0, 2), np.int64) if edges is None else as_numpy(edges)
        pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
        if pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
            raise GraphError(
                f"The new edges are {pairs.dtype} of shape {pairs.shape}; expected whole numbers "
                "of shape (edges, 2)"
            )
        pairs = pairs.astype(np.int64)
        _check_ends(pairs, total)
        if weights is not None and graph.weights is None:
            raise GraphError(
                f"The new edges have weights, those of the graph `{graph.name}` do not; expected "
                "edges without weights"
            )
        if graph.weights is not None:
            given = np.ones(len(pairs), np.float32) if weights is None else weights
            weights = as_weights(given, len(pairs))
        is_new = _brings_something(pairs, graph)
        pairs, weights = pairs[is_new], None if weights is None else weights[is_new]
        ends, local = np.unique(pairs, return_inverse=True)
        local = local.reshape(-1, 2)
        stored = compress_edges(
            local[:, 0], local[:, 1], len(ends), weights=weights, undirected=not graph.directed,
            self_loops="keep" if _has_loops(pairs, graph) else "drop",
        )  # fmt: skip
        joined = Graph(
            indptr=stored.indptr, indices=stored.indices, weights=stored.weights,
            labels=np.full(len(ends), -1), directed=graph.directed,
        )  # fmt: skip
        return cls(count, matrix, ends.astype(np.int64), joined)

    @property
    def sources(self) -> NDArray[np.int64]:
        """Where the stored edges begin, ascending, in the numbers of the enlarged graph."""
        return np.repeat(self.ends, np.diff(self.edges.indptr))

    @property
    def targets(self) -> NDArray[np.int64]:
        """Where they end."""
        return self.ends[self.edges.indices]


def enlarged(graph: Graph, new: NewNodes) -> Graph:
    """The whole graph with new nodes, whose labels are unknown; it has no ids."""
    total = graph.num_nodes + new.count
    indptr = np.concatenate([graph.indptr, np.full(new.count, graph.num_edges, np.int64)])
    is_weighted = graph.weights is not None
    known: Any = graph.weights if is_weighted else np.ones(graph.num_edges, np.float32)
    added: Any = new.edges.weights if is_weighted else np.ones(new.edges.num_edges, np.float32)
    places = (new.sources, new.targets)
    # Every new edge has a new node, so that no two weights meet in this sum.
    matrix: Any = sp.csr_array((known, graph.indices, indptr), shape=(total, total))
    matrix = sp.csr_array(matrix + sp.csr_array((added, places), shape=(total, total)))
    matrix.sort_indices()
    unknown = np.full((new.count, *graph.labels.shape[1:]), -1, graph.labels.dtype)
    return dataclasses.replace(
        graph, indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(graph.indices.dtype),
        weights=matrix.data.astype(np.float32) if is_weighted else None,
        features=joined_rows(graph.features, new.features),
        labels=np.concatenate([graph.labels, unknown]), ids=None, path=None, source=None,
        features_file=None, node_types={graph.target: total},
    )  # fmt: skip


def joined_rows(*parts: Matrix | None) -> Matrix | None:
    """Matrices below each other, none of none."""
    matrices = [part for part in parts if part is not None]
    if len(matrices) < len(parts):
        return None
    if all(isinstance(part, np.ndarray) for part in matrices):
        return np.concatenate(cast("list[NDArray[Any]]", matrices))
    return cast("Matrix", sp.csr_array(sp.vstack([sp.csr_array(part) for part in matrices])))


def _check_columns(graph: Graph, features: Matrix | None, count: int) -> None:
    found = 0 if features is None else features.shape[1]
    if found != graph.num_features:
        raise GraphError(
            f"The new nodes have {found:,} features; expected {graph.num_features:,}, as the graph "
            f"`{graph.name}` has"
        )
    check_features(features, count)


def _check_ends(pairs: NDArray[np.int64], total: int) -> None:
    outside = np.flatnonzero(((pairs < 0) | (pairs >= total)).any(axis=1))
    if len(outside):
        first, second = pairs[outside[0]]
        raise GraphError(
            f"The new edge {outside[0]:,} goes from node {first} to node {second}; expected "
            f"numbers from 0 to {total - 1:,}"
        )


def _brings_something(pairs: NDArray[np.int64], graph: Graph) -> NDArray[np.bool_]:
    """Which edges have a new node; all others must be in the graph."""
    is_new = np.asarray((pairs >= graph.num_nodes).any(axis=1))
    old = pairs[~is_new]
    rows = np.unique(old[:, 0])
    counts = graph.indptr[rows + 1] - graph.indptr[rows]
    before = np.cumsum(counts) - counts
    places = np.arange(int(counts.sum())) + np.repeat(graph.indptr[rows] - before, counts)
    present = edge_keys(np.repeat(rows, counts), np.asarray(graph.indices[places]))
    absent = old[~np.isin(edge_keys(old[:, 0], old[:, 1]), present)]
    if len(absent):
        raise GraphError(
            f"{len(absent):,} of {len(pairs):,} new edges are between two known nodes and not in "
            "the graph; expected a new node in each",
            hint="leave them out, or train again on the graph that has them",
        )
    return is_new


def _has_loops(pairs: NDArray[np.int64], graph: Graph) -> bool:
    """Whether loops of new nodes stay: where there are any, and the graph has kept its own."""
    if not np.any(pairs[:, 0] == pairs[:, 1]):
        return False
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return bool(np.any(sources == graph.indices))
