"""Rows that encoders read: against SciPy, and found again beside a store."""

import numpy as np
import pytest
import scipy.sparse as sp

from scr.features import FeatureConfig, fit_features
from scr.graph import open_store
from scr.propagation import cached_hops_path, propagate
from scr.training import graph_facts, prepare, resolve


def recipe(graph, encoder, **propagation):
    tables = {
        "data": {"scale": "none"},
        "propagation": {"hops": 2, "norm": "row", "self_loops": False, "row_scale": "none",
                        **propagation},
    }  # fmt: skip
    return resolve(graph_facts(graph), encoder=encoder, layers=[tables])


@pytest.fixture
def graph(random_graph):
    graph = random_graph(nodes=40, edges=120, num_features=6)
    return graph.with_split(np.arange(6), np.arange(6, 20), np.arange(20, 40))


def powers(graph):
    """X, AX, AAX with A = D^-1 A, by SciPy."""
    adjacency = graph.adjacency().astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    hops = [np.asarray(graph.features, np.float64)]
    for _ in range(2):
        hops.append(sp.diags_array(scale) @ adjacency @ hops[-1])
    return np.stack(hops, axis=1)


def test_sign_reads_every_hop(graph):
    np.testing.assert_allclose(
        prepare(graph, recipe(graph, "sign")).array, powers(graph), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("encoder", "weights"), [("mlp", [1, 0, 0]), ("sgc", [0, 0, 1]), ("ssgc", [1 / 3] * 3)]
)
def test_fixed_mixtures_are_taken_once_beforehand(graph, encoder, weights):
    expected = np.einsum("k,nkd->nd", weights, powers(graph))
    made = prepare(graph, recipe(graph, encoder)).array
    assert made.shape == (40, 1, 6)
    np.testing.assert_allclose(made[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_unit_rows_are_of_what_the_encoder_reads(graph):
    mixed = prepare(graph, recipe(graph, "ssgc", row_scale="unit")).array[:, 0]
    expected = powers(graph).mean(axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(mixed, expected, rtol=1e-4, atol=1e-6)
    apart = prepare(graph, recipe(graph, "sign", row_scale="unit")).array
    lengths = np.linalg.norm(apart, axis=2)
    np.testing.assert_allclose(lengths[lengths > 0.5], 1, rtol=1e-5)


def test_hops_beside_a_store_are_used(graph, tmp_path):
    graph.save(tmp_path / "store")
    stored = open_store(tmp_path / "store")
    settings = recipe(stored, "sign")
    before = prepare(stored, settings)
    path = cached_hops_path(stored, settings.propagation, before.features.steps)
    propagate(stored, 2, "row", features=np.asarray(graph.features), out=path)
    found = prepare(stored, settings)
    assert not found.array.flags.writeable  # a memory map
    np.testing.assert_array_equal(found.array, before.array)


def test_hops_of_another_preparation_are_not_used(graph, tmp_path):
    """Another run's means and deviations are other features, though both are `standard`."""
    graph.save(tmp_path / "store")
    stored = open_store(tmp_path / "store")
    settings = recipe(stored, "sign")
    own = fit_features(stored.features, FeatureConfig(scale="standard"))
    features = np.asarray(stored.features)
    other = fit_features(3 * features + 1, FeatureConfig(scale="standard"))
    path = cached_hops_path(stored, settings.propagation, own.identity)
    propagate(stored, 2, "row", features=own.transform(features), out=path)
    assert not prepare(stored, settings, fitted=own).array.flags.writeable
    np.testing.assert_array_equal(
        prepare(stored, settings, fitted=other).array[:, 0], other.transform(features)
    )
