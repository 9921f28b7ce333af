"""Graphs of some relations, against dense matrices of each relation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.typed_graphs import dense_relation, typed_inputs

from scr.errors import GraphError
from scr.graph import Graph, select_edges


def dense(graph):
    """Parallel edges of several relations are summed."""
    rows = graph.adjacency().tocoo()
    matrix = np.zeros(rows.shape)
    np.add.at(matrix, (rows.row, rows.col), rows.data)
    return matrix


@settings(max_examples=40)
@given(inputs=typed_inputs(weighted=True), data=st.data())
def test_selected_edges_are_those_of_the_codes(inputs, data):
    graph = Graph.from_relations(**vars(inputs))
    if not graph.is_typed:
        return
    count = len(graph.relations)
    codes = data.draw(st.lists(st.integers(0, 2 * count - 1), max_size=4))
    expected = np.zeros((graph.num_nodes, graph.num_nodes))
    for code in set(codes):
        matrix = dense_relation(inputs, tuple(graph.relations[code % count]))
        expected += matrix if code < count else matrix.T
    selected = select_edges(graph, codes)
    np.testing.assert_allclose(dense(selected), expected)
    assert selected.num_edges <= graph.num_edges
    assert dict(selected.node_types) == dict(graph.node_types)
    assert selected.directed == any((code + count) % (2 * count) not in codes for code in codes)


@settings(max_examples=20)
@given(inputs=typed_inputs(), data=st.data())
def test_only_takes_relations_both_ways(inputs, data):
    graph = Graph.from_relations(**vars(inputs))
    if not graph.is_typed:
        return
    chosen = data.draw(st.lists(st.sampled_from(graph.relations), unique=True, min_size=1))
    expected = sum(dense_relation(inputs, tuple(each)) for each in chosen)
    found = graph.only(str(each) for each in chosen)
    np.testing.assert_allclose(dense(found), expected + expected.T)
    assert not found.directed


def test_all_relations_are_the_homogenised_graph():
    graph = Graph.from_relations(
        {("a", "x", "b"): [[0, 1], [1, 0]], ("b", "y", "b"): [[0], [1]]}, target="b"
    )
    np.testing.assert_array_equal(dense(graph.only(["x", "y"])), dense(graph))


def test_a_graph_of_one_relation_is_its_own_selection(random_graph):
    graph = random_graph()
    assert graph.only("edge") is graph
    with pytest.raises(GraphError, match="no relation `writes`"):
        graph.only(["writes"])


def test_what_is_selected_has_another_fingerprint_than_the_whole():
    graph = Graph.from_relations(
        {("a", "x", "b"): [[0, 1], [1, 0]], ("b", "y", "b"): [[0], [1]]}, target="b"
    )
    prints = {each.fingerprint("edges") for each in (graph, graph.only("x"), graph.only("y"))}
    assert len(prints) == 3
