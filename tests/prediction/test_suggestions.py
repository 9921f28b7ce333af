"""Which nodes to label next: never labeled ones, no two alike, and doubtful ones first."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import scr
from scr.errors import ConfigError, GraphError
from scr.graph import known_labels
from scr.prediction import Suggestion, write_suggestions
from scr.prediction import _suggestions as module
from scr.prediction._groups import directions, group, k_means
from scr.prediction._suggestions import doubt
from scr.report.page import run_page
from scr.training import prepare

QUICK = {"preset": "none", "epochs": 20}


def with_unlabeled(graph, hidden=20):
    """The graph with some test nodes whose labels are not known."""
    labels = np.array(graph.labels)
    labels[graph.test[:hidden]] = -1
    return replace(graph, labels=labels, test=graph.test[hidden:])


def fitted(graph, **settings):
    return scr.NodeClassifier("ssgc", "none", **(QUICK | settings)).fit(graph)


def test_doubt_is_one_minus_the_margin():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(doubt(probabilities), [0.8, 0.3, 0.0])
    assert doubt(np.ones((3, 1))).tolist() == [0, 0, 0]


def spread(points, weights, centers):
    """What k-means makes small: the weighted sum of squared distances to the nearest center."""
    squares = ((points[:, None] - centers[None]) ** 2).sum(axis=2)
    return float(weights @ squares.min(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_weighted_k_means_is_as_good_as_that_of_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((8, 6))[generator.integers(0, 8, 300)]
    points += 0.5 * generator.standard_normal(points.shape)
    weights = generator.random(300)
    known = KMeans(8, n_init=5, random_state=0).fit(points, sample_weight=weights)
    assert spread(points, weights, k_means(points, weights, 8)) <= 1.03 * known.inertia_


def test_groups_are_worked_by_hand():
    points = np.array([[0.0], [1.0], [2.0], [10.0], [11.0]])
    # Centers: (0 + 2 * 1 + 2) / 4 = 1 and (10 + 3 * 11) / 4 = 10.75.
    found = group(points, np.array([1.0, 2.0, 1.0, 1.0, 3.0]), 2)
    assert found.order.tolist() == [1, 4]
    np.testing.assert_allclose(found.shares, [4 / 8, 4 / 8])
    assert found.sizes.tolist() == [3, 2]
    found = group(points, np.array([1.0, 2.0, 1.0, 2.0, 3.0]), 2)
    assert found.order.tolist() == [4, 1]
    np.testing.assert_allclose(found.shares, [5 / 9, 4 / 9])


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 8))
def test_nodes_that_are_the_same_are_not_both_taken_while_others_are_left(kinds, count):
    different = np.random.default_rng(0).standard_normal((7, 4))
    found = group(different[kinds], np.ones(len(kinds)), count)
    taken = np.array(kinds)[found.order]
    expected = min(count, len(kinds))
    assert len(set(found.order.tolist())) == len(found.order) == expected
    assert len(set(taken.tolist())) == min(expected, len(set(kinds)))
    assert found.shares.sum() == pytest.approx(1)
    assert found.sizes.sum() == len(kinds)
    assert (np.diff(found.shares) <= 0).all()


def test_ties_go_to_the_more_doubtful_node_and_then_to_the_first():
    points = np.tile([1.0, 0.0], (4, 1))
    found = group(points, np.array([0.2, 0.5, 0.5, 0.1]), 4)
    assert found.order.tolist() == [1, 2, 0, 3]
    np.testing.assert_allclose(found.shares, [1, 0, 0, 0])
    assert found.sizes.tolist() == [4, 0, 0, 0]


def test_a_model_without_any_doubt_has_groups_all_the_same():
    points = np.array([[0.0], [0.1], [5.0], [5.1], [5.2]])
    assert group(points, np.zeros(5), 2).order.tolist() == [3, 0]


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e6 + 0.1])
def test_nodes_without_any_difference_are_ordered_by_doubt(value):
    points = directions(np.full((5, 3), value, np.float32))
    assert group(points, np.array([1, 3, 2, 5, 4.0]), 3).order.tolist() == [3, 4, 1]


def test_wide_rows_keep_the_angles_between_their_main_directions():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((80, 5)) @ generator.standard_normal((5, 300))
    centered = rows - rows.mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    narrow = directions(rows.astype(np.float32), columns=10)
    assert narrow.shape == (80, 10)
    np.testing.assert_allclose(narrow @ narrow.T, unit @ unit.T, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_of_few_wide_rows_all_angles_are_kept(rows):
    wide = np.random.default_rng(0).standard_normal((rows, 300))
    centered = wide - wide.mean(axis=0)
    unit = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    narrow = directions(wide)
    np.testing.assert_allclose(narrow @ narrow.T, unit @ unit.T, atol=1e-5)


def between_two_clusters():
    """Two clusters of one class each; node 40 lies between them, node 41 in the first."""
    generator = np.random.default_rng(0)
    centers = np.repeat([[-3.0, 1.0], [3.0, 1.0]], 20, axis=0)
    features = np.concatenate([centers, [[0.0, 1.0]], [[-3.0, 1.0]]])
    features += 0.1 * generator.standard_normal(features.shape)
    labels = np.repeat([0, 1, -1], [20, 20, 2])
    nodes = np.arange(40)
    loops = np.tile(np.arange(42), (2, 1))
    return scr.Graph.from_edges(
        loops, features=features.astype(np.float32), labels=labels, num_nodes=42,
        train=nodes[::2], valid=nodes[1::2], class_names=("left", "right"),
        ids=np.array([f"n{node}" for node in range(42)]), self_loops="keep",
    )  # fmt: skip


def test_a_node_between_two_clusters_comes_before_one_inside(tmp_path):
    graph = between_two_clusters()
    first, second = fitted(graph, epochs=60).suggest(5)
    assert (first.id, first.node, second.node) == ("n40", 40, 41)
    assert first.score > second.score
    assert second.prediction == "left"
    assert second.why.startswith("probably left (")
    assert first.why.endswith("no neighbors")


def test_labeled_nodes_are_never_suggested(random_graph):
    graph = with_unlabeled(random_graph())
    suggestions = fitted(graph).suggest(100)
    assert len(suggestions) == 20
    assert len({each.node for each in suggestions}) == 20
    assert not known_labels(graph.labels)[[each.node for each in suggestions]].any()
    assert all(each.id == each.node for each in suggestions)
    chance = fitted(graph).predict_proba([suggestions[0].node])[0]
    assert suggestions[0].confidence == pytest.approx(chance.max(), abs=1e-4)
    assert suggestions[0].prediction == graph.class_names[chance.argmax()]


def test_of_hops_that_were_kept_for_some_nodes_only_these_are_suggested(random_graph):
    graph = with_unlabeled(random_graph())
    unlabeled = np.flatnonzero(~known_labels(graph.labels))
    kept = np.sort(np.concatenate([graph.train, graph.valid, unlabeled[::2]]))
    classifier = scr.NodeClassifier("sign", "none", **QUICK)
    prepared = prepare(graph, classifier.resolve(graph))
    some = replace(prepared, array=np.ascontiguousarray(prepared.array[kept]), kept=kept)
    suggestions = classifier.fit(graph, prepared=some).suggest(100)
    assert sorted(each.node for each in suggestions) == unlabeled[::2].tolist()


def test_suggestions_are_the_same_every_time_and_after_loading(tmp_path, random_graph):
    graph = with_unlabeled(random_graph())
    classifier = fitted(graph)
    first = classifier.suggest(7)
    assert classifier.suggest(7) == first
    classifier.save(tmp_path / "run")
    assert scr.NodeClassifier.load(tmp_path / "run", graph=graph).suggest(7) == first


def test_why_counts_labels_of_neighbors():
    features = np.eye(6, 3, dtype=np.float32)
    graph = scr.Graph.from_edges(
        [[4, 4, 4, 5], [0, 1, 5, 0]], features=features, labels=[0, 1, 0, 1, -1, -1],
        train=[0, 1], valid=[2, 3], class_names=("a", "b"),
    )  # fmt: skip
    why = {each.node: each.why for each in fitted(graph).suggest()}
    assert why[4].endswith("2 of its 3 neighbors have a label")
    assert why[5].endswith("1 of its 2 neighbors has a label")


def test_of_many_nodes_some_are_looked_at_and_counts_are_scaled(random_graph, monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 10)
    suggestions = fitted(with_unlabeled(random_graph())).suggest(3)
    assert len(suggestions) == 3
    counts = [each.why for each in suggestions if "stands for" in each.why]
    assert counts
    assert all("about" in why for why in counts)


def test_a_model_that_reads_the_graph_compares_nodes_by_its_predictions(random_graph):
    graph = with_unlabeled(random_graph())
    suggestions = scr.NodeClassifier("gcn", "none", preset="none", epochs=3).fit(graph).suggest(5)
    assert len({each.node for each in suggestions}) == 5
    assert not known_labels(graph.labels)[[each.node for each in suggestions]].any()


def test_without_unlabeled_nodes_the_error_says_so(random_graph):
    with pytest.raises(GraphError, match="Every node that the model predicts has a label"):
        fitted(random_graph()).suggest()


def test_a_count_below_one_is_refused(random_graph):
    with pytest.raises(ConfigError, match="count"):
        fitted(with_unlabeled(random_graph())).suggest(0)


def test_several_targets_are_refused(random_graph):
    labels = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.int8)
    classifier = fitted(random_graph(labels=labels))
    with pytest.raises(GraphError, match="several targets"):
        classifier.suggest()


def test_a_file_has_a_row_for_each_suggestion(tmp_path):
    why = 'unsure between "a", and b'
    write_suggestions(tmp_path / "next.csv", [Suggestion(3, "x,y", "a", 0.5, 0.1, why)])
    with (tmp_path / "next.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "id": "x,y", "prediction": "a", "confidence": "0.5", "score": "0.1", "why": why
    }  # fmt: skip


def test_a_run_has_suggestions_for_its_page_where_labels_are_unknown(tmp_path, random_graph):
    graph = with_unlabeled(random_graph(name="some"))
    classifier = fitted(graph)
    classifier.save(tmp_path / "some")
    stored = json.loads((tmp_path / "some" / "suggestions.json").read_text())["nodes"]
    assert stored == [each._asdict() for each in classifier.suggest(10)]
    page = run_page(tmp_path / "some")
    assert "Good candidates for the next labels" in page
    assert stored[0]["why"] in page
    fitted(random_graph()).save(tmp_path / "none")
    assert not (tmp_path / "none" / "suggestions.json").exists()
    assert "Good candidates" not in run_page(tmp_path / "none")
