"""Rows with noise on the graph: clean where they are read, propagated anew for every view."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.consistency import noisy_views
from scr.encoders import HopBatch
from scr.errors import ConfigError
from scr.propagation import propagate_mixture
from scr.training import Recipe, fit, graph_facts, prepare, resolve
from scr.training._prepare import NodeDropper, node_dropper

SETTINGS = {
    "propagation": {"hops": 2, "self_loops": True},
    "consistency": {"drop_node": 0.25, "trust": "full"},
    "training": {"epochs": 3, "evaluate_every": 1},
}


def _recipe(graph, encoder="ssgc", regularizer="grand", **more):
    layers = [SETTINGS, more]
    facts = graph_facts(graph)
    return resolve(facts, encoder=encoder, regularizer=regularizer, layers=layers, preset="none")


def _rows(graph, **more):
    recipe = _recipe(graph, **more)
    prepared = prepare(graph, recipe)
    dropper = node_dropper(graph, recipe, prepared)
    assert isinstance(dropper, NodeDropper)
    rows = prepared.rows(graph.num_classes, None, torch.device("cpu"))
    return dataclasses.replace(rows, noise=dropper)


def test_a_batch_is_clean_and_its_views_are_not(random_graph):
    graph = random_graph()
    rows, index = _rows(graph), torch.tensor([5, 0, 5, 17])
    batch = rows.batch(index)
    clean = propagate_mixture(graph, [1 / 3] * 3, "sym", True)
    np.testing.assert_allclose(batch.hops[:, 0].numpy(), clean[index.numpy()], atol=1e-5)
    one, other = batch.noisy_view(), batch.noisy_view()
    assert type(one) is HopBatch
    assert one.hops.shape == batch.hops.shape
    assert not torch.equal(one.hops, other.hops)
    assert torch.equal(one.hops[0], one.hops[2])  # one mask for all rows of a view


def test_the_seed_decides_which_nodes_are_dropped(random_graph):
    batch = _rows(random_graph()).batch(torch.arange(10))
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(noisy_views(lambda seen: seen.hops[:, 0], batch, 2))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_view_is_the_mixture_of_features_that_a_mask_left(random_graph):
    graph = random_graph()
    rows = _rows(graph)
    torch.manual_seed(1)
    keep = (torch.rand(graph.num_nodes) >= 0.25).numpy()
    torch.manual_seed(1)
    view = rows.batch(torch.arange(graph.num_nodes)).noisy_view()
    dropped = np.asarray(graph.features) * keep[:, None] / 0.75
    expected = propagate_mixture(graph, [1 / 3] * 3, "sym", True, features=dropped)
    np.testing.assert_allclose(view.hops[:, 0].numpy(), expected, atol=1e-5)


def test_without_the_regularizer_nothing_is_dropped(random_graph):
    graph = random_graph()
    for name in ("none", "scr"):
        recipe = _recipe(graph, regularizer=name)
        assert node_dropper(graph, recipe, prepare(graph, recipe)) is None
        assert fit(graph, recipe).rows.noise is None


def test_predictions_do_not_depend_on_chance(random_graph):
    graph = random_graph()
    fitted = fit(graph, _recipe(graph))
    assert isinstance(fitted.rows.noise, NodeDropper)
    assert torch.equal(fitted.probabilities(), fitted.probabilities())


def test_a_run_that_was_saved_predicts_the_same(random_graph, tmp_path):
    graph = random_graph()
    classifier = NodeClassifier("ssgc", "grand", epochs=2).fit(graph)
    classifier.save(tmp_path / "run")
    again = NodeClassifier.load(tmp_path / "run", graph=graph)
    np.testing.assert_allclose(again.predict_proba(), classifier.predict_proba(), atol=1e-6)


@pytest.mark.parametrize("encoder", ["sign", "gamlp", "gcn", "nars-sign"])
def test_encoders_without_a_fixed_mixture_are_refused_in_a_sentence(encoder, random_graph):
    with pytest.raises(ConfigError, match=rf"'{encoder}'.*needs a fixed mixture of hops"):
        _recipe(random_graph(), encoder=encoder)


def test_scaled_hops_are_refused_before_anything_is_trained(random_graph):
    with pytest.raises(ConfigError, match=r"propagation\.hop_scale"):
        _recipe(random_graph(), propagation={"hop_scale": "unit"})


def test_the_chance_is_recorded(random_graph):
    graph = random_graph()
    usual = _recipe(graph, consistency={"drop_node": 0.5}).tables()
    assert usual["consistency"]["drop_node"] == 0.5
    other = _recipe(graph).tables()
    assert other["consistency"]["drop_node"] == 0.25
    assert Recipe.from_tables(other).consistency.drop_node == 0.25
    with pytest.raises(ConfigError, match=r"consistency\.drop_node"):
        _recipe(graph, consistency={"drop_node": 1.0})
