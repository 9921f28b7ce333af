"""The confident set: its mask, its schedule, its refreshes."""

import pytest
import torch

from scr.consistency import ConfidentSet, confidence_mask, threshold_at
from scr.errors import ConfigError

PROBABILITIES = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.5, 0.5]])


def test_a_row_exactly_at_the_threshold_is_confident():
    assert confidence_mask(PROBABILITIES, 0.8).tolist() == [True, True, False]


def test_the_threshold_falls_on_a_straight_line():
    values = [threshold_at(epoch, 5, 0.9, 0.8) for epoch in range(5)]
    torch.testing.assert_close(torch.tensor(values), torch.linspace(0.9, 0.8, 5))


def test_a_threshold_without_an_end_is_constant():
    assert {threshold_at(epoch, 100, 0.7) for epoch in range(100)} == {0.7}


def test_an_update_keeps_the_numbers_of_confident_nodes():
    confident = ConfidentSet(torch.tensor([4, 7, 9]), threshold=0.8)
    confident.update(PROBABILITIES, 0, 10)
    assert confident.nodes.tolist() == [4, 7]


def test_nodes_come_back_when_the_threshold_falls():
    confident = ConfidentSet(torch.tensor([4, 7, 9]), threshold=0.95, threshold_end=0.5)
    confident.update(PROBABILITIES, 0, 3)
    assert confident.nodes.tolist() == []
    confident.update(PROBABILITIES, 2, 3)
    assert confident.nodes.tolist() == [4, 7, 9]


def test_refreshes_are_due_every_beta_epochs_after_warm_up():
    confident = ConfidentSet(torch.arange(3), threshold=0.5, refresh=20)
    due = [epoch for epoch in range(100) if confident.due(epoch, first=30)]
    assert due == [30, 50, 70, 90]


def test_without_a_threshold_no_scoring_pass_is_asked_for():
    assert not ConfidentSet(torch.arange(3)).due(0)


def test_predictions_for_other_rows_are_refused():
    with pytest.raises(ConfigError, match="one row per candidate, 2"):
        ConfidentSet(torch.arange(2), threshold=0.5).update(PROBABILITIES, 0, 1)
