"""What the tests of sampling share: edges of batches in the graph's numbers, and a small graph."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import numpy as np

from scr.graph import Graph
from scr.networks.sampling import SubgraphBatch


def global_edges(batch: SubgraphBatch) -> np.ndarray:
    """Pairs (node that receives, neighbor) in the graph's own numbers, in the order of edges."""
    sources, targets = batch.nodes[batch.edge_index()]
    return np.stack([targets, sources], axis=1)


def stored_edges(graph: Graph) -> np.ndarray:
    """All pairs (row, neighbor) of a graph, in stored order."""
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return np.stack([rows, graph.indices], axis=1)


def small_graph() -> Graph:
    """Ten nodes: a hub, a chain, a triangle; no node is alone."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 7), (1, 2)]
    return Graph.from_edges(edges)


@contextmanager
def threads_for_little_work():
    """Wake threads even where it does not pay."""
    with mock.patch("scr.compute._loops.SMALL", 0):
        yield


def assert_same_batch(one: SubgraphBatch, other: SubgraphBatch) -> None:
    for field in ("nodes", "indptr", "indices", "edges", "edge_weight", "node_weight"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)
    assert one.num_seeds == other.num_seeds
    assert (one.layer_nodes, one.layer_edges) == (other.layer_nodes, other.layer_edges)


def assert_is_a_part_of(graph: Graph, batch: SubgraphBatch) -> None:
    """Every edge of the batch is the edge of the graph that it says it is."""
    np.testing.assert_array_equal(global_edges(batch), stored_edges(graph)[batch.edges])
    assert len(np.unique(batch.nodes)) == batch.num_nodes
    assert len(np.unique(batch.edges)) == batch.num_edges
    assert batch.indptr.dtype == batch.nodes.dtype == batch.edges.dtype == np.int64
    assert batch.indices.dtype == np.int32
