from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import (
    graphs,
    make_graph,
    random_matrix,
    reference_hops,
    reference_operator,
)

from scr.errors import ConfigError, GraphError, MemoryBudgetError, StoreError
from scr.graph import Graph
from scr.propagation import Hops, propagate, propagate_mixture

WIDTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 100, 127, 128, 129, 130, 145, 260)


def small(width: int = 4, *, nodes: int = 30, seed: int = 0, directed: bool = False) -> Graph:
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, nodes, 120, directed=directed, weighted=True)
    graph = make_graph(matrix, directed=directed)
    features = rng.normal(size=(nodes, width)).astype(np.float32)
    return Graph(**{**graph.__dict__, "features": features})


@settings(max_examples=60, deadline=None)
@given(
    drawn=graphs(),
    norm=st.sampled_from(["row", "sym", "col"]),
    self_loops=st.booleans(),
    direction=st.sampled_from(["both", "out", "in"]),
    width=st.sampled_from(WIDTHS),
    dtype=st.sampled_from(["float32", "float16"]),
    seed=st.integers(0, 1000),
)
def test_hops_are_the_products_of_scipy(drawn, norm, self_loops, direction, width, dtype, seed):
    graph, matrix = drawn
    features = np.random.default_rng(seed).normal(size=(graph.num_nodes, width))
    made = propagate(
        graph, 2, norm, self_loops, direction, dtype, features=features.astype(np.float32)
    )
    operator = reference_operator(matrix, norm, self_loops, direction)
    expected = reference_hops(operator, features.astype(np.float32), 2)
    assert made.shape == expected.shape
    # float16 rounds each stored value by 2^-11 of it, and each value is a sum of such.
    size = reference_hops(operator, np.abs(features), 2)
    bound = 1e-5 if dtype == "float32" else 4 * 2**-11
    assert np.all(np.abs(np.asarray(made) - expected) <= bound * (size + 1e-3))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_is_computed_to_its_last_column(width, dtype):
    graph = small(width)
    made = propagate(graph, 1, "sym", dtype=dtype)
    operator = reference_operator(graph.adjacency(), "sym", False)
    np.testing.assert_allclose(
        made.hop(1), operator @ graph.features, atol=1e-5 if dtype == "float32" else 4e-3
    )


def test_propagation_is_linear():
    graph = small(5)
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, graph.num_nodes, 5)).astype(np.float32)
    together = np.asarray(propagate(graph, 3, features=2 * first - second))
    apart = 2 * np.asarray(propagate(graph, 3, features=first)) - np.asarray(
        propagate(graph, 3, features=second)
    )
    np.testing.assert_allclose(together, apart, atol=1e-5)


@pytest.mark.parametrize("edges", [np.zeros((2, 0), dtype=np.int64), np.array([[0], [1]])])
def test_isolated_nodes_get_rows_of_zeros(edges):
    graph = Graph.from_edges(edges, num_nodes=4, features=np.ones((4, 3), dtype=np.float32))
    hop = propagate(graph, 1).hop(1)
    isolated = np.setdiff1d(np.arange(4), edges)
    assert not hop[isolated].any()
    assert propagate(graph, 1, self_loops=True).hop(1)[isolated] == pytest.approx(1)


def test_a_graph_without_nodes_or_columns_has_empty_hops():
    graph = make_graph(sp.csr_array((0, 0)), directed=False)
    assert propagate(graph, 2, features=np.zeros((0, 3), np.float32)).shape == (0, 3, 3)
    assert propagate(small(), 2, features=np.zeros((30, 0), np.float32)).shape == (30, 3, 0)


def test_zero_hops_are_the_features():
    graph = small()
    assert np.array_equal(np.asarray(propagate(graph, 0))[:, 0], graph.features)


def test_separate_directions_follow_the_features_one_after_the_other():
    graph = small(directed=True)
    made = np.asarray(propagate(graph, 2, "row", direction="separate"))
    along = np.asarray(propagate(graph, 2, "row", direction="out"))
    against = np.asarray(propagate(graph, 2, "row", direction="in"))
    assert np.array_equal(made, np.concatenate([along, against[:, 1:]], axis=1))


@pytest.mark.parametrize("kind", [np.float64, np.int8])
def test_other_number_types_and_orders_give_the_same_hops(kind):
    graph = small()
    features = np.random.default_rng(2).integers(-5, 5, (30, 6))
    expected = np.asarray(propagate(graph, 2, features=features.astype(np.float32)))
    for given_features in (
        features.astype(kind),
        np.asfortranarray(features.astype(np.float32)),
        features.astype(np.float32)[::-1].copy()[::-1],
        sp.csr_array(features.astype(np.float32)),
        sp.coo_array(features.astype(np.float32)),
    ):
        assert np.array_equal(np.asarray(propagate(graph, 2, features=given_features)), expected)


@pytest.mark.parametrize("direction", ["both", "separate"])
@pytest.mark.parametrize("hop_scale", ["none", "unit"])
@pytest.mark.parametrize("norm", ["row", "sym"])
def test_a_mixture_is_the_weighted_sum_of_the_hops(norm, hop_scale, direction):
    graph = small(directed=True)
    hops = np.asarray(propagate(graph, 2, norm, direction=direction, hop_scale=hop_scale))
    weights = np.arange(1, hops.shape[1] + 1) / 10
    mixed = propagate_mixture(graph, weights, norm, direction=direction, hop_scale=hop_scale)
    np.testing.assert_allclose(mixed, np.einsum("k,nkf->nf", weights, hops), atol=1e-6)


