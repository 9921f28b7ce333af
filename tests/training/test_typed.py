"""Graphs of several types on their way through training, prediction and comparison."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from tests.training.typed_graphs import make_typed_graph

from scr.classifier import NodeClassifier
from scr.errors import RunError
from scr.experiments import Runner, compare, plan
from scr.experiments._runner import _Worker
from scr.training import Recipe, Rows, chosen_subsets, fit, graph_facts, prepare, resolve
from scr.training.presets import GraphFacts

SHORT = {
    "encoder": {"hidden": 8},
    "training": {"epochs": 4, "evaluate_every": 2, "patience": 0},
    "consistency": {"warmup": 1},
    "propagation": {"subsets": 3},
}
MEANS = {"hops": 2, "norm": "row", "self_loops": False, "row_scale": "none"}
"""Hops that a few lines of NumPy can make again, whatever presets say."""


def _recipe(graph, name, regularizer="scr", /, **sections):
    layers = [SHORT, sections]
    return resolve(graph_facts(graph), encoder=name, regularizer=regularizer, layers=layers)


def _mean_by_hand(graph, relations, features):
    """One hop: the mean over all neighbors along some relations, both ways, in plain NumPy."""
    adjacency = graph.only(relations).adjacency().toarray().astype(np.float64)
    degrees = adjacency.sum(1, keepdims=True)
    return np.divide(adjacency, degrees, where=degrees > 0, out=np.zeros_like(adjacency)) @ features


def test_hops_lie_subset_after_subset_and_rows_are_target_nodes():
    graph = make_typed_graph()
    recipe = _recipe(graph, "nars-sign", propagation={"subsets": "single", **MEANS})
    prepared = prepare(graph, recipe)
    names = [(str(relation),) for relation in graph.relations]
    assert prepared.subsets == tuple(names)
    assert prepared.array.shape == (graph.num_targets, 1 + 3 * 2, 6)
    alone = prepare(graph, _recipe(graph, "sign", propagation={**MEANS, "hops": 0}))
    np.testing.assert_array_equal(prepared.array[:, 0], alone.array[:, 0])
    completed = _completed(graph, recipe)
    for place, subset in enumerate(names):
        first = _mean_by_hand(graph, subset, completed)
        second = _mean_by_hand(graph, subset, first)
        for hop, expected in enumerate((first, second)):
            found = prepared.array[:, 1 + 2 * place + hop]
            np.testing.assert_allclose(found, expected[: graph.num_targets], rtol=1e-4, atol=1e-5)


def _completed(graph, recipe):
    from scr.typed_features import complete_features

    return np.asarray(complete_features(graph, recipe.data).matrix, dtype=np.float64)


def test_encoders_without_relations_read_all_edges_alike():
    graph = make_typed_graph()
    recipe = _recipe(graph, "sign", propagation={**MEANS, "hops": 1})
    prepared = prepare(graph, recipe)
    assert prepared.subsets is None
    expected = _mean_by_hand(graph, graph.relations, _completed(graph, recipe))
    np.testing.assert_allclose(
        prepared.array[:, 1], expected[: graph.num_targets], rtol=1e-4, atol=1e-5
    )


def test_a_graph_of_one_relation_has_no_subsets(random_graph):
    graph = random_graph()
    over = prepare(graph, _recipe(graph, "nars-sign"))
    alone = prepare(graph, _recipe(graph, "sign"))
    assert over.subsets is None
    np.testing.assert_array_equal(over.array, alone.array)
    assert Rows(over.array, 3).shape.subsets == 1


@pytest.mark.parametrize("encoder", ["nars-sign", "nars-sagn", "nars-gamlp", "sign", "ssgc", "mlp"])
@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
def test_encoders_and_regularizers_train_on_it(encoder, regularizer):
    graph = make_typed_graph()
    recipe = _recipe(graph, encoder, regularizer, propagation={"label_hops": 2})
    fitted = fit(graph, recipe, seed=1)
    probabilities = fitted.probabilities()
    assert probabilities.shape == (graph.num_targets, 3)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(graph.num_targets))
    again = fit(graph, recipe, seed=1)
    assert torch.equal(probabilities, again.probabilities())


@pytest.mark.parametrize("method", ["rlu", "sle"])
def test_stages_work_and_a_stopped_run_ends_like_one_that_was_not(method, tmp_path):
    graph = make_typed_graph()
    stages = {"method": method, "count": 2, "threshold": 0.3}
    encoder = {"subset_sample": 2, "resample": 2}
    recipe = _recipe(
        graph, "nars-sign", "scr-m", stages=stages, encoder=encoder,
        propagation={"subsets": 5, "label_hops": 1}, training={"average_decay": 0.5},
    )  # fmt: skip
    whole = fit(graph, recipe, seed=3)
    for stop in (3, 6):
        checkpoint = tmp_path / f"{method}-{stop}.safetensors"
        epochs = []
        fit(
            graph, recipe, seed=3, checkpoint=checkpoint, on_epoch=epochs.append,
            should_stop=lambda stop=stop, epochs=epochs: len(epochs) >= stop,
        )  # fmt: skip
        assert len(epochs) == stop
        resumed = fit(graph, recipe, seed=3, checkpoint=checkpoint)
        assert torch.equal(resumed.probabilities(), whole.probabilities())


def test_a_saved_run_predicts_with_the_subsets_that_it_was_trained_with(tmp_path):
    """Not with those that its file of subsets names today."""
    graph = make_typed_graph()
    file = tmp_path / "subsets.txt"
    file.write_text("writes\ncites, has_topic\n")
    graph.save(tmp_path / "store")
    classifier = NodeClassifier(
        "nars-gamlp", recipe=SHORT, propagation={"subsets": str(file)}, seed=2
    ).fit(graph)
    classifier.save(tmp_path / "run", source=str(tmp_path / "store"))
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["subsets"] == [
        ["author:writes:paper"], ["paper:cites:paper", "paper:has_topic:topic"],
    ]  # fmt: skip
    assert run["graph"]["target"] == "paper"
    file.write_text("has_topic\nwrites\n")
    loaded = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
    np.testing.assert_array_equal(loaded.predict_proba([4, 2]), classifier.predict_proba([4, 2]))
    with pytest.raises(RunError, match="another recipe, seed or graph"):
        _resume_with_other_subsets(graph, tmp_path, file)


def _resume_with_other_subsets(graph, folder, file):
    recipe = _recipe(graph, "nars-sign", propagation={"subsets": str(file)})
    checkpoint = folder / "checkpoint.safetensors"
    told = []
    fit(
        graph, recipe, checkpoint=checkpoint, on_epoch=told.append,
        should_stop=lambda: len(told) > 1,
    )  # fmt: skip
    file.write_text("cites\nwrites\n")
    fit(graph, recipe, checkpoint=checkpoint)


def test_another_graph_is_predicted_with_the_same_subsets():
    graph, other = make_typed_graph(), make_typed_graph(papers=45, seed=9)
    classifier = NodeClassifier("nars-sign", recipe=SHORT, propagation={"subsets": 3}).fit(graph)
    assert classifier.predict_proba(graph=other).shape == (45, 3)
    np.testing.assert_array_equal(classifier.predict_proba(graph=graph), classifier.predict_proba())


def test_the_number_of_other_nodes_does_not_count_as_unlabeled_ones():
    graph = make_typed_graph()
    fitted = fit(graph, _recipe(graph, "nars-sign", consistency={"threshold": 0.0}))
    assert fitted.outcome.history[-1]["confident_nodes"] == graph.num_targets - len(graph.train)


def test_a_comparison_shares_hops_of_encoders_that_read_the_same(monkeypatch):
    made = []

    def count(graph, recipe):
        made.append(recipe.encoder)
        return prepare(graph, recipe)

    monkeypatch.setattr("scr.experiments._runner.prepare", count)
    graph = make_typed_graph()
    tasks = plan(["nars-sign", "nars-sagn", "sign", "sagn", "ssgc"], ["none", "scr"], [0],
                 layers=[SHORT])  # fmt: skip
    result = compare(Runner(graph), tasks)
    assert made == ["nars-sign", "sign", "ssgc"]
    assert len(result["runs"]) == 10
    assert {run["preset"] for run in result["runs"]} == {"typed-few-labels"}


def test_keys_of_runs_name_the_subsets(tmp_path):
    graph = make_typed_graph()
    file = tmp_path / "subsets.txt"
    layers = [{"propagation": {"subsets": str(file)}}]
    keys = []
    for text in ("writes\ncites\n", "writes\nhas_topic\n"):
        file.write_text(text)
        [task] = plan(["nars-sign"], ["scr"], [0], layers=layers)
        keys.append(task.key(graph))
    assert keys[0] != keys[1]


def test_typed_graphs_have_a_preset_of_their_own(random_graph):
    graph = make_typed_graph()
    recipe = resolve(graph_facts(graph), encoder="nars-sign")
    assert recipe.preset == "typed-few-labels"
    assert recipe.reason.startswith("types of nodes: 3, relations: 3, ")
    assert (recipe.propagation.norm, recipe.propagation.hops) == ("row", 2)
    plain = random_graph()
    assert resolve(graph_facts(plain), encoder="nars-sign").preset == "few-labels"
    one_type = dataclasses.replace(graph_facts(plain), relations=2)
    assert resolve(one_type).preset == "typed-few-labels"


def test_an_encoder_over_subsets_takes_what_presets_say_of_the_encoder():
    facts = GraphFacts(nodes=100, train=20, classes=2)
    over, alone = (resolve(facts, encoder=name) for name in ("nars-sagn", "sagn"))
    assert alone.encoder_settings.items() <= over.encoder_settings.items()


def test_a_recorded_recipe_is_read_back():
    graph = make_typed_graph()
    recipe = _recipe(graph, "nars-gamlp-jk", encoder={"mixing": "xavier", "subset_sample": 2})
    again = Recipe.from_tables(json.loads(json.dumps(recipe.tables())))
    assert again.tables() == recipe.tables()
    assert chosen_subsets(graph, again) == chosen_subsets(graph, recipe)


def test_one_worker_makes_hops_once_for_all_seeds(monkeypatch):
    graph = make_typed_graph()
    worker = _Worker(Runner(graph))
    recipe = _recipe(graph, "nars-sign")
    assert worker._prepared(graph, recipe) is worker._prepared(graph, recipe)


def test_whoever_prepares_is_told_of_embeddings_in_the_making():
    pytest.importorskip("torch_geometric")
    graph = make_typed_graph()
    data = {"missing": "distmult", "embedding_epochs": 2}
    told = []
    recipe = _recipe(graph, "nars-sign", data=data, propagation={"hops": 1})
    prepare(graph, recipe, on_progress=lambda *step: told.append(step))
    assert told
    assert all(0 <= done <= total for _, done, total in told)
