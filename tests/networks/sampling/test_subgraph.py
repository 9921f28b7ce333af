import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.networks.sampling.references import (
    assert_is_a_part_of,
    assert_same_batch,
    small_graph,
    threads_for_little_work,
)
from tests.propagation.graphs import graphs

from scr.errors import GraphError
from scr.networks.sampling import induced_subgraph
from scr.networks.sampling._subgraph import LocalNumbers


@given(graphs(), st.data())
def test_an_induced_subgraph_is_the_block_of_the_adjacency_matrix(made, data):
    graph, matrix = made
    nodes = data.draw(st.permutations(range(graph.num_nodes)))
    nodes = nodes[: data.draw(st.integers(0, graph.num_nodes))]
    batch = induced_subgraph(graph, np.array(nodes, np.int64))
    assert_is_a_part_of(graph, batch)
    assert batch.nodes.tolist() == nodes
    assert batch.num_seeds == len(nodes)
    found = np.zeros((len(nodes), len(nodes)), bool)
    found[np.repeat(np.arange(len(nodes)), np.diff(batch.indptr)), batch.indices] = True
    np.testing.assert_array_equal(found, matrix.toarray()[np.ix_(nodes, nodes)] != 0)


@given(graphs(), st.integers(2, 4))
def test_an_induced_subgraph_is_the_same_for_any_number_of_threads(made, threads):
    graph, _ = made
    nodes = np.arange(0, graph.num_nodes, 2)
    with threads_for_little_work():
        many = induced_subgraph(graph, nodes, threads=threads)
    assert_same_batch(many, induced_subgraph(graph, nodes, threads=1))


def test_scratch_of_earlier_subgraphs_leaves_no_trace():
    graph, numbers = small_graph(), LocalNumbers(10)
    for nodes in ([0, 1, 2, 3], [9, 7], [2, 0, 5], [9, 8, 7, 6]):
        again = induced_subgraph(graph, nodes, numbers=numbers)
        assert_same_batch(again, induced_subgraph(graph, nodes))


def test_int64_neighbors_give_the_same_subgraph():
    import dataclasses

    graph = small_graph()
    wide = dataclasses.replace(graph, indices=graph.indices.astype(np.int64))
    assert_same_batch(induced_subgraph(wide, [0, 1, 2]), induced_subgraph(graph, [0, 1, 2]))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([1, 12], "Node 12 is not in the graph; expected numbers from 0 to 9"),
        ([-1], "Node -1 is not in the graph"),
        ([1, 2, 1], "Node 1 is named more than once"),
        ([0.5], "expected a list of node numbers"),
        (np.ones(10, bool), "flatnonzero"),
        ([[1, 2]], r"shape \(1, 2\)"),
    ],
)
def test_nodes_that_make_no_subgraph_are_refused(nodes, message):
    with pytest.raises(GraphError, match=message):
        induced_subgraph(small_graph(), nodes)


def test_a_refused_list_does_not_spoil_the_scratch():
    graph, numbers = small_graph(), LocalNumbers(10)
    with pytest.raises(GraphError):
        induced_subgraph(graph, [4, 3, 3], numbers=numbers)
    again = induced_subgraph(graph, [0, 1, 2], numbers=numbers)
    assert_same_batch(again, induced_subgraph(graph, [0, 1, 2]))
