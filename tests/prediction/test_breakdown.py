"""Where predictions are right: by degree and by distance to a label, worked by hand."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse.csgraph
from hypothesis import given
from hypothesis import strategies as st

import scr
from scr.prediction import label_distances, write_breakdown
from scr.prediction._breakdown import FARTHEST

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no training label"),
    pytest.mark.filterwarnings("ignore:.*do not have both labels"),
]


def path_graph(nodes=7, **settings):
    """0 - 1 - 2 - ... ; the first node trains."""
    ends = np.arange(nodes - 1)
    labels = np.zeros(nodes, np.int64)
    labels[-1] = -1
    settings = {"labels": labels, "train": [0], "test": np.arange(1, nodes - 1), **settings}
    return scr.Graph.from_edges(
        np.stack([ends, ends + 1]), features=np.eye(nodes, dtype=np.float32),
        class_names=["a", "b"], **settings,
    )  # fmt: skip


def write_table(path, graph, predictions, **more):
    labels = [None if label < 0 else graph.class_names[label] for label in graph.labels]
    table = {"prediction": predictions, "label": labels, **more}
    pyarrow.parquet.write_table(pyarrow.table(table), path / "predictions.parquet")


def test_a_path_by_hand(tmp_path):
    graph = path_graph()
    write_table(tmp_path, graph, ["a", "a", "b", "a", "b", "b", "a"])
    write_breakdown(tmp_path, graph, graph.train)
    content = json.loads((tmp_path / "breakdown.json").read_text())
    assert content["split"] == "test"
    assert content["distance"] == [
        {"distance": 1, "nodes": 1, "right": 1, "unlabeled": 0},
        {"distance": 2, "nodes": 1, "right": 0, "unlabeled": 0},
        {"distance": 3, "nodes": 1, "right": 1, "unlabeled": 0},
        {"distance": 4, "nodes": 1, "right": 0, "unlabeled": 0},
        {"distance": 5, "nodes": 1, "right": 0, "unlabeled": 0},
        {"distance": 6, "nodes": 0, "right": 0, "unlabeled": 1},
    ]
    # The ends have one neighbor, of which one trains and one is unlabeled; the others have two.
    assert content["degree"] == [
        {"from": 1, "to": 1, "nodes": 0, "right": 0, "unlabeled": 1},
        {"from": 2, "to": 2, "nodes": 5, "right": 2, "unlabeled": 0},
    ]


def test_a_star_by_hand_and_some_rows_only(tmp_path):
    """The middle has 9 neighbors, node 10 none; predictions are of the nodes 0, 1 and 10."""
    graph = scr.Graph.from_edges(
        np.stack([np.zeros(9, int), np.arange(1, 10)]), features=np.eye(11, dtype=np.float32),
        labels=[0] * 11, train=[1], valid=[0, 10], class_names=["a", "b"], num_nodes=11,
    )  # fmt: skip
    table = {"prediction": ["a", "a", "b"], "label": ["a", "a", "a"]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "predictions.parquet")
    write_breakdown(tmp_path, graph, graph.train, np.array([0, 1, 10]))
    content = json.loads((tmp_path / "breakdown.json").read_text())
    assert content["split"] == "valid"
    assert content["degree"] == [
        {"from": 0, "to": 0, "nodes": 1, "right": 0, "unlabeled": 0},
        {"from": 9, "to": 16, "nodes": 1, "right": 1, "unlabeled": 0},
    ]
    assert content["distance"] == [
        {"distance": 1, "nodes": 1, "right": 1, "unlabeled": 0},
        {"distance": None, "nodes": 1, "right": 0, "unlabeled": 0},
    ]


def test_nodes_whose_labels_were_seen_are_not_measured(tmp_path):
    graph = path_graph(test=None, valid=[1, 2])
    write_table(tmp_path, graph, ["a"] * 7)
    write_breakdown(tmp_path, graph, np.array([0, 1, 2]))
    content = json.loads((tmp_path / "breakdown.json").read_text())
    assert content["split"] is None
    assert content["distance"] == [{"distance": 4, "nodes": 0, "right": 0, "unlabeled": 1}]


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(0, 120))
def test_distances_are_those_of_scipy(seed, nodes, edges):
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, nodes, (2, edges))
    graph = scr.Graph.from_edges(
        ends, features=np.eye(nodes, dtype=np.float32), num_nodes=nodes,
        labels=np.zeros(nodes, int), class_names=["a", "b"], train=[0],
    )  # fmt: skip
    labeled = np.unique(generator.integers(0, nodes, 3))
    expected = scipy.sparse.csgraph.dijkstra(
        graph.adjacency(), directed=False, indices=labeled, unweighted=True, min_only=True
    )
    np.testing.assert_array_equal(
        label_distances(graph, labeled), np.minimum(expected, FARTHEST + 1)
    )


def test_edges_of_a_directed_graph_count_both_ways():
    graph = path_graph(5)
    one_way = scr.graph.Graph(
        indptr=np.array([0, 1, 2, 3, 4, 4]), indices=np.array([1, 2, 3, 4], np.int32),
        labels=graph.labels, class_names=graph.class_names, directed=True,
    )  # fmt: skip
    assert label_distances(one_way, np.array([2])).tolist() == [2, 1, 0, 1, 2]


def test_targets_are_counted_where_their_labels_are_known(tmp_path):
    labels = np.array([[1, 0], [1, -1], [0, 1], [1, 1]], np.int8)
    graph = scr.Graph.from_edges(
        [[0, 1, 2], [1, 2, 3]], features=np.eye(4, dtype=np.float32), labels=labels, train=[0],
        test=[1, 2, 3], class_names=["x", "y"],
    )  # fmt: skip
    table = {"probability_x": [0.9, 0.9, 0.8, 0.1], "probability_y": [0.1, 0.9, 0.7, 0.2]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "predictions.parquet")
    write_breakdown(tmp_path, graph, graph.train)
    assert json.loads((tmp_path / "breakdown.json").read_text())["targets"] == [
        {"target": "x", "known": 3, "positive": 2, "predicted": 2, "right": 1},
        {"target": "y", "known": 2, "positive": 2, "predicted": 1, "right": 1},
    ]


@pytest.mark.parametrize("regularizer", ["scr", "none"])
def test_a_run_records_where_it_is_right_and_what_the_regularizer_gained(tmp_path, regularizer):
    graph = scr.load_graph("digits")
    classifier = scr.NodeClassifier(
        "sgc", regularizer, epochs=12, evaluate_every=4, preset="none",
        consistency={"trust": "compared", "warmup": 2},
    ).fit(graph)  # fmt: skip
    classifier.save(tmp_path / "run")
    content = json.loads((tmp_path / "run" / "breakdown.json").read_text())
    measured = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for rows in (content["degree"], content["distance"]):
        assert sum(row["nodes"] for row in rows) == len(graph.test)
        right = sum(row["right"] for row in rows) / len(graph.test)
        assert right == pytest.approx(measured["test_accuracy"])
    if regularizer == "none":
        assert "consistency" not in measured
        return
    term = measured["consistency"]
    alone = scr.NodeClassifier("sgc", "none", epochs=12, evaluate_every=4, preset="none")
    same = alone.fit(graph).predict(graph.valid) == graph.labels[graph.valid]
    assert term["baseline_valid_accuracy"] == pytest.approx(same.mean())
    if measured["valid_accuracy"] == pytest.approx(same.mean() + term["gain"]):
        ours = classifier.predict(graph.valid) == graph.labels[graph.valid]
        error = (ours * 1.0 - same).std() / len(same) ** 0.5
        assert term["gain_error"] == pytest.approx(error)
    else:  # the baseline was better, and is what was kept
        assert term["gain"] < 0
