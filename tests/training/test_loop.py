"""The loop: what it evaluates, keeps, stops at and switches off."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from scr.errors import TrainingError
from scr.networks import make_encoder
from scr.sources._digits import digits
from scr.training import Stage, Trainer, TrainingConfig, fit, graph_facts, prepare, resolve
from scr.training._fitting import all_but
from scr.training._loop import learning_rate_at
from scr.training._records import NO_VALIDATION


@cache
def plain_digits():
    return digits(seed=0)


def outcome(regularizer="scr", graph=None, **sections):
    graph = graph or plain_digits()
    sections.setdefault("training", {})
    sections["consistency"] = {"warmup": 0, **sections.get("consistency", {})}
    sections["training"] = {"epochs": 10, "evaluate_every": 2, **sections["training"]}
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer=regularizer, layers=[sections])
    return fit(graph, recipe, seed=0)


def test_history_has_one_record_per_evaluation():
    history = outcome().outcome.history
    assert [record["epoch"] for record in history] == [2, 4, 6, 8, 10]
    for record in history:
        assert record["supervised_loss"] > 0
        assert 0 <= record["valid_accuracy"] <= 1


def test_the_kept_weights_are_those_of_the_best_epoch():
    graph = plain_digits()
    fitted = outcome(training={"epochs": 30})
    valid = torch.from_numpy(np.asarray(graph.valid))
    labels = torch.from_numpy(np.asarray(graph.labels[graph.valid]))
    accuracy = (fitted.probabilities(valid).argmax(1) == labels).float().mean().item()
    best = max(record["valid_accuracy"] for record in fitted.outcome.history)
    assert accuracy == pytest.approx(best)
    chosen = [r for r in fitted.outcome.history if r["epoch"] == fitted.outcome.best_epoch]
    assert chosen[0]["valid_accuracy"] == pytest.approx(best)


def test_weights_are_kept_only_from_the_epoch_on_that_was_asked_for():
    free = outcome(training={"epochs": 12, "learning_rate": 1e-9, "select_after": 0})
    late = outcome(training={"epochs": 12, "learning_rate": 1e-9, "select_after": 0.5})
    assert free.outcome.best_epoch < 7 <= late.outcome.best_epoch


def test_of_a_few_epochs_the_last_is_late_enough():
    for epochs in (1, 2):
        training = {"epochs": epochs, "evaluate_every": 1, "select_after": 0.9}
        made = outcome(training=training).outcome
        assert made.best_epoch == epochs
        assert made.valid_accuracy == made.history[-1]["valid_accuracy"]


def test_patience_stops_training():
    settings = {"patience": 6, "learning_rate": 1e-9, "select_after": 0}
    fitted = outcome(training={"epochs": 500, **settings})
    assert fitted.outcome.stopped == "patience"
    assert fitted.outcome.epochs < 20


def test_the_kept_weights_may_be_those_of_the_lowest_loss():
    training = {"epochs": 30, "learning_rate": 0.3, "select": "lowest-loss", "select_after": 0}
    fitted = outcome(training=training)
    losses = {record["epoch"]: record["valid_loss"] for record in fitted.outcome.history}
    assert fitted.outcome.best_epoch == min(losses, key=losses.__getitem__) < 30
    graph = plain_digits()
    valid = torch.from_numpy(np.asarray(graph.valid))
    labels = torch.from_numpy(np.asarray(graph.labels[graph.valid]))
    kept = torch.nn.functional.nll_loss(fitted.probabilities(valid).log(), labels).item()
    assert kept == pytest.approx(min(losses.values()), rel=1e-4)


def test_with_the_lowest_loss_an_accuracy_as_high_as_ever_renews_patience():
    """Weights that hardly move keep their accuracy, so that training goes on to the end."""
    settings = {"patience": 6, "learning_rate": 1e-9, "select_after": 0, "epochs": 20}
    by_accuracy = outcome(training=settings).outcome
    by_loss = outcome(training={**settings, "select": "lowest-loss"}).outcome
    assert (by_accuracy.stopped, by_loss.stopped) == ("patience", "epochs")


def test_warm_up_switches_off_only_the_loss_term():
    history = outcome("scr-m", consistency={"warmup": 6}).outcome.history
    losses = [record["consistency_loss"] for record in history]
    assert losses[:3] == [0.0, 0.0, 0.0]
    assert all(loss > 0 for loss in losses[3:])


def trainer(graph, on_epoch, **consistency):
    """A trainer of SCR-m as `fit` makes it, to be looked into epoch by epoch."""
    train = torch.from_numpy(np.asarray(graph.train))
    settings = {"decay": 0.999, "ramp": False, "views": 1, **consistency}
    training = {"epochs": 12, "patience": 0, "learning_rate": 0.1}
    layers = [{"consistency": settings, "training": training}]
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer="scr-m", layers=layers)
    prepared = prepare(graph, recipe)
    rows = prepared.rows(graph.num_classes, None, torch.device("cpu"), seed=0)
    torch.manual_seed(0)
    return Trainer(
        make_encoder(recipe.encoder, recipe.encoder_settings, rows.shape),
        rows,
        Stage(
            train=train,
            train_labels=torch.from_numpy(np.asarray(graph.labels[graph.train])).long(),
            unlabeled=all_but(graph.train, graph.num_targets),
            validation=NO_VALIDATION,
            training=recipe.training,
            consistency=recipe.consistency,
            regularizer="scr-m",
            on_epoch=on_epoch,
        ),
    )


def test_the_teacher_begins_as_the_students_copy_at_the_end_of_the_warm_up():
    """With 0.999 per step, an average since the start would be nearly the untrained network."""
    states = []

    def note(record):
        states.append([value.clone() for value in made.student.parameters()])
        if record.epoch <= 5:
            for mine, first in zip(made.term.teacher.model.parameters(), start, strict=True):
                assert torch.equal(mine, first)
            assert made.term.teacher.step == 0

    made = trainer(plain_digits(), note, warmup=5)
    start = [value.clone() for value in made.student.parameters()]
    made.run()
    # One step per epoch: theta' = 0.999 theta' + 0.001 theta from the copy after epoch 5 on.
    assert made.term.teacher.step == 7
    expected = states[4]
    for state in states[5:]:
        expected = [0.999 * mine + 0.001 * new for mine, new in zip(expected, state, strict=True)]
    for mine, value in zip(made.term.teacher.model.parameters(), expected, strict=True):
        torch.testing.assert_close(mine, value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("judge", ["teacher", "student"])
def test_the_judge_chooses_the_confident_set(judge):
    """A teacher whose logits are all 0 is sure of nothing, whatever its student knows."""

    def silence(record):
        for value in made.term.teacher.model.parameters():
            value.data.zero_()

    made = trainer(plain_digits(), silence, warmup=5, threshold=0.5, judge=judge, refresh=1)
    made.run()
    assert (len(made.term.confident) > 0) is (judge == "student")


def test_a_threshold_that_nobody_clears_is_no_crash():
    history = outcome(consistency={"threshold": 1.0}, training={"epochs": 4}).outcome.history
    assert history[0]["confident_nodes"] == 0
    assert history[0]["consistency_loss"] == 0.0


def test_a_falling_threshold_is_recorded():
    settings = {"threshold": 0.5, "threshold_end": 0.1, "refresh": 1}
    history = outcome(consistency=settings).outcome.history
    expected = [0.5 - 0.4 * (epoch - 1) / 9 for epoch in (2, 4, 6, 8, 10)]
    assert [record["threshold"] for record in history] == pytest.approx(expected)


def test_weight_zero_is_exactly_the_base():
    base = outcome("none")
    off = outcome("scr", consistency={"weight": 0.0})
    for name, value in base.encoder.state_dict().items():
        assert torch.equal(value, off.encoder.state_dict()[name])


def test_labels_without_a_pattern_turn_consistency_off():
    graph = digits(labels_per_class=20, seed=0)
    labels = np.random.default_rng(0).permutation(np.asarray(graph.labels))
    fitted = outcome(graph=dataclasses.replace(graph, labels=labels))
    assert "turned down from" in fitted.notes[0]
    assert fitted.outcome.history[-1]["consistency_loss"] == 0.0


@pytest.mark.parametrize("labels_per_class", [1, 2, 4])
def test_with_a_few_labels_neighbors_have_a_say_in_trust(labels_per_class):
    graph = digits(labels_per_class=labels_per_class, seed=0)
    assert outcome(graph=graph, training={"epochs": 1}).term.weight == 1.0
    # The same digits without anything in common with their neighbors, or with their labels.
    generator = np.random.default_rng(0)
    shuffled = dataclasses.replace(
        graph,
        features=generator.permutation(np.asarray(graph.features)),
        labels=generator.permutation(np.asarray(graph.labels)),
    )
    assert outcome(graph=shuffled, training={"epochs": 1}).term.weight < 0.5


def test_the_cosine_schedule_by_hand():
    training = TrainingConfig(epochs=4, learning_rate=0.2, schedule="cosine")
    rates = [learning_rate_at(epoch, training) for epoch in range(4)]
    assert rates == pytest.approx([0.2, 0.1 * (1 + 0.5**0.5), 0.1, 0.1 * (1 - 0.5**0.5)])


def test_a_training_set_of_one_class_per_batch_still_trains():
    training = {"batch_size": 3, "unlabeled_per_batch": "proportional", "epochs": 2}
    fitted = outcome(training=training)
    assert np.isfinite(fitted.outcome.history[-1]["supervised_loss"])


def test_a_term_that_never_acted_is_noted():
    [note] = outcome(training={"epochs": 3}, consistency={"warmup": 3}).notes
    assert "never acted: its warm-up takes 3 epochs, and 3 were trained" in note
    assert outcome(training={"epochs": 4}, consistency={"warmup": 3}).notes == []
    assert outcome("none", training={"epochs": 3}, consistency={"warmup": 3}).notes == []


def test_a_confident_set_that_stayed_empty_is_noted_and_counted():
    fitted = outcome(consistency={"threshold": 1.0, "refresh": 1, "warmup": 4})
    [note] = fitted.notes
    assert "never acted: no node was confident enough in any epoch after the warm-up, of 6;" in note
    summary = fitted.term.summary()
    assert not summary["acted"]
    assert (summary["epochs"], summary["acting_epochs"], summary["confident_share"]) == (6, 0, 0.0)


def test_a_term_that_acted_is_counted_epoch_by_epoch():
    # The set is chosen once, after epoch 4, and all nodes take part in it.
    fitted = outcome(consistency={"warmup": 4})
    assert fitted.notes == []
    assert fitted.term.summary() == {
        "acted": True,
        "weight": 1.0,
        "weight_asked": 1.0,
        "epochs": 6,
        "acting_epochs": 6,
        "first_epoch": 5,
        "confident_share": 1.0,
        "confident_share_last": 1.0,
        "student_valid_accuracy": None,
        "teacher_valid_accuracy": None,
    }


def test_teacher_and_student_are_scored_side_by_side():
    fitted = outcome("scr-m", consistency={"warmup": 4, "decay": 0.0, "ramp": False})
    # With a decay of 0 the teacher is its student, so both are right on the same nodes.
    last = fitted.outcome.history[-1]
    assert last["teacher_valid_accuracy"] == last["valid_accuracy"]
    assert fitted.outcome.history[0]["teacher_valid_accuracy"] is None  # still in the warm-up
    assert fitted.term.summary()["teacher_valid_accuracy"] == last["valid_accuracy"]


def test_a_collapse_keeps_the_weights_from_before_and_says_so(monkeypatch):
    """From epoch 7 on a huge learning rate ruins the student."""
    rate = "scr.training._loop.learning_rate_at"
    monkeypatch.setattr(rate, lambda epoch, _: 0.1 if epoch < 6 else 1e4)
    training = {"epochs": 12, "evaluate_every": 1, "select_after": 0.6}
    fitted = outcome("none", training=training)
    early = [record for record in fitted.outcome.history if record["epoch"] < 9]
    best = max(early, key=lambda record: (record["valid_accuracy"], -record["valid_loss"]))
    later = max(record["valid_accuracy"] for record in fitted.outcome.history[8:])
    assert fitted.outcome.best_epoch == best["epoch"] <= 6
    assert fitted.outcome.valid_accuracy == best["valid_accuracy"] > later + 0.3
    assert fitted.outcome.collapsed_to == later
    [note] = fitted.notes
    assert note.startswith(f"Validation accuracy collapsed from {best['valid_accuracy']:.1%}")
    graph = plain_digits()
    valid = torch.from_numpy(np.asarray(graph.valid))
    labels = torch.from_numpy(np.asarray(graph.labels[graph.valid]))
    accuracy = (fitted.probabilities(valid).argmax(1) == labels).float().mean().item()
    assert accuracy == pytest.approx(best["valid_accuracy"])


def test_weights_from_the_warmup_are_noted():
    # Nothing is learned, so the first epoch that is looked at stays the best.
    still = {"epochs": 6, "learning_rate": 1e-9, "select_after": 0, "evaluate_every": 1}
    [note] = outcome(training=still, consistency={"warmup": 4}).notes
    assert "those of epoch 1, before the term on unlabeled nodes first acted, in epoch 5" in note
    assert outcome(training={**still, "select": "last"}, consistency={"warmup": 4}).notes == []


def test_a_loss_that_is_no_number_ends_the_training():
    with pytest.raises(TrainingError, match=r"The loss became nan in epoch \d+; expected a finite"):
        outcome(training={"epochs": 30, "learning_rate": 1e30})
