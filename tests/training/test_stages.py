"""Stages against equations worked by hand, against single runs, and against being stopped."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.consistency import ConsistencyConfig, ConsistencyLoss
from scr.encoders import HopBatch
from scr.errors import ConfigError, RunError
from scr.propagation import label_hops
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve
from scr.training._config import StagesConfig
from scr.training._objective import mixed_loss, reliable_loss
from scr.training._stages import hand_over

SETTINGS = {
    "training": {"epochs": 6, "evaluate_every": 2, "patience": 0, "select_after": 0.0},
    "consistency": {"threshold": 0.11, "warmup": 1},
    "stages": {"count": 3, "threshold": 0.2, "temperature": 0.5},
}


def trained(method, regularizer="none", *, graph=None, **options):
    graph = graph or digits(seed=0)
    sections = {name: dict(table) for name, table in SETTINGS.items()}
    sections["stages"]["method"] = method
    for name, table in options.pop("settings", {}).items():
        sections.setdefault(name, {}).update(table)
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer=regularizer, layers=[sections])
    return fit(graph, recipe, seed=2, **options)


def test_the_reliable_term_is_gamlps_equation():
    torch.manual_seed(0)
    logits, soft = torch.randn(2, 3, 4), torch.randn(3, 4).softmax(-1)
    expected = 0.0
    for view in logits.softmax(-1):
        for p, q in zip(view.tolist(), soft.tolist(), strict=True):
            divergence = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
            expected += max(q) * divergence / (2 * 3)
    assert reliable_loss(logits, soft).item() == pytest.approx(expected, rel=1e-5)


def test_a_hard_label_costs_its_cross_entropy_and_no_nan():
    logits = torch.tensor([[[1.0, 2.0, 0.5]]])
    hard = torch.tensor([[0.0, 1.0, 0.0]])
    expected = -math.log(math.exp(2.0) / (math.exp(1.0) + math.exp(2.0) + math.exp(0.5)))
    assert reliable_loss(logits, hard).item() == pytest.approx(expected, rel=1e-6)


def test_both_kinds_of_labels_are_weighed_by_their_number():
    torch.manual_seed(0)
    logits, soft = torch.randn(5, 3), torch.randn(4, 3).softmax(-1)
    loss = mixed_loss(
        lambda batch: logits,
        HopBatch(torch.zeros(5, 1, 1)),
        torch.tensor([2]),
        ConsistencyLoss(),
        views=1,
        reliable=soft,
        reliable_weight=0.1,
    )
    own = -float(logits[0].log_softmax(-1)[2])
    others = reliable_loss(logits[None, 1:], soft).item()
    assert loss.supervised.item() == pytest.approx(own / 5 + 0.1 * others * 4 / 5, rel=1e-5)
    assert loss.consistency.item() == 0


def test_a_handover_tempers_what_it_relies_on_and_not_what_must_be_consistent():
    logits = torch.tensor([[2.0, 0.0], [0.5, 0.0], [0.0, 0.1]])
    stages = StagesConfig(method="rlu", count=2, threshold=0.7, temperature=0.5)
    handover = hand_over(
        logits, torch.tensor([4, 7, 9]), stages, 2, ConsistencyConfig(threshold=0.6)
    )
    # 1 / (1 + e^-4) and 1 / (1 + e^-1); the third has 1 / (1 + e^-0.2) = 0.55.
    assert handover.nodes.tolist() == [4, 7]
    assert handover.soft_labels[:, 0].tolist() == pytest.approx([0.98201, 0.73106], abs=1e-5)
    # Not tempered: 0.881, 0.622, 0.525.
    assert handover.confident.tolist() == [4, 7]


def test_self_labels_are_hard():
    logits = torch.tensor([[2.0, 0.0], [0.5, 0.0]])
    stages = StagesConfig(method="sle", count=2, threshold=0.8)
    handover = hand_over(logits, torch.tensor([4, 7]), stages, 2, None)
    assert handover.nodes.tolist() == [4]
    assert handover.soft_labels.tolist() == [[1.0, 0.0]]
    assert handover.confident.tolist() == []


@pytest.mark.parametrize("method", ["rlu", "sle"])
def test_the_first_stage_is_a_supervised_run(method):
    staged = trained(method, "scr")
    alone = trained("none")
    first = [record for record in staged.outcome.history if record["stage"] == 1]
    for record, expected in zip(first, alone.outcome.history, strict=True):
        assert record["valid_loss"] == expected["valid_loss"]
    assert staged.outcome.epochs == 18
    assert [record["epoch"] for record in staged.outcome.history] == list(range(2, 19, 2))


def test_the_first_stage_can_be_regularized():
    staged = trained("rlu", "scr", settings={"stages": {"first": "regularized"}})
    alone = trained("none", "scr")
    assert staged.outcome.history[2]["valid_loss"] == alone.outcome.history[2]["valid_loss"]


def test_later_stages_have_the_consistency_term_only_with_a_regularizer():
    plain, regular = trained("rlu").outcome.history, trained("rlu", "scr").outcome.history
    assert all(record["confident_nodes"] == 0 for record in plain)
    assert all(record["confident_nodes"] == 0 for record in regular if record["stage"] == 1)
    assert all(record["confident_nodes"] > 0 for record in regular if record["stage"] > 1)


def test_stages_may_have_epochs_of_their_own():
    staged = trained("rlu", settings={"stages": {"epochs": [4, 2, 6]}})
    stages = [record["stage"] for record in staged.outcome.history]
    assert stages == [1, 1, 2, 3, 3, 3]
    assert staged.outcome.epochs == 12


def test_label_hops_are_rebuilt_from_labels_and_handover():
    graph = digits(seed=0)
    settings = {"propagation": {"label_hops": 2, "label_guard": "none"}}
    staged = trained("rlu", graph=graph, settings=settings)
    seeds = np.zeros((graph.num_nodes, graph.num_classes))
    seeds[graph.train] = np.eye(graph.num_classes)[graph.labels[graph.train]]
    seeds[staged.handover.nodes.numpy()] = staged.handover.soft_labels.numpy()
    adjacency = graph.adjacency()
    degrees = np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1)
    expected = (adjacency @ ((adjacency @ seeds) / degrees[:, None])) / degrees[:, None]
    np.testing.assert_allclose(staged.rows.labels[:, 0], expected, atol=1e-5)


def test_soft_labels_of_some_nodes_are_those_of_all_with_the_others_unread():
    graph = digits(seed=0)
    config = trained("none").recipe.propagation
    config = dataclasses.replace(config, label_hops=2)
    nodes = np.array([3, 50, 7])
    everywhere = np.random.default_rng(0).random((graph.num_nodes, graph.num_classes))
    whole = label_hops(graph, config, labels=everywhere, train=nodes)
    part = label_hops(graph, config, train=nodes, targets=everywhere[nodes].astype(np.float32))
    np.testing.assert_array_equal(whole, part)


@pytest.mark.parametrize("method", ["rlu", "sle"])
@pytest.mark.parametrize("stops", [(3,), (6, 7, 15)])
def test_a_stopped_run_ends_in_the_same_weights(tmp_path, method, stops):
    whole = trained(method, "scr-m")
    checkpoint = tmp_path / "checkpoint.safetensors"
    for stop in stops:
        seen = []
        stopped = trained(
            method,
            "scr-m",
            checkpoint=checkpoint,
            on_epoch=seen.append,
            should_stop=lambda stop=stop, seen=seen: bool(seen) and seen[-1].epoch == stop,
        )
        assert stopped.outcome.stopped == "interrupted"
        assert all(record.epoch <= stop for record in seen)
    pieces = trained(method, "scr-m", checkpoint=checkpoint)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[name]), name
    assert whole.outcome.best_epoch == pieces.outcome.best_epoch
    timeless = [
        [{key: value for key, value in record.items() if key != "seconds"} for record in records]
        for records in (whole.outcome.history, pieces.outcome.history)
    ]
    assert timeless[0] == timeless[1]


def test_files_of_another_run_are_refused(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    trained("rlu", checkpoint=checkpoint)
    with pytest.raises(RunError, match="of a run with another recipe, seed or graph"):
        trained("sle", checkpoint=checkpoint)


def test_settings_of_stages_do_nothing_without_a_method():
    settings = {"stages": {"epochs": 2, "count": 4}}
    assert trained("none", settings=settings).outcome.epochs == 6


def test_a_saved_run_in_stages_predicts_the_same_again(tmp_path):
    graph = digits(seed=0)
    classifier = NodeClassifier(
        "gamlp",
        "none",
        propagation={"label_hops": 2},
        stages={"method": "rlu", "count": 2, "threshold": 0.3},
        epochs=4,
    ).fit(graph)
    classifier.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run", graph=graph)
    np.testing.assert_array_equal(classifier.predict_proba(), loaded.predict_proba())
    assert not list((tmp_path / "run").glob("checkpoint*"))


def test_a_method_that_weighs_rows_is_given_all_nodes_and_keeps_its_threshold():
    settings = {"consistency": {"threshold": 0.7, "warmup": 0, "trust": "full"}}
    staged = trained("rlu", "fixmatch", settings=settings)
    graph = digits(seed=0)
    assert len(staged.handover.confident) == graph.num_nodes - len(graph.train)
    assert {record["threshold"] for record in staged.outcome.history[1:]} <= {None, 0.7}
    assert staged.outcome.history[-1]["threshold"] == 0.7


def test_watching_test_accuracy_changes_nothing():
    watched = trained("rlu", "scr", watch_test=True)
    plain = trained("rlu", "scr")
    for name, value in watched.encoder.state_dict().items():
        assert torch.equal(value, plain.encoder.state_dict()[name]), name
    assert all(record["test_accuracy"] is None for record in plain.outcome.history)
    best = watched.outcome.history[-1]
    assert 0 <= best["test_accuracy"] <= 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"count": 0}, "stages.count"),
        ({"count": 3, "threshold": [0.9]}, "stages.threshold"),
        ({"count": 3, "epochs": [10, 20]}, "stages.epochs"),
        ({"temperature": 0.0}, "stages.temperature"),
        ({"weight": -1.0}, "stages.weight"),
        ({"method": "co-training"}, "stages.method"),
    ],
)
def test_what_cannot_work_is_named(settings, named):
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        resolve(graph_facts(digits(seed=0)), layers=[{"stages": settings}])
