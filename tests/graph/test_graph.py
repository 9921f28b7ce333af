from __future__ import annotations

import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from scr.errors import GraphError
from scr.graph import Graph

PATH = np.array([[0, 1, 2], [1, 2, 3]])
"""The path 0 - 1 - 2 - 3."""


def neighbors(graph, node):
    return graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()


@pytest.mark.parametrize(
    "edges",
    [
        PATH,
        PATH.T,
        PATH.tolist(),
        PATH.T.tolist(),
        torch.from_numpy(PATH),
        pd.DataFrame({"source": PATH[0], "target": PATH[1]}),
        [(0, 1), (1, 2), (2, 3)],
    ],
)
def test_edges_come_in_many_forms(edges):
    graph = Graph.from_edges(edges)
    assert [neighbors(graph, node) for node in range(4)] == [[1], [0, 2], [1, 3], [2]]
    assert (graph.num_nodes, graph.num_edges, graph.num_undirected_edges) == (4, 6, 3)


def test_two_pairs_in_a_list_are_pairs():
    assert Graph.from_edges([(0, 1), (0, 2)]).num_nodes == 3


def test_adjacency_has_one_at_every_edge():
    expected = nx.to_numpy_array(nx.path_graph(4))
    np.testing.assert_array_equal(Graph.from_edges(PATH).adjacency().toarray(), expected)


def test_masks_and_numbers_are_the_same_split():
    mask = np.array([True, False, True, False])
    by_mask = Graph.from_edges(PATH, labels=[0, 0, 1, 1], train=mask)
    by_number = Graph.from_edges(PATH, labels=[0, 0, 1, 1], train=torch.tensor([2, 0]))
    np.testing.assert_array_equal(by_mask.train, by_number.train)
    assert by_number.train.tolist() == [0, 2]


@pytest.mark.parametrize("labels", [["a", None, "b", "a"], pd.Series(["a", None, "b", "a"])])
def test_named_labels_become_numbers_with_names(labels):
    graph = Graph.from_edges(PATH, labels=labels)
    assert graph.labels.tolist() == [0, -1, 1, 0]
    assert graph.class_names == ("a", "b")


def test_missing_numbers_become_unknown():
    assert Graph.from_edges(PATH, labels=[0, np.nan, 1, None]).labels.tolist() == [0, -1, 1, -1]


def test_sparse_features_stay_sparse():
    graph = Graph.from_edges(PATH, features=sp.eye(4, format="coo"))
    assert isinstance(graph.features, sp.csr_array)
    assert graph.num_features == 4


def test_scipy_values_other_than_one_become_weights():
    matrix = sp.csr_array(np.array([[0, 2.0], [0, 0]]))
    graph = Graph.from_scipy(matrix, undirected=False)
    np.testing.assert_array_equal(graph.adjacency().toarray(), matrix.toarray())
    assert Graph.from_scipy(matrix != 0).weights is None


def test_networkx_names_and_attributes_are_kept():
    network = nx.Graph()
    network.add_node("x", vector=[1.0, 2.0], kind="even", part="train")
    network.add_node("y", vector=[3.0, 4.0], kind="odd", part="train")
    network.add_node("z", vector=[5.0, 6.0], kind=None)
    network.add_edge("x", "z", strength=3.0)
    graph = Graph.from_networkx(
        network, features="vector", labels="kind", split="part", weight="strength"
    )
    assert graph.ids.tolist() == ["x", "y", "z"]
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.train.tolist() == [0, 1]
    assert graph.adjacency()[0, 2] == 3


def test_pyg_data_keeps_features_labels_and_the_chosen_mask_column():
    data = SimpleNamespace(
        edge_index=torch.from_numpy(PATH),
        x=torch.eye(4),
        y=torch.tensor([0, 1, 0, 1]),
        train_mask=torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=torch.bool),
        val_mask=None,
    )
    graph = Graph.from_pyg(data, split=1)
    assert graph.train.tolist() == [2, 3]
    assert graph.num_features == 4


