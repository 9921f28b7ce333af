from __future__ import annotations

import numpy as np
import pytest
from tests.propagation.graphs import random_matrix, reference_operator

from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.propagation import PropagationConfig, label_hops
from scr.propagation import _labels as labels_module

CLASSES = 3


def labeled_graph(*, self_loops: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng, 40, 160, directed=False, weighted=True)
    matrix.setdiag(1.0 if self_loops else 0.0)
    matrix.eliminate_zeros()
    order = rng.permutation(40)
    return Graph.from_scipy(
        matrix,
        labels=rng.integers(0, CLASSES, 40),
        train=np.sort(order[:15]),
        valid=np.sort(order[15:20]),
        test=np.sort(order[20:]),
        class_names=["a", "b", "c"],
        self_loops="keep",
    )


def config(guard: str, hops: int = 3, **settings: object) -> PropagationConfig:
    return PropagationConfig(label_hops=hops, label_guard=guard, label_keep="all", **settings)  # type: ignore[arg-type]


def flipped(graph: Graph, node: int) -> np.ndarray:
    labels = graph.labels.copy()
    labels[node] = (labels[node] + 1) % CLASSES
    return labels


def own_change(graph: Graph, settings: PropagationConfig, **keywords: object) -> np.ndarray:
    """The largest change of a training node's own label hops when its label is flipped."""
    before = label_hops(graph, settings, **keywords)  # type: ignore[arg-type]
    changes = [
        np.abs(label_hops(graph, settings, labels=flipped(graph, node), **keywords) - before)[node]  # type: ignore[arg-type]
        for node in graph.train
    ]
    return np.max(changes, axis=(0, 2))


@pytest.mark.parametrize("norm", ["row", "sym", "col"])
def test_unguarded_label_hops_are_products_with_one_hot_training_labels(norm):
    graph = labeled_graph()
    one_hot = np.zeros((40, CLASSES))
    one_hot[graph.train, graph.labels[graph.train]] = 1
    operator = reference_operator(graph.adjacency(), norm, False)
    expected = np.stack([operator @ one_hot, operator @ operator @ one_hot], axis=1)
    made = label_hops(graph, config("none", 2, label_norm=norm))
    np.testing.assert_allclose(made, expected, atol=1e-6)
    last = PropagationConfig(label_hops=2, label_guard="none", label_norm=norm)
    np.testing.assert_allclose(label_hops(graph, last), expected[:, 1:], atol=1e-6)


def test_without_a_guard_a_training_node_gets_its_own_label_back():
    assert (own_change(labeled_graph(), config("none"))[1:] > 0.01).all()


def test_folds_hide_a_training_nodes_own_label_in_every_hop():
    assert not own_change(labeled_graph(self_loops=True), config("folds", 4), seed=3).any()


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("norm", ["row", "sym", "col"])
def test_exact_removal_hides_a_training_nodes_own_label_in_two_hops(norm, added):
    graph = labeled_graph(self_loops=True)
    settings = config("exact", 2, label_norm=norm, label_self_loops=added)
    assert (own_change(graph, settings) < 1e-6).all()
    assert (own_change(graph, config("none", 2, label_norm=norm)) > 0.01).all()


def test_exact_removal_of_the_last_hop_alone_equals_that_of_all():
    graph = labeled_graph()
    every = label_hops(graph, config("exact", 2))
    last = label_hops(graph, PropagationConfig(label_hops=2, label_guard="exact"))
    assert np.array_equal(last, every[:, 1:])


def test_exact_removal_refuses_more_than_two_hops():
    with pytest.raises(ConfigError, match="at most 2"):
        config("exact", 3)


def test_far_keeps_only_the_last_hop():
    graph = labeled_graph()
    made = label_hops(graph, config("far", 3))
    assert made.shape == (40, 1, CLASSES)
    assert np.array_equal(made, label_hops(graph, config("none", 3))[:, 2:])
    assert config("far", 3).label_matrices == 1


@pytest.mark.parametrize("guard", ["exact", "folds"])
def test_guards_leave_other_nodes_as_they_are(guard):
    graph = labeled_graph()
    others = np.setdiff1d(np.arange(40), graph.train)
    plain = label_hops(graph, config("none", 2))
    assert np.array_equal(label_hops(graph, config(guard, 2))[others], plain[others])


def test_folds_follow_the_seed():
    graph = labeled_graph()
    first, again, other = (label_hops(graph, config("folds"), seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("guard", ["none", "far", "exact", "folds"])
def test_only_training_labels_are_read(guard):
    graph = labeled_graph()
    scrambled = graph.labels.copy()
    scrambled[np.concatenate([graph.valid, graph.test])] = -1
    settings = config(guard, 2)
    made = label_hops(graph, settings, labels=scrambled)
    assert np.array_equal(made, label_hops(graph, settings))


def test_soft_labels_propagate_as_one_hot_labels_do():
    graph = labeled_graph()
    soft = np.full((40, CLASSES), np.nan, dtype=np.float32)
    soft[graph.train] = np.eye(CLASSES)[graph.labels[graph.train]]
    settings = config("folds")
    assert np.array_equal(label_hops(graph, settings, labels=soft), label_hops(graph, settings))


def test_later_stages_may_add_nodes():
    graph = labeled_graph()
    more = np.sort(np.concatenate([graph.train, graph.valid]))
    made = label_hops(graph, config("none", 1), train=more)
    assert made.sum() > label_hops(graph, config("none", 1)).sum()


def test_no_label_hops_are_an_empty_array():
    graph = labeled_graph()
    assert label_hops(graph, PropagationConfig()).shape == (40, 0, CLASSES)


def test_few_training_nodes_make_few_folds():
    graph = labeled_graph()
    one = label_hops(graph, config("folds", 2), train=graph.train[:1])
    assert not one[graph.train[0]].any()
    assert not label_hops(graph, config("folds", 2), train=graph.train[:0]).any()


def test_a_training_node_without_a_label_is_refused():
    graph = labeled_graph()
    labels = graph.labels.copy()
    labels[graph.train[0]] = -1
    with pytest.raises(GraphError, match="the label -1"):
        label_hops(graph, config("none"), labels=labels)


@pytest.mark.parametrize("guard", ["none", "far", "exact", "folds"])
@pytest.mark.parametrize("norm", ["row", "sym"])
def test_some_rows_of_few_classes_at_a_time_are_those_of_all(monkeypatch, guard, norm):
    graph = labeled_graph()
    settings = config(guard, 2, label_norm=norm, label_self_loops=True)
    expected = label_hops(graph, settings)
    rows = np.random.default_rng(0).permutation(graph.num_nodes)[:17]
    assert np.array_equal(label_hops(graph, settings, rows=rows), expected[rows])
    monkeypatch.setattr(labels_module, "SKIPPING_EDGES", 0)
    monkeypatch.setattr(labels_module, "_block_width", lambda *_: 2)
    made = label_hops(graph, settings, rows=rows)
    assert np.array_equal(made, expected[rows])


def test_the_budget_that_a_refusal_of_labels_names_is_enough():
    graph = labeled_graph()
    with pytest.raises(MemoryBudgetError) as caught:
        label_hops(graph, config("folds", 2), memory="1MiB")
    named = str(caught.value.hint).split("`")[1]
    made = label_hops(graph, config("folds", 2), memory=named)
    assert np.array_equal(made, label_hops(graph, config("folds", 2)))
