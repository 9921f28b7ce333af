"""The nodes that count most in each row, against dense powers of the adjacency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.errors import MemoryBudgetError
from scr.graph import Graph
from scr.propagation import PropagationConfig, propagate_mixture, top_nodes
from scr.propagation import _top_nodes as module


def _graph(nodes, edges, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((nodes, 5)).astype(np.float32)
    return Graph.from_edges(
        generator.integers(0, nodes, (2, edges)), features=features, num_nodes=nodes
    )


def _dense_powers(graph, weights):
    """sum_k w_k A^k with A = D^-1/2 (W + I) D^-1/2, in dense float64."""
    nodes = graph.num_nodes
    adjacency = (graph.adjacency().toarray() > 0).astype(float) + np.eye(nodes)
    adjacency = np.minimum(adjacency, 1 + (graph.adjacency().diagonal() > 0) * np.eye(nodes))
    degrees = adjacency.sum(axis=1)
    adjacency = adjacency / np.sqrt(degrees[:, None] * degrees[None, :])
    powers = [np.linalg.matrix_power(adjacency, power) for power in range(len(weights))]
    return sum(weight * power for weight, power in zip(weights, powers, strict=True))


def _as_matrix(top, nodes):
    matrix = np.zeros((len(top.nodes), nodes))
    np.add.at(matrix, (np.arange(len(top.nodes))[:, None], top.nodes), top.weights)
    return matrix


CONFIG = PropagationConfig(hops=3, self_loops=True)
WEIGHTS = [0.4, 0.3, 0.2, 0.1]


def test_with_all_nodes_the_powers_are_exact():
    graph = _graph(40, 100)
    top = top_nodes(graph, CONFIG, WEIGHTS, 1_000)
    assert top.nodes.shape == (40, 40)
    np.testing.assert_allclose(_as_matrix(top, 40), _dense_powers(graph, WEIGHTS), atol=1e-6)


def test_with_few_nodes_the_largest_entries_are_kept():
    graph = _graph(40, 60)
    dense, top = _dense_powers(graph, WEIGHTS), top_nodes(graph, CONFIG, WEIGHTS, 10)
    for row, weights in zip(dense, top.weights, strict=True):
        np.testing.assert_allclose(np.sort(weights), np.sort(row)[-10:], atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 30), st.integers(0, 60), st.integers(1, 8), st.integers(0, 99))
def test_rows_never_have_more_than_they_should(nodes, edges, count, seed):
    graph = _graph(nodes, edges, seed)
    top = top_nodes(graph, CONFIG, WEIGHTS, count)
    found, dense = _as_matrix(top, nodes), _dense_powers(graph, WEIGHTS)
    assert top.nodes.shape == (nodes, min(count, nodes))
    assert (found <= dense + 1e-6).all()
    assert (found >= 0).all()


def test_rows_walked_a_few_at_a_time_are_the_same(monkeypatch):
    graph = _graph(50, 200)
    whole = top_nodes(graph, CONFIG, WEIGHTS, 6)
    monkeypatch.setattr(module, "MOST_ENTRIES", 64)
    parts = top_nodes(graph, CONFIG, WEIGHTS, 6)
    np.testing.assert_array_equal(whole.nodes, parts.nodes)
    np.testing.assert_array_equal(whole.weights, parts.weights)


@pytest.mark.parametrize("direction", ["both", "separate"])
@pytest.mark.parametrize("hops", [0, 2])
def test_mixtures_of_all_nodes_are_those_of_propagation(direction, hops):
    graph = _graph(30, 90, seed=4)
    config = PropagationConfig(hops=hops, norm="row", direction=direction)
    weights = np.linspace(1, 2, config.matrices)
    top = top_nodes(graph, config, weights, 30)
    expected = propagate_mixture(graph, weights, "row", False, direction)
    found = _as_matrix(top, 30) @ np.asarray(graph.features)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_does_not_fit_is_refused_before_it_begins():
    with pytest.raises(MemoryBudgetError, match=r"consistency\.top_nodes"):
        top_nodes(_graph(30, 60), CONFIG, WEIGHTS, 8, memory="1MiB")
