"""Views of SCR with nodes dropped, made of the nodes that count most in each row."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.consistency import consistency_config, noisy_views
from scr.errors import ConfigError
from scr.propagation import propagate_mixture, top_nodes
from scr.training import Recipe, fit, graph_facts, prepare, resolve
from scr.training._dropped_nodes import TopNodeDropper
from scr.training._prepare import node_dropper

SETTINGS = {
    "propagation": {"hops": 2, "self_loops": True},
    "consistency": {"noise": "dropped-nodes", "drop_node": 0.25, "top_nodes": 1_000,
                    "trust": "full", "decay": 0.5},
    "training": {"epochs": 4, "evaluate_every": 1},
}  # fmt: skip


def _recipe(graph, encoder="ssgc", regularizer="scr", **more):
    layers, facts = [SETTINGS, more], graph_facts(graph)
    return resolve(facts, encoder=encoder, regularizer=regularizer, layers=layers, preset="none")


def _rows(graph, **more):
    recipe = _recipe(graph, **more)
    prepared = prepare(graph, recipe)
    dropper = node_dropper(graph, recipe, prepared)
    assert isinstance(dropper, TopNodeDropper)
    rows = prepared.rows(graph.num_classes, None, torch.device("cpu"))
    return dataclasses.replace(rows, noise=dropper), recipe


@pytest.mark.parametrize("row_scale", ["none", "unit"])
def test_without_dropping_a_view_of_all_nodes_is_the_clean_row(row_scale, random_graph):
    graph = random_graph()
    rows, _ = _rows(
        graph, consistency={"drop_node": 0.0},
        propagation={"row_scale": row_scale, "hop_scale": "none"},
    )  # fmt: skip
    batch = rows.batch(torch.tensor([5, 0, 17]))
    np.testing.assert_allclose(batch.noisy_view().hops.numpy(), batch.hops.numpy(), atol=1e-6)


def test_a_view_is_the_mixture_of_features_that_a_mask_left(random_graph):
    graph = random_graph()
    rows, _ = _rows(graph)
    torch.manual_seed(1)
    keep = (torch.rand(graph.num_nodes) >= 0.25).numpy()
    torch.manual_seed(1)
    view = rows.batch(torch.arange(graph.num_nodes)).noisy_view()
    dropped = np.asarray(graph.features) * keep[:, None] / 0.75
    expected = propagate_mixture(graph, [1 / 3] * 3, "sym", True, features=dropped)
    np.testing.assert_allclose(view.hops[:, 0].numpy(), expected, atol=1e-5)


def test_views_are_on_average_the_row_of_the_top_nodes(random_graph):
    graph = random_graph()
    rows, recipe = _rows(graph, consistency={"top_nodes": 3})
    top = top_nodes(graph, recipe.propagation, [1 / 3] * 3, 3)
    features = np.asarray(graph.features, dtype=float)
    expected = np.einsum("rk,rkc->rc", top.weights, features[top.nodes])
    batch = rows.batch(torch.arange(graph.num_nodes))
    torch.manual_seed(0)
    draws = torch.stack([batch.noisy_view().hops[:, 0] for _ in range(4_000)]).double().numpy()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 5 * error + 1e-6).all()
    clean = batch.hops[:, 0].numpy()
    assert np.abs(clean - expected).max() > 0.01  # truncation is not nothing here


def test_the_seed_decides_which_nodes_are_dropped(random_graph):
    batch = _rows(random_graph())[0].batch(torch.arange(10))
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(noisy_views(lambda seen: seen.hops[:, 0], batch, 2))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0][0], drawn[0][1])


@pytest.mark.parametrize("regularizer", ["scr", "scr-m"])
def test_the_term_acts_and_its_noise_makes_another_model(regularizer, random_graph):
    graph = random_graph()
    noisy = fit(graph, _recipe(graph, regularizer=regularizer), seed=1)
    assert noisy.term.acted
    assert all(record["consistency_loss"] > 0 for record in noisy.outcome.history)
    plain_recipe = _recipe(graph, regularizer=regularizer, consistency={"noise": "dropout"})
    plain = fit(graph, plain_recipe, seed=1)
    assert plain.rows.noise is None
    assert not torch.equal(noisy.probabilities(), plain.probabilities())
    again = fit(graph, _recipe(graph, regularizer=regularizer), seed=1)
    assert torch.equal(noisy.probabilities(), again.probabilities())


def test_without_dropout_the_views_still_differ(random_graph):
    graph = random_graph()
    settings = {"propagation": {"hops": 2}, "consistency": SETTINGS["consistency"]}
    silent = {"encoder": {"dropout": 0.0, "input_dropout": 0.0}}
    layers, facts = [settings, silent, {"training": {"epochs": 4}}], graph_facts(graph)
    recipe = resolve(facts, encoder="ssgc", regularizer="scr", layers=layers, preset="none")
    fitted = fit(graph, recipe)
    assert fitted.outcome.history[-1]["consistency_loss"] > 1e-6


def test_a_stopped_run_ends_in_the_same_weights(random_graph, tmp_path):
    graph, checkpoint, seen = random_graph(), tmp_path / "checkpoint", []
    recipe = _recipe(graph, regularizer="scr-m")
    stopped = fit(
        graph, recipe, checkpoint=checkpoint, on_epoch=seen.append,
        should_stop=lambda: bool(seen) and seen[-1].epoch == 2,
    )  # fmt: skip
    assert stopped.outcome.stopped == "interrupted"
    torch.rand(3)
    whole, pieces = fit(graph, recipe), fit(graph, recipe, checkpoint=checkpoint)
    assert torch.equal(whole.probabilities(), pieces.probabilities())


def test_the_baseline_of_a_comparison_has_no_nodes_dropped(random_graph, monkeypatch):
    from scr.training import _fitting

    graph, noises = random_graph(), []
    trained = _fitting.train_in_stages

    def watched(stage, stages, rows_with, *rest):
        noises.append(rows_with(None).noise)
        return trained(stage, stages, rows_with, *rest)

    monkeypatch.setattr(_fitting, "train_in_stages", watched)
    fit(graph, _recipe(graph, consistency={"trust": "compared", "weight": 1.0}))
    if len(noises) == 1:
        pytest.skip("nothing was compared")
    assert isinstance(noises[0], TopNodeDropper)
    assert noises[1] is None


@pytest.mark.parametrize("encoder", ["sign", "gamlp", "gcn", "nars-sign"])
def test_encoders_without_a_fixed_mixture_are_refused_in_a_sentence(encoder, random_graph):
    sentence = rf"'{encoder}'.*`consistency.noise = dropped-nodes`, which needs a fixed mixture"
    with pytest.raises(ConfigError, match=sentence):
        _recipe(random_graph(), encoder=encoder)


def test_scaled_hops_are_refused_before_anything_is_trained(random_graph):
    with pytest.raises(ConfigError, match=r"propagation\.hop_scale"):
        _recipe(random_graph(), propagation={"hop_scale": "unit"})


def test_settings_of_dropped_nodes_are_recorded_only_where_they_are_read(random_graph):
    tables = _recipe(random_graph()).tables()
    assert tables["consistency"]["drop_node"] == 0.25
    assert Recipe.from_tables(tables).tables() == tables
    plain = consistency_config("scr", {})
    for setting in ({"drop_node": 0.2}, {"top_nodes": 8}):
        assert consistency_config("scr", setting) == plain
        assert consistency_config("scr", {"noise": "dropped-nodes", **setting}) != plain
    assert consistency_config("pi", {"noise": "dropped-nodes"}).noise == "dropout"
    with pytest.raises(ConfigError, match=r"consistency\.noise"):
        consistency_config("scr", {"noise": "snow"})


def test_it_is_chosen_in_the_classifier_and_a_saved_run_predicts_the_same(random_graph, tmp_path):
    graph = random_graph()
    settings = {"noise": "dropped-nodes", "top_nodes": 4}
    classifier = NodeClassifier("ssgc", "scr", consistency=settings, epochs=2).fit(graph)
    assert classifier.recipe_.consistency.top_nodes == 4
    classifier.save(tmp_path / "run")
    again = NodeClassifier.load(tmp_path / "run", graph=graph)
    np.testing.assert_allclose(again.predict_proba(), classifier.predict_proba(), atol=1e-6)
