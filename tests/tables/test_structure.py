"""Structural features against NetworkX and against a graph whose parts are known."""

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

import scr
from scr.tables import read_table_graph, structural_features
from scr.tables._structure import clustering, core_numbers, describe_structure, links_of


@pytest.fixture
def network():
    return nx.barbell_graph(6, 3)


def test_core_numbers_and_clustering_are_those_of_networkx():
    network = nx.gnm_random_graph(80, 300, seed=0)
    links = links_of(scr.Graph.from_networkx(network))
    cores, shares = nx.core_number(network), nx.clustering(network)
    assert core_numbers(links).tolist() == [cores[node] for node in network]
    np.testing.assert_allclose(clustering(links), [shares[node] for node in network], rtol=1e-6)


def test_directions_weights_and_loops_do_not_count(network):
    edges = np.array(list(network.edges)).T
    graph = scr.Graph.from_edges(edges)
    other = scr.Graph.from_edges(
        np.concatenate([edges, [[0], [0]]], axis=1), undirected=False, self_loops="keep",
        weights=np.arange(1, edges.shape[1] + 2),
    )  # fmt: skip
    assert np.array_equal(links_of(graph).toarray(), links_of(other).toarray())


def test_the_embedding_tells_dense_parts_apart(network):
    matrix, sentence = describe_structure(scr.Graph.from_networkx(network))
    assert matrix.shape == (15, 3 + 14)
    assert "an embedding of 14 columns" in sentence
    # The leading two directions of a barbell span the two bells: rows of one are alike.
    rows = matrix[:, 3:5]
    assert np.linalg.norm(rows[1] - rows[2]) < 0.1 * np.linalg.norm(rows[1] - rows[12])


def test_columns_have_mean_0_and_deviation_1(network):
    matrix = structural_features(scr.Graph.from_networkx(network))
    np.testing.assert_allclose(matrix[:, :3].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(matrix[:, :3].std(axis=0), 1, rtol=1e-5)


def test_what_is_too_large_is_left_out_and_said(network, monkeypatch):
    monkeypatch.setattr("scr.tables._structure.available_bytes", lambda: 1000)
    monkeypatch.setattr("scr.tables._structure.TRIANGLE_WORK", 10)
    matrix, sentence = describe_structure(scr.Graph.from_networkx(network))
    assert matrix.shape == (15, 2)
    assert "without triangles, which are too many to count and the embedding" in sentence


def test_tables_without_columns_get_structural_features():
    nodes = pa.table({"id": [1, 2, 3, 4], "label": ["a", "a", "b", "b"], "nothing": [7, 7, 7, 7]})
    edges = pa.table({"source": [1, 2, 3], "target": [2, 3, 4]})
    result = read_table_graph(nodes, edges)
    assert result.preparation is None
    assert result.graph.features.shape == (4, 3 + 3)
    assert any("features are made of the edges" in note for note in result.notes)
    no_edges = edges.slice(0, 0)
    result = read_table_graph(nodes, no_edges)
    assert result.graph.features.shape == (4, 3)
