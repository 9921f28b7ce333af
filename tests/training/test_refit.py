"""A refit is a training run on training and validation labels, for the epochs that were chosen."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.cli import main
from scr.errors import ConfigError, GraphError
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve

SHORT = {"epochs": 8, "evaluate_every": 2, "patience": 0, "average_decay": 0.5}
TERM = {"threshold": 0.3, "refresh": 3, "warmup": 2, "trust": "full"}


def united(graph):
    return graph.with_split(train=np.union1d(graph.train, graph.valid), test=graph.test)


def weights(classifier):
    return classifier.module_.state_dict()


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("encoder", "regularizer", "propagation"),
    [("ssgc", "none", {}), ("ssgc", "scr-m", {}), ("gamlp", "scr", {"label_hops": 2})],
)
def test_it_is_a_run_by_hand_on_all_labels(tmp_path, encoder, regularizer, propagation):
    graph = digits(labels_per_class=5, seed=0)
    sections = {"consistency": TERM, "propagation": propagation}
    sections["postprocess"] = {"calibrate": "none"}  # validation nodes are trained on by hand
    found = NodeClassifier(encoder, regularizer, refit=True, **sections, **SHORT).fit(graph)
    alone = NodeClassifier(encoder, regularizer, **sections, **SHORT).fit(graph)
    assert found.best_epoch_ == alone.best_epoch_
    chosen = {**SHORT, "epochs": found.best_epoch_, "select": "last"}
    by_hand = NodeClassifier(encoder, regularizer, **sections, **chosen).fit(united(graph))
    assert same(weights(found), weights(by_hand))
    assert not same(weights(found), weights(alone))
    np.testing.assert_array_equal(found.predict_proba(), by_hand.predict_proba())
    summary = found.summary()
    assert summary["valid_accuracy"] == pytest.approx(alone.score("valid"), abs=1e-6)
    assert summary["valid_accuracy_is"] == "before the refit"
    assert "valid" not in summary
    assert summary["test_accuracy"] == by_hand.score("test")
    with pytest.raises(GraphError, match="refit trained on the validation nodes"):
        found.metrics("valid")
    loaded = NodeClassifier.load(found.save(tmp_path / "run"), graph=graph)
    np.testing.assert_array_equal(loaded.predict_proba(), found.predict_proba())
    assert loaded.explain().tables()["split"] == "train"


def test_the_temperature_is_that_of_the_weights_before_it():
    graph = digits(labels_per_class=5, seed=0)
    found, alone = (
        NodeClassifier("ssgc", "none", refit=refit, **SHORT).fit(graph) for refit in (True, False)
    )
    assert alone.summary()["temperature"] != 1
    assert found.summary()["temperature"] == pytest.approx(alone.summary()["temperature"])


def test_test_labels_are_never_read():
    graph = digits(seed=0)
    labels = np.array(graph.labels)
    others = np.setdiff1d(np.arange(graph.num_nodes), [*graph.train, *graph.valid])
    labels[others] = np.random.default_rng(1).permutation(labels[others])
    scrambled = dataclasses.replace(graph, labels=labels)
    settings = {"refit": True, "consistency": TERM, "propagation": {"label_hops": 2}, **SHORT}
    runs = [NodeClassifier("gamlp", "scr", **settings).fit(each) for each in (graph, scrambled)]
    assert same(*map(weights, runs))


@pytest.mark.parametrize("stop", [3, 10])
def test_a_stop_in_selection_or_refit_resumes_to_the_same_weights(tmp_path, stop):
    graph = digits(seed=0)
    layers = [{"training": {**SHORT, "refit": True, "select": "last"}, "consistency": TERM}]
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer="scr-m", layers=layers)
    whole = fit(graph, recipe, seed=2)
    seen = []
    checkpoint = tmp_path / "checkpoint.safetensors"
    stopped = fit(
        graph, recipe, seed=2, checkpoint=checkpoint, on_epoch=seen.append,
        should_stop=lambda: len(seen) == stop,
    )  # fmt: skip
    assert stopped.outcome.stopped == "interrupted"
    assert (tmp_path / "checkpoint-refit.safetensors").exists() == (stop > 8)
    again = []
    resumed = fit(graph, recipe, seed=2, checkpoint=checkpoint, on_epoch=again.append)
    assert len(seen) + len(again) == 16
    assert same(whole.encoder.state_dict(), resumed.encoder.state_dict())
    assert resumed.notes == whole.notes
    assert resumed.outcome.valid_accuracy == whole.outcome.valid_accuracy


def test_the_baseline_is_refitted_where_it_was_kept(monkeypatch):
    monkeypatch.setattr("scr.training._fitting.baseline_note", lambda *_, **__: "kept")
    graph = digits(seed=0)
    compared = {**TERM, "trust": "compared"}
    found = NodeClassifier("ssgc", "scr", refit=True, consistency=compared, **SHORT).fit(graph)
    base = NodeClassifier("ssgc", "none", refit=True, **SHORT).fit(graph)
    assert same(weights(found), weights(base))


def test_it_is_refused_without_validation_nodes_and_with_stages():
    graph = digits(seed=0)
    last = {**SHORT, "select": "last", "refit": True}
    with pytest.raises(ConfigError, match="no validation nodes"):
        NodeClassifier("ssgc", "none", **last).fit(graph.with_split(train=graph.train))
    with pytest.raises(ConfigError, match="has stages"):
        NodeClassifier("gamlp", "none", stages={"method": "rlu"}, **last).fit(graph)


def test_the_command_says_that_the_accuracy_is_from_before_the_refit(tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--encoder", "ssgc", "--refit", "--set", "training.epochs=4"]
    for words in (
        ["train", "digits", "--out", str(run), *options],
        ["smooth", str(run), "--no-search"],
        ["predict", str(run), "--out", str(tmp_path / "p.parquet")],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, words
        if words[0] == "train":
            printed = " ".join(capsys.readouterr().out.split())
    assert "before the refit, test accuracy" in printed
    assert "percent; before the refit" in (run / "report.html").read_text()
    assert json.loads((run / "run.json").read_text())["recipe"]["training"]["refit"] is True
    assert not list(run.glob("checkpoint*"))
    with np.load(run / "split.npz") as split:
        assert len(split["valid"]) == 100
