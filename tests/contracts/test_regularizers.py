"""What every way to use unlabeled nodes must do, whatever its paper."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from scr.classifier import NodeClassifier
from scr.consistency import (
    REGULARIZERS,
    UNLABELED_LOSSES,
    ConsistencyConfig,
    MeanTeacher,
    consistency_config,
    drops_nodes,
    make_unlabeled_loss,
    settings_of,
)
from scr.encoders import HopBatch, ProblemShape
from scr.errors import ConfigError
from scr.networks import make_encoder
from scr.report import explanation
from scr.training import fit, graph_facts, resolve
from scr.training._objective import mixed_loss

CLASSES, LABELED = 3, 4
names = pytest.mark.parametrize("name", UNLABELED_LOSSES)
SETTINGS = {
    "training": {"epochs": 6, "select": "last", "patience": 0, "evaluate_every": 2,
                 "batch_size": 5, "unlabeled_per_batch": 20},
    # A bar that some rows clear from the start and some do not, and averages that move.
    "consistency": {"warmup": 1, "threshold": 0.4, "refresh": 2, "trust": "full",
                    "momentum": 0.8, "weight_ramp": 2, "decay": 0.5},
}  # fmt: skip


def _loss(name, **values):
    config = consistency_config(name, {"decay": 0.5, **values})
    assert config is not None
    return make_unlabeled_loss(name, config, CLASSES), config


def _views(name, rows=6, seed=0):
    """Logits of the views, and pseudo labels where the method has others make them."""
    loss, config = _loss(name)
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(config.views, rows, CLASSES, generator=generator)
    weak = (4 * torch.randn(rows, CLASSES, generator=generator)).softmax(dim=-1)
    return loss, logits, weak if loss.needs_weak_view or name == "scr-m" else None


def _fit(graph, name, encoder=None, **settings):
    # Random propagation needs an encoder that reads a fixed mixture of hops.
    encoder = encoder or ("ssgc" if drops_nodes(name) else "sign")
    recipe = resolve(graph_facts(graph), encoder=encoder, regularizer=name, layers=[SETTINGS])
    return fit(graph, recipe, seed=2, **settings)


def _same_weights(one, other):
    states = one.encoder.state_dict(), other.encoder.state_dict()
    return all(torch.equal(value, states[1][key]) for key, value in states[0].items())


@names
def test_it_trains_with_a_finite_loss_and_is_not_the_base(name, random_graph):
    graph = random_graph()
    trained = _fit(graph, name)
    records = trained.outcome.history
    assert all(np.isfinite(record["consistency_loss"]) for record in records)
    assert records[-1]["consistency_loss"] != 0
    assert all(0 <= record["confident_nodes"] <= graph.num_nodes for record in records)
    assert all(value.isfinite().all() for value in trained.encoder.state_dict().values())
    assert not _same_weights(trained, _fit(graph, "none", trained.recipe.encoder))


@names
def test_scrambled_validation_and_test_labels_change_nothing(name, random_graph):
    graph = random_graph()
    labels = np.array(graph.labels)
    others = np.setdiff1d(np.arange(graph.num_nodes), graph.train)
    labels[others] = np.random.default_rng(1).integers(0, graph.num_classes, len(others))
    scrambled = dataclasses.replace(graph, labels=labels)
    assert _same_weights(_fit(graph, name), _fit(scrambled, name))


@names
@pytest.mark.parametrize("stops", [(1,), (2, 3, 5)])
def test_a_stopped_run_ends_in_the_same_weights(name, stops, random_graph, tmp_path):
    graph, checkpoint = random_graph(), tmp_path / "checkpoint"
    for stop in stops:
        seen = []
        stopped = _fit(
            graph, name, checkpoint=checkpoint, on_epoch=seen.append,
            should_stop=lambda stop=stop, seen=seen: bool(seen) and seen[-1].epoch == stop,
        )  # fmt: skip
        assert stopped.outcome.stopped == "interrupted"
        torch.rand(3)  # what happens between two sessions must not matter
    whole, pieces = _fit(graph, name), _fit(graph, name, checkpoint=checkpoint)
    assert _same_weights(whole, pieces)
    timeless = [
        [{key: value for key, value in record.items() if key != "seconds"} for record in records]
        for records in (whole.outcome.history, pieces.outcome.history)
    ]
    assert timeless[0] == timeless[1]


@names
def test_a_batch_without_unlabeled_rows_has_no_term(name):
    loss, _, _ = _views(name)
    logits = torch.zeros(2, 0, CLASSES, requires_grad=True)
    known = torch.randn(2, LABELED, CLASSES)
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    term = loss(logits, known=known)
    term.backward()
    assert term.item() == 0
    assert all(torch.equal(value, before[key]) for key, value in loss.state_dict().items())


@names
def test_the_weight_is_a_factor(name):
    once, logits, weak = _views(name)
    twice, _ = _loss(name, weight=2 * once.weight)
    torch.testing.assert_close(twice(logits, weak), 2 * once(logits, weak))
    half, _ = _loss(name)
    half.begin_epoch(3, 10, share=0.5)
    torch.testing.assert_close(2 * half(logits, weak), _loss(name)[0](logits, weak))


@names
def test_the_order_of_rows_does_not_matter(name):
    loss, logits, weak = _views(name)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled, _ = _loss(name)
    torch.testing.assert_close(
        loss(logits, weak), shuffled(logits[:, order], None if weak is None else weak[order])
    )


@names
def test_gradient_flows_through_the_students_views_alone(name):
    loss, logits, weak = _views(name)
    logits = logits.requires_grad_()
    weak = None if weak is None else weak.requires_grad_()
    loss(logits, weak).backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum() > 0
    assert weak is None or weak.grad is None
    assert not list(loss.parameters())
    assert not any(buffer.requires_grad for buffer in loss.buffers())


@names
def test_pseudo_labels_leave_the_student_as_it_was(name):
    """Of a step, only the student's own passes may count into its batch statistics."""
    torch.manual_seed(0)
    shape = ProblemShape(features=5, hops=2, classes=CLASSES)
    student = make_encoder("sign", {"hidden": 8, "norm": "batch"}, shape)
    loss, config = _loss(name)
    teacher = MeanTeacher(student, 0.5) if name == "scr-m" else None
    counted = [module for module in student.modules() if isinstance(module, nn.BatchNorm1d)]
    found = mixed_loss(
        student, HopBatch(torch.randn(12, 2, 5)), torch.zeros(LABELED, dtype=torch.int64), loss,
        views=config.views, teacher=teacher,
    )  # fmt: skip
    found.total.backward()
    assert all(module.training for module in student.modules())
    assert {int(module.num_batches_tracked) for module in counted} <= {config.views}
    assert all(parameter.grad is not None for parameter in student.parameters())
    assert teacher is None or all(value.grad is None for value in teacher.model.parameters())


