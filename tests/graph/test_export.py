"""Graphs leave for PyG, NetworkX and SciPy and come back as they were; pandas frames come in."""

import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.graph.typed_graphs import typed_inputs

from scr.errors import GraphError, SCRError
from scr.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore:.*(no training label|not have both labels)")
geometric = pytest.importorskip("torch_geometric")


@st.composite
def graphs(draw, *, self_loops=True):
    """Graphs of one type: with or without weights, ids, features, labels and splits."""
    nodes = draw(st.integers(3, 9))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    edges = generator.integers(0, nodes, (2, draw(st.integers(0, 20))))
    kind = draw(st.sampled_from(["none", "classes", "targets"]))
    settings = {"num_nodes": nodes, "name": "drawn", "undirected": draw(st.booleans())}
    if draw(st.booleans()):
        settings["weights"] = generator.integers(1, 5, edges.shape[1]) / 4
    if draw(st.booleans()):
        ids = generator.permutation(100)[:nodes]
        settings["ids"] = ids if draw(st.booleans()) else [f"n{each}" for each in ids]
    width = draw(st.integers(0, 3))
    if width:
        features = generator.integers(-3, 4, (nodes, width)).astype(np.float32)
        settings["features"] = sp.csr_array(features) if draw(st.booleans()) else features
    if kind == "classes":
        settings |= {"labels": generator.integers(-1, 3, nodes), "class_names": ["z", "1", "a"]}
    if kind == "targets":
        settings |= {"labels": generator.integers(-1, 2, (nodes, 2)), "class_names": ["q", "p"]}
    loops = "keep" if self_loops and draw(st.booleans()) else "drop"
    graph = Graph.from_edges(edges, self_loops=loops, **settings)
    known = np.flatnonzero(graph.labels >= 0 if graph.labels.ndim == 1 else
                           (graph.labels >= 0).any(axis=1))  # fmt: skip
    if len(known) >= 3:
        graph = graph.with_split(known[:1], known[1:2], known[2:])
    return graph


def dense(features):
    return features.toarray() if sp.issparse(features) else features


def assert_same(one, two, *, ids=True):
    np.testing.assert_array_equal(one.adjacency().toarray(), two.adjacency().toarray())
    np.testing.assert_array_equal(one.indptr, two.indptr)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.class_names == two.class_names
    assert one.directed == two.directed
    for split in ("train", "valid", "test"):
        np.testing.assert_array_equal(getattr(one, split), getattr(two, split))
    assert (one.features is None) == (two.features is None)
    if one.features is not None:
        np.testing.assert_array_equal(dense(one.features), dense(two.features))
    if ids:
        assert (one.ids is None) == (two.ids is None)
        if one.ids is not None:
            np.testing.assert_array_equal(one.ids, two.ids)


@given(graphs())
def test_pyg_and_back(graph):
    data = graph.to_pyg()
    data.validate()
    assert data.num_nodes == graph.num_nodes
    again = Graph.from_pyg(data, undirected=not graph.directed, self_loops="keep")
    assert_same(graph, again)
    assert sp.issparse(graph.features) == sp.issparse(again.features)


@given(graphs())
def test_pyg_has_what_pyg_itself_makes_of_the_matrix(graph):
    from torch_geometric.utils import from_scipy_sparse_matrix, to_dense_adj

    data = graph.to_pyg()
    index, _ = from_scipy_sparse_matrix(graph.adjacency())
    assert torch.equal(data.edge_index, index.long())
    if graph.num_edges:
        weight = getattr(data, "edge_weight", None)
        found = to_dense_adj(data.edge_index, edge_attr=weight, max_num_nodes=graph.num_nodes)
        np.testing.assert_array_equal(found[0].numpy(), graph.adjacency().toarray())


