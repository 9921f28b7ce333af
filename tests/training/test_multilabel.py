"""Training, predicting and reporting where nodes have several yes-or-no targets."""

import dataclasses
import json
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import scr
from scr.cli import main
from scr.errors import ConfigError, GraphError
from scr.metrics import METRICS
from scr.prediction.smoothing import smooth_predictions
from scr.training import PostprocessConfig
from scr.training._objective import supervised_loss
from scr.training._records import ValidationNodes

NODES = 400
QUICK = {"epochs": 6, "evaluate_every": 2}
TERM = {"warmup": 2, "threshold": 0.0}


@cache
def graph():
    """Three noisy linear targets of six features, a fifth of their labels unknown, on a ring."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(NODES, 6)).astype(np.float32)
    scores = features @ generator.normal(size=(6, 3)) + generator.normal(size=(NODES, 3))
    labels = (scores > 0).astype(np.int8)
    labels[:, 1:][generator.random((NODES, 2)) < 0.2] = -1
    order = generator.permutation(NODES)
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES])
    return scr.Graph.from_edges(
        ring, features=features, labels=labels, class_names=["red", "round", "ripe"],
        train=order[:200], valid=order[200:280], test=order[280:],
    )  # fmt: skip


def area(classifier, split):
    made = graph()
    nodes = getattr(made, split)
    labels, probabilities = made.labels[nodes], classifier.predict_proba(nodes)
    columns = [(y[y >= 0], p[y >= 0]) for y, p in zip(labels.T, probabilities.T, strict=True)]
    return np.mean([roc_auc_score(y, p) for y, p in columns])


def test_a_linear_encoder_is_logistic_regression_of_each_target():
    made = graph()
    settings = {"epochs": 400, "learning_rate": 0.05, "weight_decay": 0.0, "patience": 0}
    classifier = scr.NodeClassifier(
        {"name": "sgc", "input_dropout": 0.0}, "none", preset="none",
        data={"scale": "none", "reduce": "none"}, propagation={"hops": 0},
        select="last", evaluate_every=400, **settings,
    ).fit(made)  # fmt: skip
    ours = classifier.predict_proba(made.test)
    for target in range(3):
        train = made.train[made.labels[made.train, target] >= 0]
        model = LogisticRegression(C=1e6, max_iter=2000)
        model.fit(made.features[train], made.labels[train, target])
        expected = model.predict_proba(made.features[made.test])[:, 1]
        np.testing.assert_allclose(ours[:, target], expected, atol=0.02)


@pytest.mark.parametrize("encoder", ["mlp", "sgc", "ssgc", "sign", "sagn", "gamlp", "gamlp-jk"])
def test_every_encoder_that_reads_hops_learns_targets(encoder):
    settings = {"consistency": TERM, "propagation": {"hops": 2}, **QUICK}
    classifier = scr.NodeClassifier(encoder, "scr", **settings).fit(graph())
    assert classifier.recipe_.training.metric == "roc-auc"
    assert not classifier.inactive_ or classifier.best_epoch_ <= 2
    assert classifier.history_[-1]["consistency_loss"] > 0
    assert classifier.score("test") == pytest.approx(area(classifier, "test"))
    best = max(record["valid_metric"] for record in classifier.history_)
    assert best == pytest.approx(area(classifier, "valid"), abs=1e-6)


def test_an_encoder_that_reads_the_graph_learns_targets():
    classifier = scr.NodeClassifier("gcn", "none", **QUICK).fit(graph())
    assert classifier.score("test") == pytest.approx(area(classifier, "test"))


def test_auto_takes_the_usual_encoder_and_says_so():
    recipe = scr.NodeClassifier().resolve(graph())
    assert recipe.encoder == "ssgc"
    assert "several targets per node" in recipe.reason


def test_unknown_entries_have_no_part_in_the_loss():
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, 1, -1], [1, -1, -1], [0, 0, 1], [-1, -1, -1]], dtype=torch.int8)
    p = torch.sigmoid(logits).double()
    entries = [
        -torch.log(p[view, row, column] if label == 1 else 1 - p[view, row, column])
        for view in range(2)
        for row, labels in enumerate(targets.tolist())
        for column, label in enumerate(labels)
        if label >= 0
    ]
    expected = torch.stack(entries).mean()
    assert supervised_loss(logits, targets).item() == pytest.approx(expected.item(), rel=1e-5)
    weights = torch.tensor([2.0, 2.0, 2.0, 2.0])
    weighted = supervised_loss(logits, targets, row_weights=weights)
    assert weighted.item() == pytest.approx(2 * expected.item(), rel=1e-5)
    assert supervised_loss(logits, torch.full_like(targets, -1)).item() == 0


def test_accuracy_of_validation_nodes_is_over_known_entries():
    labels = torch.tensor([[0, 1], [1, -1]], dtype=torch.int8)
    nodes = ValidationNodes(torch.arange(2), labels, METRICS["roc-auc"])
    logits = torch.tensor([[-1.0, -2.0], [3.0, 1.0]])
    score = nodes.score(logits)
    assert score.accuracy == pytest.approx(2 / 3)
    assert score.metric == 1.0  # of the first target; the second has one label
    # Confidences are (0.73 + 0.88) / 2 and (0.95 + 0.73) / 2.
    assert nodes.confident_accuracy(torch.sigmoid(logits), 0.82) == 1.0
    assert nodes.confident_accuracy(torch.sigmoid(logits), 0.99) is None


def test_a_run_is_stored_loaded_and_reported(tmp_path):
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph())
    classifier.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=graph())
    probabilities = classifier.predict_proba()
    assert probabilities.shape == (NODES, 3)
    np.testing.assert_array_equal(loaded.predict_proba(), probabilities)
    np.testing.assert_array_equal(loaded.predict([0, 3]), probabilities[[0, 3]] > 0.5)
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pylist()
    names = np.array(graph().class_names)
    assert table[7]["prediction"] == names[probabilities[7] > 0.5].tolist()
    assert table[7]["label"] == names[graph().labels[7] == 1].tolist()
    assert table[7]["probability_round"] == probabilities[7, 1]
    expected = np.maximum(probabilities[7], 1 - probabilities[7]).mean()
    assert table[7]["confidence"] == pytest.approx(expected)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test_metric"] == pytest.approx(area(classifier, "test"))


def test_new_nodes_without_labels_are_predicted():
    made = graph()
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK).fit(made)
    bare = scr.Graph.from_scipy(made.adjacency(), features=made.features)
    np.testing.assert_allclose(
        classifier.predict_proba(graph=bare), classifier.predict_proba(), rtol=1e-5
    )
    renamed = dataclasses.replace(made, class_names=("a", "b", "c"))
    with pytest.raises(GraphError, match="not of the targets"):
        classifier.predict_proba(graph=renamed)


def test_a_resumed_run_ends_in_the_same_weights(tmp_path):
    settings = {"consistency": TERM, **QUICK}
    whole = scr.NodeClassifier("ssgc", "scr", **settings).fit(graph())
    seen = []
    scr.NodeClassifier("ssgc", "scr", **settings).fit(
        graph(), checkpoint=tmp_path / "c.safetensors", on_epoch=seen.append,
        should_stop=lambda: len(seen) >= 3,
    )  # fmt: skip
    resumed = scr.NodeClassifier("ssgc", "scr", **settings).fit(
        graph(), checkpoint=tmp_path / "c.safetensors"
    )
    np.testing.assert_array_equal(whole.predict_proba(), resumed.predict_proba())


@pytest.mark.parametrize("metric", ["roc-auc", "log-loss"])
def test_a_term_that_does_harm_is_left_out_where_trust_is_compared(metric):
    settings = {"metric": metric, "epochs": 20, "evaluate_every": 2, "learning_rate": 0.02}
    term = {"weight": 1000.0, "warmup": 0, "threshold": 0.0, "trust": "compared"}
    alone = scr.NodeClassifier("mlp", "none", **settings).fit(graph())
    with pytest.warns(match="had no part"):
        compared = scr.NodeClassifier("mlp", "scr", consistency=term, **settings).fit(graph())
    np.testing.assert_array_equal(compared.predict_proba(), alone.predict_proba())
    assert METRICS[metric].title in compared.notes_[0]


@pytest.mark.parametrize(
    ("regularizer", "settings", "message"),
    [
        ("scr-m", {}, "expected `none` or `scr` where nodes have several targets"),
        ("fixmatch", {}, "expected `none` or `scr` where nodes have several targets"),
        ("none", {"stages": {"method": "rlu"}}, "stages.method"),
        ("none", {"postprocess": {"method": "correct-and-smooth"}}, "postprocess.method"),
        ("none", {"propagation": {"label_hops": 2}}, "propagation.label_hops"),
        ("none", {"class_weights": "balanced"}, "training.class_weights"),
    ],
)
def test_what_is_for_one_class_per_node_is_refused_at_once(regularizer, settings, message):
    with pytest.raises(ConfigError, match=message):
        scr.NodeClassifier("gamlp", regularizer, **settings).resolve(graph())


def test_a_typed_graph_is_refused():
    made = graph()
    typed = scr.Graph.from_relations(
        {("item", "near", "item"): [[0, 1], [1, 2]], ("item", "like", "item"): [[0], [2]]},
        {"item": made.features[:3]}, made.labels[:3], "item",
    )  # fmt: skip
    with pytest.raises(GraphError, match="several targets per node"):
        scr.NodeClassifier("sign", "none").resolve(typed)


def test_correct_and_smooth_and_explanations_are_refused():
    with pytest.raises(GraphError, match="nodes have several targets"):
        smooth_predictions(graph(), np.full((NODES, 3), 0.5, np.float32), PostprocessConfig())
    classifier = scr.NodeClassifier("mlp", "none", epochs=1).fit(graph())
    with pytest.raises(GraphError, match="are not explained"):
        classifier.explain()


def test_validation_labels_that_are_all_alike_are_refused():
    made = graph()
    labels = made.labels.copy()
    labels[made.valid] = 1
    with pytest.raises(ConfigError, match="no target has both labels"):
        scr.NodeClassifier("mlp", "none").fit(dataclasses.replace(made, labels=labels))


def test_the_command_line_trains_compares_and_predicts(tmp_path, capsys):
    made = graph()
    store, run = tmp_path / "store", tmp_path / "run"
    made.save(store)
    short = ["--set", "training.epochs=2", "--set", "training.evaluate_every=1"]

    def command(*arguments):
        with pytest.raises(SystemExit) as caught:
            main([str(each) for each in arguments])
        return caught.value.code or 0

    train = ["train", store, "--out", run, "--encoder", "ssgc", "--regularizer", "none", *short]
    assert command(*train) == 0
    assert "test ROC AUC" in capsys.readouterr().out
    assert "Test ROC AUC" in (run / "report.html").read_text()
    assert command("predict", run, "--out", tmp_path / "p.parquet") == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == NODES
    pairs = ["--encoders", "ssgc", "--regularizers", "none,scr", "--seeds", 2]
    assert command("compare", store, "--out", tmp_path / "c", *pairs, *short) == 0
    rows = json.loads((tmp_path / "c" / "compare.json").read_text())["rows"]
    assert rows[1]["metric"] == "roc-auc"
    assert command("train", store, "--out", tmp_path / "no", "--regularizer", "scr-m") == 2
    assert "several targets" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
