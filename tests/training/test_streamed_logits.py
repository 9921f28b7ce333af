"""The streamed forward pass: the same numbers in parts, of which few are held at a time."""

import functools
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from scr.consistency import ConsistencyConfig
from scr.training import Rows, Stage, Trainer, TrainingConfig, predict_probabilities, stream_logits
from scr.training import _stages as stages
from scr.training import _term as term
from scr.training._config import StagesConfig
from scr.training._records import NO_VALIDATION
from scr.training._rows import predict_logits


class Watched(nn.Module):
    """A linear model that knows how many of its outputs are still held somewhere."""

    def __init__(self, features, classes):
        super().__init__()
        self.linear = nn.Linear(features, classes)
        self.outputs, self.sizes, self.most_held = [], [], 0

    def forward(self, batch):
        held = sum(output() is not None for output in self.outputs)
        self.most_held = max(self.most_held, held)
        logits = self.linear(batch.hops[:, 0])
        self.outputs.append(weakref.ref(logits))
        self.sizes.append(len(logits))
        return logits


@pytest.fixture
def rows():
    hops = np.random.default_rng(0).standard_normal((200, 1, 6)).astype(np.float32)
    return Rows(hops, 5)


def test_parts_together_are_the_whole(rows):
    model, index = Watched(6, 5), torch.randperm(200, generator=torch.manual_seed(0))
    parts = list(stream_logits(model, rows, index, at_once=33))
    assert torch.equal(torch.cat([part for part, _ in parts]), index)
    together = torch.cat([logits for _, logits in parts])
    assert torch.equal(together, predict_logits(model, rows, index, at_once=33))
    probabilities = predict_probabilities(model, rows, index, at_once=33)
    assert torch.equal(probabilities, torch.softmax(together, dim=-1))


@pytest.mark.parametrize("was_training", [False, True])
def test_the_mode_of_the_model_is_put_back_also_when_left_early(rows, was_training):
    model = Watched(6, 5).train(was_training)
    parts = stream_logits(model, rows, torch.arange(200), at_once=50)
    next(parts)
    assert not model.training
    parts.close()
    assert model.training == was_training


def test_no_rows_have_no_parts(rows):
    nothing = torch.zeros(0, dtype=torch.int64)
    assert predict_logits(Watched(6, 5), rows, nothing).shape == (0, 5)


def test_a_refresh_holds_a_part_of_the_predictions_at_a_time(rows, monkeypatch):
    small_parts = functools.partial(stream_logits, at_once=8)
    monkeypatch.setattr(term, "stream_logits", small_parts)
    model = Watched(6, 5)
    trainer = Trainer(
        model,
        rows,
        Stage(
            train=torch.arange(10),
            train_labels=torch.arange(10) % 5,
            unlabeled=torch.arange(10, 200),
            validation=NO_VALIDATION,
            training=TrainingConfig(epochs=2),
            consistency=ConsistencyConfig(threshold=0.3, refresh_sample=80),
        ),
    )
    trainer.term.refresh(0, rows)
    assert sum(model.sizes) == 80
    assert max(model.sizes) == 8
    assert model.most_held <= 2
    expected = predict_probabilities(model, rows, trainer.term.confident.to_score(0)).amax(1) >= 0.3
    assert torch.equal(trainer.term.confident.nodes, trainer.term.confident.to_score(0)[expected])


def test_a_handover_holds_a_part_of_the_predictions_at_a_time(rows, monkeypatch):
    monkeypatch.setattr(stages, "stream_logits", functools.partial(stream_logits, at_once=8))
    model, nodes = Watched(6, 5), torch.arange(10, 200)
    settings = StagesConfig(method="rlu", threshold=0.5, temperature=0.7)
    consistency = ConsistencyConfig(threshold=0.4)
    made = stages.handed_over(model, rows, nodes, settings, 2, consistency)
    assert max(model.sizes) == 8
    assert model.most_held <= 2
    at_once = stages.hand_over(predict_logits(model, rows, nodes), nodes, settings, 2, consistency)
    assert 0 < len(made.nodes) < len(nodes)
    assert torch.equal(made.nodes, at_once.nodes)
    assert torch.equal(made.confident, at_once.confident)
    # Products of a linear layer may round differently for other numbers of rows.
    torch.testing.assert_close(made.soft_labels, at_once.soft_labels)


def test_handing_over_nothing_is_a_handover(rows):
    nothing = torch.zeros(0, dtype=torch.int64)
    made = stages.handed_over(Watched(6, 5), rows, nothing, StagesConfig(method="rlu"), 2, None)
    assert made.soft_labels.shape == (0, 5)