@given(typed_inputs(weighted=True))
def test_hetero_data_and_back(inputs):
    graph = Graph.from_relations(
        **vars(inputs), self_loops="keep", class_names=["even", "odd"],
        ids=[f"t{number}" for number in range(inputs.num_nodes[inputs.target])],
    )  # fmt: skip
    if not graph.is_typed:
        return
    data = graph.to_pyg()
    data.validate()
    again = Graph.from_pyg(data, target=graph.target, self_loops="keep")
    # Weights are of all edges: with them, a relation may become another one's way back.
    assume(not any(step.startswith("left out") for step in again.steps))
    assert_same(graph, again)
    assert list(again.node_types.items()) == list(graph.node_types.items())
    assert again.relations == graph.relations
    np.testing.assert_array_equal(again.edge_types, graph.edge_types)
    for kind, features in graph.other_features.items():
        np.testing.assert_array_equal(again.other_features[kind], features)


def test_relations_of_hetero_data_have_the_edges_along_their_direction():
    graph = Graph.from_relations(
        {("author", "writes", "paper"): [[0, 1, 1], [2, 0, 2]]}, target="paper",
        labels=[0, 1, -1], train=[0], features={"author": np.eye(2)},
    )  # fmt: skip
    data = graph.to_pyg()
    edges = data["author", "writes", "paper"].edge_index
    assert sorted(edges.T.tolist()) == [[0, 2], [1, 0], [1, 2]]
    assert data["paper"].train_mask.tolist() == [True, False, False]
    assert data["author"].x.tolist() == [[1, 0], [0, 1]]
    assert data.metadata() == (["paper", "author"], [("author", "writes", "paper")])


@given(graphs())
def test_networkx_and_back(graph):
    network = graph.to_networkx()
    assert network.is_directed() == graph.directed
    np.testing.assert_array_equal(
        nx.to_numpy_array(network, dtype=np.float32), graph.adjacency().toarray()
    )
    has = next(iter(network.nodes.data()))[1]
    again = Graph.from_networkx(
        network, features="features" if "features" in has else None,
        labels="label" if "label" in has else None, split="split", weight="weight",
        undirected=not graph.directed, self_loops="keep",
    )  # fmt: skip
    assert_same(graph, again, ids=False)
    expected = np.arange(graph.num_nodes) if graph.ids is None else graph.ids
    np.testing.assert_array_equal(again.ids, expected)


def test_networkx_nodes_have_the_users_names():
    graph = Graph.from_edges(
        [[0, 1], [1, 2]], labels=["b", "a", None], ids=["x", "y", "z"], train=[0, 1],
    )  # fmt: skip
    network = graph.to_networkx()
    assert dict(network.nodes.data("label")) == {"x": "b", "y": "a", "z": None}
    assert dict(network.nodes.data("split")) == {"x": "train", "y": "train", "z": None}
    assert sorted(network.edges) == [("x", "y"), ("y", "z")]


@given(graphs())
def test_scipy_and_back(graph):
    matrix = graph.to_scipy()
    again = Graph.from_scipy(matrix, undirected=not graph.directed, self_loops="keep")
    np.testing.assert_array_equal(again.adjacency().toarray(), graph.adjacency().toarray())
    matrix.indices[:] = 0  # it is the caller's own
    np.testing.assert_array_equal(again.indices, graph.indices)


def test_typed_graphs_do_not_become_networkx():
    graph = Graph.from_relations({("a", "r", "b"): [[0], [0]]}, target="a")
    with pytest.raises(GraphError, match="expected one of each"):
        graph.to_networkx()


@pytest.mark.parametrize("package", ["networkx", "torch_geometric"])
def test_a_library_that_is_missing_is_named(package, monkeypatch, random_graph):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.data", None)
    graph = random_graph()
    with pytest.raises(SCRError, match=f"pip install {package.replace('_', '-')}"):
        graph.to_networkx() if package == "networkx" else graph.to_pyg()


