from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.training.typed_graphs import make_typed_graph

from scr.encoders import ProblemShape
from scr.networks import make_encoder
from scr.training import Rows, Stage, Trainer, TrainingConfig, fit, graph_facts, resolve
from scr.training._records import NO_VALIDATION
from scr.training._rows import predict_logits
from scr.training._subset_turns import NoTurns, make_turns

ROWS, SUBSETS, HOPS, FEATURES, CLASSES = 300, 5, 2, 6, 3


def _rows(dtype=np.float32):
    generator = np.random.default_rng(0)
    hops = generator.standard_normal((ROWS, 1 + SUBSETS * HOPS, FEATURES))
    return Rows(hops.astype(dtype), CLASSES, subsets=SUBSETS)


def _encoder(rows, **settings):
    torch.manual_seed(0)
    settings = {"hidden": 8, "mixing": "xavier", "subset_sample": 2, "resample": 3, **settings}
    return make_encoder("nars-sign", settings, rows.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_sample_predicts_what_all_subsets_predict(dtype):
    rows = _rows(dtype)
    encoder = _encoder(rows)
    whole = predict_logits(encoder, rows, torch.arange(ROWS))
    turns = make_turns(encoder, rows, seed=4)
    some = turns.begin(0)
    assert some.hops.shape == (ROWS, 1 + 3 * HOPS, FEATURES)  # two subsets and the rest
    assert some.shape == ProblemShape(features=FEATURES, hops=3, classes=CLASSES, subsets=3)
    tolerance = 1e-4 if dtype == np.float32 else 2e-2
    part = predict_logits(encoder, some, torch.arange(ROWS))
    torch.testing.assert_close(part, whole, rtol=tolerance, atol=tolerance)
    assert turns.end() is rows
    assert torch.equal(predict_logits(encoder, rows, torch.arange(ROWS)), whole)


def test_hops_on_disk_are_gathered_alike(tmp_path):
    rows = _rows()
    np.save(tmp_path / "hops.npy", rows.hops)
    on_disk = Rows(np.load(tmp_path / "hops.npy", mmap_mode="r"), CLASSES, subsets=SUBSETS)
    assert on_disk.on_disk
    gathered = [make_turns(_encoder(source), source, seed=4).begin(0) for source in (rows, on_disk)]
    np.testing.assert_array_equal(gathered[0].hops, gathered[1].hops)
    assert not gathered[1].on_disk


def test_samples_change_after_so_many_epochs_and_reach_every_subset():
    rows = _rows()
    encoder = _encoder(rows)
    turns = make_turns(encoder, rows, seed=4)
    chosen = []
    for epoch in range(60):
        turns.begin(epoch)
        chosen.append(encoder.mixture.chosen)
    assert all(len(set(chosen[start : start + 3])) == 1 for start in range(0, 60, 3))
    assert {subset for sample in chosen for subset in sample} == set(range(SUBSETS))
    assert all(len(set(sample)) == 2 for sample in chosen)


def test_only_the_sample_learns_and_the_others_do_not_move():
    """Not even by the momentum of an earlier turn, or by weight decay."""
    rows = _rows()
    encoder = _encoder(rows, resample=1)
    training = TrainingConfig(epochs=6, weight_decay=0.1, learning_rate=0.05, average_decay=0.9)
    train = torch.arange(100)
    stage = Stage(
        train=train, train_labels=train % CLASSES, unlabeled=torch.arange(100, ROWS),
        validation=NO_VALIDATION, training=training, seed=2,
    )  # fmt: skip
    trainer = Trainer(encoder, rows, stage)
    for epoch in range(6):
        before = encoder.mixture.weight.detach().clone()
        trainer._epoch(epoch)
        moved = (encoder.mixture.weight != before).flatten(2).any(2).any(0)
        sample = trainer.turns.sample(epoch)
        assert moved.nonzero().flatten().tolist() == list(sample)
        average = trainer.averages["average"].model.mixture.weight
        others = [each for each in range(SUBSETS) if each not in sample]
        torch.testing.assert_close(average[:, others], encoder.mixture.weight[:, others])


@pytest.mark.parametrize("size", [None, SUBSETS, SUBSETS + 1])
def test_a_sample_of_all_is_no_sample(size):
    rows = _rows()
    assert type(make_turns(_encoder(rows, subset_sample=size), rows, seed=0)) is NoTurns


def test_a_run_with_samples_ends_with_an_encoder_of_all_subsets():
    graph = make_typed_graph()
    layers = [
        {
            "encoder": {"hidden": 8, "subset_sample": 2, "resample": 2},
            "propagation": {"subsets": 5},
            "training": {"epochs": 9, "average_decay": 0.9, "evaluate_every": 3},
        }
    ]
    recipe = resolve(graph_facts(graph), encoder="nars-sagn", regularizer="scr-m", layers=layers)
    fitted = fit(graph, recipe)
    assert fitted.encoder.mixture.chosen is None
    assert fitted.rows.subsets == 5
    right = (fitted.probabilities().argmax(1).numpy() == graph.labels)[graph.valid].mean()
    # What was measured in training with samples is what the encoder of all subsets does.
    assert right == pytest.approx(fitted.outcome.valid_accuracy)