def test_unit_scale_gives_every_row_of_every_hop_length_one():
    graph = small()
    plain = np.asarray(propagate(graph, 2))
    lengths = np.linalg.norm(plain, axis=2, keepdims=True)
    expected = np.divide(plain, lengths, out=np.zeros_like(plain), where=lengths > 0)
    np.testing.assert_allclose(propagate(graph, 2, hop_scale="unit"), expected, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("norm", ["row", "sym"])
@pytest.mark.parametrize("direction", ["both", "separate"])
def test_hops_on_disk_equal_those_in_memory_for_any_budget(tmp_path, norm, direction, sparse):
    graph = small(40, directed=True)
    features = sp.csr_array(graph.features * (graph.features > 0)) if sparse else graph.features
    expected = propagate(graph, 2, norm, direction=direction, features=features)
    for place, memory in enumerate(["8GiB", _smallest(graph, norm, direction, tmp_path)]):
        path = tmp_path / str(place)
        made = propagate(
            graph, 2, norm, direction=direction, memory=memory, out=path, features=features
        )
        assert made.path == path
        assert np.array_equal(np.asarray(made), np.asarray(expected))
        assert made.settings["norm"] == norm


def _smallest(graph: Graph, norm: str, direction: str, tmp_path) -> str:
    """The budget that the error names."""
    with pytest.raises(MemoryBudgetError, match="smallest that works is") as caught:
        propagate(graph, 2, norm, direction=direction, memory=1, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    return str(caught.value.hint).split("`")[1]


def test_a_tight_budget_in_memory_works_in_blocks_of_columns():
    graph = small(50)
    with pytest.raises(MemoryBudgetError) as caught:
        propagate(graph, 2, memory=10)
    smallest = str(caught.value.hint).split("`")[1]
    made = propagate(graph, 2, memory=smallest)
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 2)))


def test_hops_survive_saving_and_opening(tmp_path):
    made = propagate(small(), 2, dtype="float16")
    opened = Hops.open(made.save(tmp_path / "hops"))
    assert np.array_equal(np.asarray(opened), np.asarray(made))
    assert (opened.nodes, opened.count, opened.features, len(opened)) == (30, 3, 4, 30)
    assert opened.settings == made.settings
    rows = np.array([3, 1])
    assert np.array_equal(opened.rows(rows), np.asarray(made)[rows])
    assert np.array_equal(opened.hop(2), np.asarray(made)[:, 2])
    with pytest.raises(StoreError, match="exists already"):
        made.save(tmp_path / "hops")


def test_a_stored_graph_propagates_from_its_memory_maps(tmp_path):
    from scr.sources import load_graph

    graph = small()
    stored = load_graph(str(graph.save(tmp_path / "store")))
    assert np.array_equal(np.asarray(propagate(stored, 2)), np.asarray(propagate(graph, 2)))


def test_float16_refuses_features_that_it_cannot_hold():
    graph = small()
    features = np.full((30, 2), 7e4, dtype=np.float32)
    for given_features in (features, features.astype(np.float64), sp.csr_array(features)):
        with pytest.raises(ConfigError, match="65504"):
            propagate(graph, 1, dtype="float16", features=given_features)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_float16_refuses_hops_that_it_cannot_hold():
    # The middle of a star with 100 leaves gets 100 / sqrt(100) = 10 times a leaf's feature.
    star = Graph.from_edges(np.array([[0] * 100, range(1, 101)]))
    with pytest.raises(ConfigError, match="65504"):
        propagate(star, 1, dtype="float16", features=np.full((101, 3), 1e4, np.float32))
    made = propagate(star, 1, dtype="float16", features=np.full((101, 3), 6e3, np.float32))
    assert made.hop(1)[0] == pytest.approx(6e4, rel=1e-3)


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_float16_hops_do_not_depend_on_the_unit_of_the_weights(weight):
    pairs = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    features = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    plain = Graph.from_edges(pairs, features=features)
    heavy = Graph.from_edges(pairs, features=features, weights=np.full(4, weight, np.float32))
    for norm in ("sym", "col"):
        np.testing.assert_allclose(
            propagate(heavy, 2, norm, dtype="float16"),
            propagate(plain, 2, norm, dtype="float16"),
            atol=2e-3,
        )


def test_bad_requests_are_refused_with_a_reason():
    graph = small()
    with pytest.raises(GraphError, match="no features"):
        propagate(Graph(**{**graph.__dict__, "features": None}))
    with pytest.raises(GraphError, match="one row per node"):
        propagate(graph, features=np.zeros((3, 3), np.float32))
    with pytest.raises(ConfigError, match="norm"):
        propagate(graph, norm="column")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="hops"):
        propagate(graph, hops=-1)
    with pytest.raises(ConfigError, match="memory"):
        propagate(graph, memory="much")
    with pytest.raises(ConfigError, match="weights"):
        propagate_mixture(graph, [])
    negative = Graph(**{**graph.__dict__, "weights": -np.asarray(graph.weights)})
    with pytest.raises(GraphError, match="negative"):
        propagate(negative)


@pytest.mark.parametrize("columns", [1, 17, 128, 130, 143, 144, 258, 300])
def test_rows_are_scaled_once_whatever_the_width(columns, random_graph):
    graph = random_graph()
    features = np.random.default_rng(0).normal(size=(graph.num_nodes, columns)).astype(np.float32)
    walked = np.asarray(propagate(graph, features=features, hops=2, rows=np.arange(5)))
    apart = [
        np.asarray(propagate(graph, features=features[:, [column]], hops=2, rows=np.arange(5)))
        for column in range(columns)
    ]
    np.testing.assert_allclose(walked, np.concatenate(apart, axis=2), rtol=1e-5, atol=1e-6)
