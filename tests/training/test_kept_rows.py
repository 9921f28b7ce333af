"""Training on the hops of some nodes is training on those nodes, in memory or from disk."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.cli._hints import with_command
from scr.errors import GraphError, MemoryBudgetError, RunError
from scr.propagation import Hops, label_hops
from scr.sources import load_graph
from scr.sources._digits import digits
from scr.training import _fitting as fitting
from scr.training import _prepare as prepare_module
from scr.training import fit, graph_facts, prepare, resolve

SETTINGS = {
    "training": {"epochs": 4, "evaluate_every": 2, "batch_size": 30, "select": "last",
                 "learning_rate": 0.02},
    "consistency": {"threshold": 0.12, "refresh": 2, "warmup": 1, "trust": "measured"},
    "encoder": {"hidden": 16},
}  # fmt: skip
LABELS = {"propagation": {"hops": 2, "label_hops": 2, "label_guard": "folds"}}
STAGES = {**LABELS, "stages": {"method": "rlu", "count": 2, "threshold": 0.12}}


@pytest.fixture(autouse=True)
def _rows_of_label_hops(monkeypatch):
    """Label hops of some rows are those rows of the label hops of all."""

    def of_rows(*arguments, rows=None, **settings):
        made = label_hops(*arguments, **settings)
        return made if rows is None else made[rows]

    monkeypatch.setattr(prepare_module, "label_hops", of_rows)


def half_of_test(graph):
    return np.sort(np.concatenate([graph.train, graph.valid, graph.test[::2]]))


def recipe_for(graph, encoder="gamlp", *layers):
    return resolve(
        graph_facts(graph), encoder=encoder, regularizer="scr", layers=[SETTINGS, *layers]
    )


def keep(prepared, kept, path=None):
    array = np.ascontiguousarray(prepared.array[kept])
    if path is not None:
        np.save(path, array)
        array = np.load(path, mmap_mode="r")
    return dataclasses.replace(prepared, array=array, kept=kept)


def weights(fitted):
    return list(fitted.encoder.state_dict().values())


def equal(one, two):
    return all(map(torch.equal, weights(one), weights(two)))


@pytest.mark.parametrize("layer", [{}, LABELS, STAGES])
@pytest.mark.parametrize("on_disk", [False, True])
def test_training_on_kept_rows_is_training_on_all_with_a_pool_of_these(
    tmp_path, monkeypatch, layer, on_disk
):
    graph = digits(seed=0)
    recipe, kept = recipe_for(graph, "gamlp", layer), half_of_test(graph)
    prepared = prepare(graph, recipe)
    some = fit(
        graph, recipe, prepared=keep(prepared, kept, tmp_path / "h.npy" if on_disk else None)
    )
    assert some.rows.on_disk == on_disk
    assert len(some.rows) == len(kept)
    pool = torch.from_numpy(np.setdiff1d(kept, graph.train))
    monkeypatch.setattr(fitting, "all_but", lambda *_: pool)
    every = fit(graph, recipe, prepared=prepared)
    assert equal(some, every)
    assert some.outcome.history[-1]["confident_nodes"] > 0
    nodes = torch.from_numpy(kept)
    assert torch.equal(some.probabilities(), every.probabilities(nodes))
    without = [
        {k: v for k, v in record.items() if k != "seconds"} for record in every.outcome.history
    ]
    assert without == [
        {k: v for k, v in record.items() if k != "seconds"} for record in some.outcome.history
    ]


def test_labels_of_validation_and_test_nodes_change_nothing():
    graph = digits(seed=0)
    recipe, kept = recipe_for(graph, "gamlp", LABELS), half_of_test(graph)
    labels = np.array(graph.labels)
    others = np.setdiff1d(np.arange(graph.num_nodes), graph.train)
    labels[others] = np.random.default_rng(1).integers(0, graph.num_classes, len(others))
    scrambled = dataclasses.replace(graph, labels=labels)
    prepared = keep(prepare(graph, recipe), kept)
    assert equal(fit(graph, recipe, prepared=prepared), fit(scrambled, recipe, prepared=prepared))


def test_hops_in_float16_on_disk_train_as_in_memory(tmp_path):
    graph = digits(seed=0)
    recipe = recipe_for(graph, "sign", {"propagation": {"dtype": "float16", "hops": 2}})
    prepared = prepare(graph, recipe)
    np.save(tmp_path / "hops.npy", prepared.array)
    mapped = dataclasses.replace(prepared, array=np.load(tmp_path / "hops.npy", mmap_mode="r"))
    assert equal(fit(graph, recipe, prepared=prepared), fit(graph, recipe, prepared=mapped))


def test_an_error_while_reading_ends_the_run(tmp_path, monkeypatch):
    graph = digits(seed=0)
    recipe, kept = recipe_for(graph), half_of_test(graph)
    prepared = keep(prepare(graph, recipe), kept, tmp_path / "hops.npy")

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr("scr.storage._file_rows.FileRows.read", broken)
    monkeypatch.setattr(fitting, "judge_trust", lambda consistency, *_: (consistency, []))
    with pytest.raises(OSError, match="the disk is gone"):
        fit(graph, recipe, prepared=prepared)


@pytest.fixture
def fitted_on_some():
    graph = digits(seed=0)
    graph = dataclasses.replace(graph, test=graph.test[::2])
    classifier = NodeClassifier("sign", "scr", recipe=SETTINGS, propagation={"hops": 2})
    kept = np.sort(np.concatenate([graph.train, graph.valid, graph.test]))
    prepared = keep(prepare(graph, classifier.resolve(graph)), kept)
    return classifier.fit(graph, prepared=prepared), kept, graph


def test_a_run_says_how_many_rows_were_kept_and_predicts_these(tmp_path, fitted_on_some):
    classifier, kept, _ = fitted_on_some
    path = classifier.save(tmp_path / "run")
    assert json.loads((path / "run.json").read_text())["rows_kept"] == len(kept)
    table = pq.read_table(path / "predictions.parquet")
    assert table["id"].to_pylist() == kept.tolist()
    assert len(classifier.predict_proba()) == len(kept)
    some = kept[[5, 0, 3]]
    np.testing.assert_array_equal(classifier.predict(some), classifier.predict()[[5, 0, 3]])


def test_nodes_that_are_not_kept_are_refused_before_anything_is_written(tmp_path, fitted_on_some):
    classifier, kept, graph = fitted_on_some
    outside = int(np.setdiff1d(np.arange(graph.num_nodes), kept)[0])
    file = tmp_path / "predictions.parquet"
    with pytest.raises(GraphError, match=f"Node {outside} has no hops; they were kept for"):
        classifier.write_predictions(file, nodes=[int(kept[0]), outside])
    assert list(tmp_path.iterdir()) == []


def test_progress_of_predictions_ends_at_all_of_them(tmp_path, fitted_on_some):
    classifier, kept, _ = fitted_on_some
    told = []
    classifier.write_predictions(tmp_path / "p.parquet", on_progress=lambda *a: told.append(a))
    assert told[-1] == ("Predicting", len(kept), len(kept))


def test_a_stored_graph_that_does_not_fit_names_the_command_that_helps(tmp_path, monkeypatch):
    digits(seed=0).save(tmp_path / "store")
    graph = load_graph(str(tmp_path / "store"))
    layer = {"propagation": {"hops": 3, "dtype": "float16", "self_loops": True}}

    def does_not_fit(*_, **__):
        raise MemoryBudgetError("It needs 200 GiB; the budget is 18 GiB")

    monkeypatch.setattr(prepare_module, "plan_propagation", does_not_fit)
    with pytest.raises(MemoryBudgetError, match=r"200 GiB[^-]+rows: labeled[^-]+\Z") as caught:
        prepare(graph, recipe_for(graph, "sign", layer))
    printed = str(with_command(caught.value))
    assert f"scr propagate {tmp_path / 'store'} --rows labeled --hops 3 --norm " in printed
    assert "--dtype float16" in printed
    assert "--self-loops" in printed


def test_hops_beside_the_store_bring_the_nodes_that_they_were_kept_for(tmp_path, monkeypatch):
    digits(seed=0).save(tmp_path / "store")
    graph = load_graph(str(tmp_path / "store"))
    recipe, kept = recipe_for(graph, "sign"), half_of_test(graph)
    hops = Hops(prepare(graph, recipe).array[kept])
    hops.nodes_kept = kept
    asked = []

    def cached(*_, nodes=None, subsets=None):
        asked.append(nodes)
        return hops

    monkeypatch.setattr(prepare_module, "load_cached_hops", cached)
    assert prepare(graph, recipe).kept is kept
    prepare(graph, recipe, nodes=np.array([7, 3, 7]))
    assert asked[0] is None
    assert asked[1].tolist() == [3, 7]


def test_a_run_does_not_go_on_with_hops_of_other_nodes(tmp_path):
    graph = digits(seed=0)
    recipe = recipe_for(graph, "sign")
    prepared = prepare(graph, recipe)
    some = keep(prepared, half_of_test(graph))
    file = tmp_path / "checkpoint.safetensors"
    fit(graph, recipe, prepared=some, checkpoint=file, should_stop=lambda: True)
    with pytest.raises(RunError, match="hops of other nodes"):
        fit(graph, recipe, prepared=prepared, checkpoint=file)
    fit(graph, recipe, prepared=some, checkpoint=file, should_stop=lambda: True)
