from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.typed_graphs import dense_step, random_typed, row_mean, typed_graphs

from scr.config import build
from scr.errors import ConfigError, GraphError
from scr.graph import Graph
from scr.propagation import PropagationConfig, label_hops
from scr.propagation import _labels as labels_module

SAME_AUTHORS, CITED, CITING = "^writes writes", "cites", "^cites"
FAR = "^writes affiliated ^affiliated writes"
PATHS = (SAME_AUTHORS, CITED, CITING, "has_topic ^has_topic")
CODES = {
    SAME_AUTHORS: [5, 0], CITED: [1], CITING: [6], "has_topic ^has_topic": [4, 9],
    FAR: [5, 3, 8, 0],
}  # fmt: skip
"""Of five relations: the number of each, plus five against it."""


def one_hot(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    made = np.zeros((graph.num_nodes, graph.num_classes))
    made[nodes, graph.labels[nodes]] = 1
    return made


def dense_path(graph: Graph, path: str) -> np.ndarray:
    product = np.eye(graph.num_nodes)
    for code in CODES[path]:
        product = product @ row_mean(dense_step(graph, [code]))
    return product


def config(guard: str, paths: tuple[str, ...] = PATHS, **settings: object) -> PropagationConfig:
    return PropagationConfig(label_guard=guard, label_paths=paths, **settings)  # type: ignore[arg-type]


def test_a_path_of_two_steps_brings_labels_of_papers_by_the_same_authors():
    graph = Graph.from_relations(
        {("author", "writes", "paper"): [[0, 0, 1, 1], [0, 1, 1, 2]]},
        labels=[1, 1, 0], target="paper", num_nodes={"paper": 3, "author": 2},
        features={"paper": np.ones((3, 1))}, train=[1, 2],
    )  # fmt: skip
    made = label_hops(graph, config("none", (SAME_AUTHORS,)))
    # The first author has one paper with a known label and one without, the second has two.
    assert made[:, 0].tolist() == [[0, 0.5], [0.25, 0.5], [0.5, 0.5]]


@settings(max_examples=20)
@given(graph=typed_graphs())
def test_label_paths_are_products_of_row_normalized_steps(graph):
    paths = (*PATHS, FAR)
    made = label_hops(graph, config("none", paths))
    expected = [dense_path(graph, path) @ one_hot(graph, graph.train) for path in paths]
    np.testing.assert_allclose(made, np.stack(expected, axis=1)[: graph.num_targets], atol=1e-5)


@settings(max_examples=20)
@given(graph=typed_graphs(), seed=st.integers(0, 9))
def test_rows_of_a_fold_are_computed_without_its_labels(graph, seed):
    made = label_hops(graph, config("folds", (*PATHS, FAR), label_hops=1), seed=seed, folds=3)
    count = len(graph.train)
    fold = np.random.default_rng(seed).permutation(count) % max(min(3, count), 1)
    every = row_mean(dense_step(graph, list(range(10))))
    operators = [every, *(dense_path(graph, path) for path in (*PATHS, FAR))]
    for place, operator in enumerate(operators):
        expected = (operator @ one_hot(graph, graph.train))[: graph.num_targets]
        for part in range(min(3, count)):
            hidden = graph.train[fold == part]
            visible = one_hot(graph, graph.train[fold != part])
            expected[hidden] = (operator @ visible)[hidden]
        np.testing.assert_allclose(made[:, place], expected, atol=1e-5)


@settings(max_examples=20)
@given(graph=typed_graphs())
def test_exact_removal_takes_the_own_label_out_of_paths_of_two_steps(graph):
    made = label_hops(graph, config("exact", label_hops=2, label_keep="all"))
    every = row_mean(dense_step(graph, list(range(10))))
    operators = [every, every @ every, *(dense_path(graph, path) for path in PATHS)]
    for place, operator in enumerate(operators):
        hidden = operator.copy()
        hidden[graph.train, graph.train] = 0
        expected = (hidden @ one_hot(graph, graph.train))[: graph.num_targets]
        np.testing.assert_allclose(made[:, place], expected, atol=1e-5)


@pytest.mark.parametrize("guard", ["none", "exact", "folds"])
def test_some_rows_of_paths_a_few_classes_at_a_time_are_those_of_all(monkeypatch, guard):
    graph = random_typed(0)
    asked = config(guard, label_hops=1)
    expected = label_hops(graph, asked)
    rows = np.array([7, 0, 3])
    monkeypatch.setattr(labels_module, "SKIPPING_EDGES", 0)
    monkeypatch.setattr(labels_module, "_block_width", lambda *_: 2)
    made = label_hops(graph, asked, rows=rows)
    assert np.array_equal(made, expected[rows])


def test_paths_come_behind_hops_and_need_none():
    asked = config("folds", label_hops=3, label_keep="all")
    assert asked.label_matrices == 7
    assert config("folds").label_matrices == 4
    graph = random_typed(0)
    hops = label_hops(graph, PropagationConfig(label_hops=3, label_keep="all"))
    both = label_hops(graph, asked)
    assert np.array_equal(both[:, :3], hops)
    assert np.array_equal(both[:, 3:], label_hops(graph, config("folds")))


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_of_one_relation_has_paths_too(directed):
    graph = Graph.from_edges(
        [[0, 1, 2], [1, 2, 0]], labels=[0, 1, 0], train=[0, 1, 2], undirected=not directed
    )
    dense = graph.adjacency().toarray()
    made = label_hops(graph, config("none", ("edge edge", "^edge")))
    out, back = row_mean(dense.astype(float)), row_mean(dense.T.astype(float))
    labels = np.eye(2)[graph.labels]
    np.testing.assert_allclose(made[:, 0], out @ out @ labels, atol=1e-6)
    np.testing.assert_allclose(made[:, 1], back @ labels, atol=1e-6)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("writes", ConfigError, "a step from `paper` where `writes` goes from `author`"),
        ("^writes", ConfigError, "ends where it starts, at `paper`, not at `author`"),
        ("^writes cites", ConfigError, "a step from `author` where `cites` goes from `paper`"),
        ("^wrotes", GraphError, "no relation `wrotes`"),
    ],
)
def test_a_path_that_leads_elsewhere_is_one_sentence(path, error, message):
    with pytest.raises(error, match=message):
        label_hops(random_typed(0), config("none", (path,)))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"label_guard": "far"}, "`folds`, `exact` or `none` with label_paths"),
        ({"label_guard": "exact", "label_paths": [FAR]}, "at most 2 steps"),
        ({"label_paths": [" "]}, "names of relations"),
        ({"label_paths": "cites"}, "a list"),
    ],
)
def test_settings_of_paths_that_cannot_work_are_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        build(PropagationConfig, {"label_paths": ["cites"], **asked}, section="propagation")