@names
def test_its_defaults_are_settings_that_it_reads(name):
    known = {field.name for field in dataclasses.fields(ConsistencyConfig)}
    assert settings_of(name) <= known
    assert set(UNLABELED_LOSSES[name].defaults) <= settings_of(name)


@names
def test_a_setting_that_it_does_not_read_does_not_make_another_run(name):
    others = {"momentum": 0.5, "fairness": 0.5, "sigmas": 1.0, "alignment": "none",
              "threshold": 0.7, "temperature": 0.7, "drop_node": 0.2}  # fmt: skip
    plain = consistency_config(name, {"decay": 0.5})
    for setting, value in others.items():
        changed = consistency_config(name, {"decay": 0.5, setting: value})
        assert (changed != plain) == (setting in settings_of(name)), setting


@pytest.mark.parametrize("name", REGULARIZERS)
def test_it_is_explained_in_reports(name):
    assert explanation(name)


@names
def test_it_works_by_name_in_the_classifier(name, random_graph):
    graph = random_graph()
    classifier = NodeClassifier("sgc", name, epochs=3, consistency={"warmup": 0}).fit(graph)
    assert classifier.resolve(graph).regularizer == name
    assert classifier.predict_proba().shape == (graph.num_nodes, graph.num_classes)


@pytest.mark.parametrize("name", ["pi", "r-drop"])
def test_methods_that_compare_views_ask_for_two(name):
    with pytest.raises(
        ConfigError, match=rf"`consistency\.views` is 1; expected at least 2.*{name}"
    ):
        consistency_config(name, {"views": 1})