def test_real_pyg_data_is_read():
    geometric = pytest.importorskip("torch_geometric.data")
    graph = Graph.from_pyg(geometric.Data(x=torch.eye(4), edge_index=torch.from_numpy(PATH)))
    assert (graph.num_nodes, graph.num_undirected_edges) == (4, 3)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_rows_are_linked(metric):
    rows = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]])
    graph = Graph.from_features(rows, k=1, metric=metric)
    assert [neighbors(graph, node) for node in range(4)] == [[1], [0], [3], [2]]
    assert Graph.from_features(sp.csr_array(rows), k=1, metric=metric).num_edges == 4


def test_equal_content_has_an_equal_fingerprint(random_graph):
    graph = random_graph(seed=1)
    assert graph.fingerprint() == random_graph(seed=1).fingerprint()
    assert graph.fingerprint() != random_graph(seed=2).fingerprint()


def test_another_split_changes_only_the_fingerprint_of_splits(random_graph):
    graph = random_graph()
    other = graph.with_split(graph.train, graph.valid)
    assert graph.fingerprint() != other.fingerprint()
    assert graph.fingerprint("edges", "features") == other.fingerprint("edges", "features")


BAD = {
    "outside the graph": {"features": np.ones((3, 2))},
    "wrong": {"features": np.ones((4, 2)), "labels": [0, 1]},
    "Features have the shape": {"features": np.ones(4)},
    "Features have 5 rows; expected 4": {"features": np.ones((5, 2)), "num_nodes": 4},
    "Feature 1 of node 2 is nan": {"features": [[0, 0], [0, 0], [0, np.nan], [0, 0]]},
    "Feature 0 of node 0 is inf": {"features": sp.csr_array(np.diag([np.inf, 1, 1, 1]))},
    "label of node 3 is -2, out of range": {"labels": [0, 1, 1, -2]},
    "label of node 3 is 2, out of range": {"labels": [0, 1, 1, 2], "class_names": ["a", "b"]},
    "label 99 is out of range": {"labels": [0, 1, 1, 99]},
    "expected a whole number": {"labels": [0, 1, 1, 0.5]},
    "Node 1 is in both the train and the test": {"train": [0, 1], "test": [1, 2]},
    "train split is empty": {"train": []},
    "valid split is empty": {"train": [0, 1], "valid": np.zeros(4, bool)},
    "test split holds node 9": {"train": [0, 1], "test": [9]},
    "train mask has the shape": {"train": np.ones(3, bool)},
    "have no label": {"labels": [0, -1, 1, 1], "train": [0, 1, 2]},
    "Weights have the shape": {"weights": [1.0]},
    "weight of edge 1 is -1": {"weights": [1, -1, 1]},
    "given to more than one node": {"ids": ["a", "b", "a", "c"]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_told_in_one_sentence(message):
    settings = {"labels": [0, 1, 0, 1]} | BAD[message]
    if message == "wrong":
        message = r"Labels have the shape \(2,\); expected \(4,\)"
    if message == "outside the graph":
        settings = BAD[message]
    with pytest.raises(GraphError, match=message) as caught:
        Graph.from_edges(PATH, **settings)
    assert "\n" not in caught.value.message


def test_unlabeled_test_nodes_leave_the_split_with_a_warning():
    with pytest.warns(UserWarning, match="1 nodes of the test split have no label"):
        graph = Graph.from_edges(PATH, labels=[0, 1, 0, -1], train=[0, 1], test=[2, 3])
    assert graph.test.tolist() == [2]


def test_a_class_without_training_label_is_a_warning():
    with pytest.warns(UserWarning, match=r"1 of 2 classes have no training label \(1\)"):
        Graph.from_edges(PATH, labels=[0, 1, 0, 1], train=[0])


def test_good_input_gives_no_warning(random_graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        random_graph()


@pytest.mark.parametrize("k", [0, 4])
def test_too_many_neighbors_are_refused(k):
    with pytest.raises(GraphError, match=f"k is {k}; expected 1 to 3"):
        Graph.from_features(np.eye(4), k=k)
