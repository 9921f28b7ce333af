"""Random propagation against dense NumPy, and DropNode by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import ConfigError, MemoryBudgetError
from scr.graph import Graph
from scr.propagation import PropagationConfig, RandomPropagation, drop_node, propagate_mixture
from scr.propagation._random_propagation import TILE


def _graph(nodes, edges, columns, seed=0, **settings):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((nodes, columns)).astype(np.float32)
    pairs = generator.integers(0, nodes, (2, edges))
    return Graph.from_edges(pairs, features=features, num_nodes=nodes, **settings)


def _dense_average(graph, hops, scale):
    """1/(K+1) sum_k A^k diag(z) X with A = D^-1/2 (W + I) D^-1/2, all in dense float64."""
    nodes = graph.num_nodes
    adjacency = np.zeros((nodes, nodes))
    for node in range(nodes):
        for edge in range(graph.indptr[node], graph.indptr[node + 1]):
            adjacency[node, graph.indices[edge]] = 1
    adjacency += np.eye(nodes)
    degrees = adjacency.sum(axis=1)
    adjacency = adjacency / np.sqrt(degrees[:, None] * degrees[None, :])
    dropped = scale[:, None].astype(float) * np.asarray(graph.features, dtype=float)
    total, power = dropped.copy(), dropped
    for _ in range(hops):
        power = adjacency @ power
        total += power
    return total / (hops + 1)


@pytest.mark.parametrize("hops", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("columns", [3, TILE, 2 * TILE + 5])
def test_the_average_of_hops_is_the_dense_one(hops, columns):
    graph = _graph(40, 90, columns)
    scale = drop_node(np.random.default_rng(1).random(40) < 0.5, 0.5)
    config = PropagationConfig(hops=hops, self_loops=True)
    propagation = RandomPropagation(graph, config, np.full(hops + 1, 1 / (hops + 1)))
    rows = np.random.default_rng(2).permutation(40)
    found = propagation.mixture(scale, rows)
    np.testing.assert_allclose(found, _dense_average(graph, hops, scale)[rows], atol=2e-6)


@given(
    nodes=st.integers(1, 30),
    edges=st.integers(0, 60),
    hops=st.integers(0, 4),
    norm=st.sampled_from(["sym", "row", "col"]),
    direction=st.sampled_from(["both", "out", "in", "separate"]),
    self_loops=st.booleans(),
    seed=st.integers(0, 5),
)
def test_any_mixture_is_that_of_the_dropped_features(
    nodes, edges, hops, norm, direction, self_loops, seed
):
    graph = _graph(nodes, edges, 5, seed, undirected=False)
    config = PropagationConfig(hops=hops, norm=norm, self_loops=self_loops, direction=direction)
    generator = np.random.default_rng(seed)
    weights = generator.standard_normal(config.matrices).astype(np.float32)
    scale = drop_node(generator.random(nodes) < 0.7, 0.3)
    rows = generator.integers(0, nodes, 7)  # some more than once
    found = RandomPropagation(graph, config, weights).mixture(scale, rows)
    dropped = np.asarray(graph.features) * scale[:, None]
    expected = propagate_mixture(graph, weights, norm, self_loops, direction, features=dropped)
    np.testing.assert_allclose(found, expected[rows], rtol=1e-4, atol=1e-5)


def test_the_result_does_not_depend_on_threads_or_on_calls_before():
    graph = _graph(50, 120, 3 * TILE)
    config = PropagationConfig(hops=3, self_loops=True, row_scale="unit")
    propagation = RandomPropagation(graph, config, [0.4, 0.3, 0.2, 0.1])
    rows, all_kept = np.arange(50), np.ones(50, np.float32)
    first = propagation.mixture(all_kept, rows, threads=1)
    propagation.mixture(np.zeros(50, np.float32), rows)
    assert (propagation.mixture(all_kept, rows, threads=3) == first).all()
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)


def test_dropped_nodes_have_no_features_and_kept_ones_make_up_for_them():
    keep = np.array([True, False, True, True])
    np.testing.assert_allclose(drop_node(keep, 0.25), [4 / 3, 0, 4 / 3, 4 / 3], rtol=1e-6)
    assert drop_node(keep, 0.25).dtype == np.float32
    assert (drop_node(np.ones(3, bool), 0.0) == 1).all()


def test_drop_node_is_unbiased():
    """All 8 masks of 3 nodes, each times its chance, add up to the mixture without noise."""
    graph, chance = _graph(3, 4, 2), 0.3
    config = PropagationConfig(hops=2, self_loops=True)
    propagation, rows = RandomPropagation(graph, config, [1 / 3] * 3), np.arange(3)
    mean = np.zeros((3, 2))
    for mask in np.ndindex(2, 2, 2):
        keep = np.array(mask, dtype=bool)
        likely = (1 - chance) ** keep.sum() * chance ** (~keep).sum()
        mean += likely * propagation.mixture(drop_node(keep, chance), rows)
    expected = propagation.mixture(np.ones(3, np.float32), rows)
    np.testing.assert_allclose(mean, expected, atol=1e-6)


def test_scaled_hops_are_refused():
    config = PropagationConfig(hops=2, hop_scale="unit")
    with pytest.raises(ConfigError, match=r"propagation\.hop_scale"):
        RandomPropagation(_graph(5, 5, 2), config, [1, 1, 1])


def test_what_does_not_fit_is_refused_with_a_way_out():
    config = PropagationConfig(hops=2)
    with pytest.raises(MemoryBudgetError, match="Random propagation of 500 nodes x 64 columns"):
        RandomPropagation(_graph(500, 50, 64), config, [1, 1, 1], memory=100_000)
