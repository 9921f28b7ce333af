"""What `training.metric` decides: the kept weights, patience, the comparison and the score."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import sklearn.metrics
import torch

import scr
from scr.errors import ConfigError, GraphError
from scr.metrics import METRICS
from scr.sources._digits import digits
from scr.training._records import TrainingOutcome, ValidationNodes, collapse_notes
from scr.training._trust import baseline_note

FUNCTIONS = {
    "balanced": lambda labels, p: sklearn.metrics.balanced_accuracy_score(labels, p.argmax(1)),
    "macro-f1": lambda labels, p: sklearn.metrics.f1_score(labels, p.argmax(1), average="macro"),
    "roc-auc": lambda labels, p: sklearn.metrics.roc_auc_score(labels, p, multi_class="ovr"),
    "log-loss": lambda labels, p: sklearn.metrics.log_loss(labels, p),
}
SETTINGS = {"epochs": 16, "evaluate_every": 1, "select_after": 0, "learning_rate": 0.05}


@cache
def uneven():
    """Three noisy classes of 400, 80 and 20 nodes, on a ring."""
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat([0, 1, 2], [400, 80, 20]))
    features = np.eye(3)[labels] + generator.normal(0, 1.2, (500, 3))
    ring = np.stack([np.arange(500), (np.arange(500) + 1) % 500])
    return scr.Graph.from_edges(
        ring, features=features.astype(np.float32), labels=labels, train=np.arange(150),
        valid=np.arange(150, 320), test=np.arange(320, 500),
    )  # fmt: skip


@cache
def fitted(metric, **more):
    return scr.NodeClassifier("mlp", "none", metric=metric, **{**SETTINGS, **more}).fit(uneven())


@pytest.mark.parametrize("metric", FUNCTIONS)
def test_the_kept_epoch_is_the_best_by_the_metric(metric):
    classifier, graph = fitted(metric), uneven()
    history = classifier.history_
    pick = min if metric == "log-loss" else max
    best = pick(record["valid_metric"] for record in history)
    kept = next(each for each in history if each["epoch"] == classifier.best_epoch_)
    assert kept["valid_metric"] == best
    # The weights are those of that epoch: scikit-learn measures the same on them.
    labels, probabilities = graph.labels[graph.valid], classifier.predict_proba(graph.valid)
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = FUNCTIONS[metric](labels, probabilities)
    assert best == pytest.approx(expected, abs=1e-5)
    assert classifier.score("valid") == pytest.approx(expected, abs=1e-5)


def test_metrics_pick_different_epochs():
    epochs = {name: fitted(name).best_epoch_ for name in METRICS}
    assert len(set(epochs.values())) > 1


def test_accuracy_is_what_it_was():
    plain = scr.NodeClassifier("mlp", "none", **SETTINGS).fit(uneven())
    named = fitted("accuracy")
    np.testing.assert_array_equal(plain.predict_proba(), named.predict_proba())
    assert "valid_metric" not in plain.history_[0]
    assert "metric" not in plain.summary()
    assert "metric" not in plain.recipe_.tables()["training"]
    assert plain.score() == plain.metrics()["accuracy"]


@pytest.mark.parametrize("patience", [0, 3])
def test_log_loss_keeps_what_the_lowest_loss_keeps(patience):
    by_metric = fitted("log-loss", patience=patience, epochs=40)
    by_loss = fitted("accuracy", select="lowest-loss", patience=patience, epochs=40)
    np.testing.assert_array_equal(by_metric.predict_proba(), by_loss.predict_proba())
    assert by_metric.best_epoch_ == by_loss.best_epoch_
    assert len(by_metric.history_) == len(by_loss.history_)


def test_patience_waits_for_the_metric():
    classifier = fitted("roc-auc", patience=3, epochs=200)
    assert classifier.stopped_ == "patience"
    assert classifier.history_[-1]["epoch"] - classifier.best_epoch_ == 3


def test_a_run_in_files_keeps_the_metric(tmp_path):
    classifier = fitted("roc-auc")
    classifier.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=uneven())
    assert loaded.score("test") == classifier.score("test")
    summary = loaded.summary()
    assert summary["metric"] == "roc-auc"
    assert summary["test_metric"] == summary["test"]["roc_auc"] == classifier.score("test")


def test_a_resumed_run_keeps_the_same_weights(tmp_path):
    settings = {**SETTINGS, "metric": "macro-f1"}
    whole = scr.NodeClassifier("mlp", "none", **settings).fit(uneven())
    seen = []
    stopped = scr.NodeClassifier("mlp", "none", **settings).fit(
        uneven(), checkpoint=tmp_path / "c.safetensors", on_epoch=seen.append,
        should_stop=lambda: len(seen) >= 7,
    )  # fmt: skip
    assert stopped.stopped_ == "interrupted"
    resumed = scr.NodeClassifier("mlp", "none", **settings).fit(
        uneven(), checkpoint=tmp_path / "c.safetensors"
    )
    np.testing.assert_array_equal(whole.predict_proba(), resumed.predict_proba())
    assert [each["valid_metric"] for each in whole.history_] == [
        each["valid_metric"] for each in resumed.history_
    ]


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"training\.metric.*macro-f1"):
        scr.NodeClassifier("mlp", "none", metric="f1").fit(uneven())


def test_the_area_of_one_class_is_refused_before_training():
    graph = uneven()
    common = graph.valid[graph.labels[graph.valid] == 0]
    one_sided = dataclasses.replace(graph, valid=common)
    with pytest.raises(ConfigError, match="validation nodes are of one class"):
        scr.NodeClassifier("mlp", "none", metric="roc-auc").fit(one_sided)


def test_the_score_of_one_class_has_no_area():
    graph = uneven()
    common = graph.test[graph.labels[graph.test] == 0]
    classifier = scr.NodeClassifier("mlp", "none", metric="roc-auc", epochs=1)
    classifier.fit(dataclasses.replace(graph, test=common))
    assert classifier.metrics("test")["roc_auc"] is None
    with pytest.raises(GraphError, match="`test` are of one class"):
        classifier.score("test")


def ended(accuracy, metric, **more):
    return TrainingOutcome(
        history=[], best_epoch=3, epochs=5, valid_accuracy=accuracy, train_seconds=0.0,
        stopped="epochs", valid_metric=metric, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "with_term", "alone", "is_kept"),
    [
        # 1.5 standard errors of 0.05 are 0.075.
        ("macro-f1", 0.56, 0.65, True),
        ("macro-f1", 0.62, 0.65, False),
        ("macro-f1", 0.70, 0.65, False),
        ("log-loss", 0.74, 0.65, True),
        ("log-loss", 0.60, 0.65, False),
    ],
)
def test_the_baseline_is_kept_where_its_metric_is_better(metric, with_term, alone, is_kept):
    note = baseline_note(
        ended(0.9, with_term), ended(0.1, alone), 100, metric=METRICS[metric],
        noise=lambda value: 0.05,
    )  # fmt: skip
    assert (note is not None) == is_kept
    if note is not None:
        assert METRICS[metric].title in note


def test_the_noise_of_log_loss_is_that_of_its_mean():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(40, 3, generator=generator), torch.arange(40) % 3
    nodes = ValidationNodes(torch.arange(40), labels, METRICS["log-loss"])
    losses = -torch.log_softmax(logits, 1)[torch.arange(40), labels].numpy()
    assert nodes.noise(1.0, logits) == pytest.approx(losses.std() / np.sqrt(40), rel=1e-5)


def test_a_run_with_compared_trust_goes_by_the_metric():
    term, graph = {"weight": 1000.0, "warmup": 0, "trust": "compared"}, digits(seed=0)
    settings = {"metric": "log-loss", "epochs": 30}
    alone = scr.NodeClassifier("ssgc", "none", **settings).fit(graph)
    with pytest.warns(match="had no part"):
        compared = scr.NodeClassifier("ssgc", "scr", consistency=term, **settings).fit(graph)
    np.testing.assert_array_equal(compared.predict_proba(), alone.predict_proba())
    assert "with it log-loss on validation nodes is" in compared.notes_[0]


def test_a_collapse_is_told_in_the_metric():
    (note,) = collapse_notes(ended(0.9, 0.8, collapsed_to=0.3), METRICS["roc-auc"])
    assert note.startswith("Validation ROC AUC collapsed from 80.0% in epoch 3 to at most 30.0%")
    (note,) = collapse_notes(ended(0.9, 0.4, collapsed_to=0.3), METRICS["log-loss"])
    assert note.startswith("Validation accuracy collapsed from 90.0%")