@given(graphs(self_loops=False))
def test_frames_say_what_networkx_says(graph):
    network = graph.to_networkx()
    edges = nx.to_pandas_edgelist(network)
    nodes = pd.DataFrame({"id": list(network.nodes)})
    if graph.features is not None:
        nodes[[f"f{column}" for column in range(graph.num_features)]] = dense(graph.features)
    settings = {}
    if graph.class_names and not graph.is_multilabel:
        nodes["label"] = [data["label"] for _, data in network.nodes.data()]
        settings["class_names"] = graph.class_names
        nodes["split"] = [data.get("split") for _, data in network.nodes.data()]
    if not len(edges):
        edges = pd.DataFrame({"source": nodes["id"][:0], "target": nodes["id"][:0]})
    made = Graph.from_pandas(edges, nodes, undirected=not graph.directed, **settings)
    np.testing.assert_array_equal(made.adjacency().toarray(), graph.adjacency().toarray())
    assert made.ids.tolist() == list(network.nodes)
    if settings:
        assert_same(made, graph, ids=False)


def test_frames_with_columns_of_other_names():
    edges = pd.DataFrame({"when": [1, 2], "from": [30, 10], "to": [10, 20], "kg": [0.5, 2.0]})
    nodes = pd.DataFrame(
        {"kind": ["b", None, "a"], "age": [1, 2, 3], "name": ["x", "y", "z"]}, index=[10, 20, 30]
    )
    graph = Graph.from_pandas(
        edges, nodes, source="from", target="to", weight="kg", label="kind", features=["age"]
    )
    assert graph.ids.tolist() == [10, 20, 30]
    expected = [[0, 2, 0.5], [2, 0, 0], [0.5, 0, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    assert graph.class_names == ("a", "b")
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.features.tolist() == [[1], [2], [3]]
    bare = Graph.from_pandas(edges[["from", "to"]])
    assert bare.ids.tolist() == [10, 20, 30]
    assert bare.weights is None


def test_names_of_columns_need_not_be_text():
    edges = pd.DataFrame([[0, 1, 0.5], [1, 2, 4.0]])
    graph = Graph.from_pandas(edges[[0, 1]].astype(int))
    assert graph.ids.tolist() == [0, 1, 2]
    path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), path)
    nodes = pd.DataFrame([[7, 1, 5.0], [8, 0, 6.0], [9, 2, 7.0]])
    graph = Graph.from_pandas(
        edges, nodes, source=1, target=0, weight=2, id=1, features=[0], undirected=False
    )
    assert graph.ids.tolist() == [1, 0, 2]
    assert graph.features.tolist() == [[7], [8], [9]]
    weighted = [[0, 0.5, 0], [0, 0, 0], [4, 0, 0]]  # 1 to 0 and 2 to 1, in the order of the ids
    np.testing.assert_array_equal(graph.to_scipy().toarray(), weighted)
    with pytest.raises(GraphError, match="columns 0; expected one for each of both ends"):
        Graph.from_pandas(edges[[0]])


NODES = pd.DataFrame({"id": ["a", "b"], "size": [1.0, 2.0], "label": [0, 1]})
EDGES = pd.DataFrame({"source": ["a"], "target": ["b"]})


@pytest.mark.parametrize(
    ("edges", "nodes", "settings", "message"),
    [
        (EDGES.assign(target="c"), NODES, {}, "1 of 1 edges have a `target` that is no node"),
        (EDGES, NODES.assign(size="big"), {}, "The columns `size` are not numbers"),
        (EDGES, NODES, {"source": "start"}, "no column `start`; expected one of source, target"),
        (EDGES, NODES, {"features": ["colour"]}, "no column `colour`"),
        (EDGES, NODES.assign(id="a"), {}, "'a' is given to more than one node"),
        (EDGES, NODES.assign(split="tset"), {}, "says 'tset'; expected train, valid, test"),
        (EDGES[["source"]], NODES, {}, "expected one for each of both ends"),
        (pd.DataFrame([[0, 1]], columns=["x", "x"]), NODES, {}, "expected one for each of both"),
    ],
)
def test_what_is_wrong_with_frames_is_said_in_one_sentence(edges, nodes, settings, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_pandas(edges, nodes, **settings)


def test_a_frame_instead_of_a_graph_is_named():
    import scr

    with pytest.raises(GraphError, match="from_pandas"), warnings.catch_warnings():
        scr.NodeClassifier().fit(EDGES)
