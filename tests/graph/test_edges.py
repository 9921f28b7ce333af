from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError
from scr.graph._edges import compress_edges

NODES = 7
edge_lists = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)


def dense(edges):
    weights = np.ones(len(edges.indices)) if edges.weights is None else edges.weights
    matrix = sp.csr_array((weights, edges.indices, edges.indptr), shape=(NODES, NODES))
    assert matrix.has_canonical_format
    return matrix.toarray()


def columns(pairs):
    array = np.array(pairs, np.int32).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@given(edge_lists)
def test_undirected_edges_are_the_symmetric_pattern_without_diagonal(pairs):
    expected = np.zeros((NODES, NODES))
    for i, j in pairs:
        if i != j:
            expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(dense(compress_edges(*columns(pairs), NODES)), expected)


@given(edge_lists)
def test_directed_weights_of_duplicates_are_summed_as_scipy_does(pairs):
    sources, targets = columns(pairs)
    weights = np.arange(1, len(pairs) + 1, dtype=np.float32)
    shape = (NODES, NODES)
    expected = sp.coo_array((weights, (sources, targets)), shape=shape).toarray()
    edges = compress_edges(
        sources, targets, NODES, weights=weights, undirected=False, self_loops="keep"
    )
    np.testing.assert_allclose(dense(edges), expected)


@given(edge_lists)
def test_a_list_that_holds_both_directions_comes_out_unchanged(pairs):
    sources, targets = columns(pairs)
    weights = np.linspace(1, 2, len(pairs), dtype=np.float32)
    once = compress_edges(sources, targets, NODES, weights=weights)
    rows = np.repeat(np.arange(NODES), np.diff(once.indptr))
    again = compress_edges(rows, once.indices, NODES, weights=once.weights)
    np.testing.assert_array_equal(dense(again), dense(once))
    assert again.steps == ()


def test_counted_duplicates_become_weights():
    edges = compress_edges(
        *columns([(0, 1), (0, 1), (2, 1)]), NODES, undirected=False, duplicates="count"
    )
    assert dense(edges)[0, 1] == 2
    assert dense(edges)[2, 1] == 1


def test_steps_say_what_was_done():
    edges = compress_edges(*columns([(0, 1), (0, 1), (3, 3), (1, 2), (2, 1)]), NODES)
    assert edges.steps == (
        "dropped 1 self-loops",
        "merged 1 duplicate edges",
        "symmetrized: 3 edges became 4 stored directions",
    )


def test_offsets_are_int64_and_targets_int32():
    edges = compress_edges(*columns([(0, 1)]), NODES)
    assert (edges.indptr.dtype, edges.indices.dtype) == (np.int64, np.int32)


def test_unsigned_numbers_of_64_bits_are_nodes_too():
    edges = compress_edges(np.array([0, 2], np.uint64), np.array([1, 0], np.uint64), NODES)
    assert edges.indices.tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize("pair", [(0, NODES), (-1, 0)])
def test_an_edge_outside_the_graph_is_named(pair):
    with pytest.raises(GraphError, match=rf"Edge 1 goes from node {pair[0]} to node {pair[1]}"):
        compress_edges(*columns([(0, 1), pair]), NODES)
