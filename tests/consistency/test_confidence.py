"""The confident set: its mask, its schedule, its refreshes."""

import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


def some_probabilities(nodes, classes=4, seed=0):
    return torch.softmax(torch.randn(nodes, classes, generator=torch.manual_seed(seed)) * 2, dim=-1)


@given(st.lists(st.integers(0, 40), max_size=12), st.floats(0, 1), st.integers(0, 4))
def test_an_update_by_parts_is_an_update_at_once(cuts, threshold, epoch):
    probabilities = some_probabilities(40)
    bounds = [0, *sorted(cuts), 40]
    parts = [probabilities[a:b] for a, b in pairwise(bounds)]
    once, parted = (
        ConfidentSet(torch.arange(100, 140), threshold=threshold, threshold_end=0.5)
        for _ in range(2)
    )
    once.update(probabilities, epoch, 5)
    parted.update_by_parts(iter(parts), epoch, 5)
    assert torch.equal(once.nodes, parted.nodes)
    assert once.threshold == parted.threshold


def test_parts_are_not_held_together():
    alive = []

    def parts():
        for seed in range(20):
            assert sum(reference() is not None for reference in alive) <= 1
            part = some_probabilities(5, seed=seed)
            alive.append(weakref.ref(part))
            yield part
            del part

    ConfidentSet(torch.arange(100), threshold=0.9).update_by_parts(parts(), 0, 1)


@given(st.integers(1, 60), st.integers(0, 9), st.integers(0, 9))
def test_of_a_sample_the_confident_ones_are_taken(sample, seed, epoch):
    candidates = torch.arange(0, 100, 2)
    probabilities = some_probabilities(50)
    confident = ConfidentSet(candidates, threshold=0.6, sample=sample, seed=seed)
    scored = confident.to_score(epoch)
    assert len(scored) == min(sample, 50)
    assert len(set(scored.tolist())) == len(scored)
    confident.update(probabilities[scored // 2], epoch, 10)
    most = {node: max(probabilities[node // 2].tolist()) for node in candidates.tolist()}
    expected = [node for node in sorted(scored.tolist()) if most[node] >= np.float32(0.6)]
    assert confident.nodes.tolist() == expected


def test_each_refresh_draws_another_sample_and_the_same_again():
    confident = ConfidentSet(torch.arange(1000), threshold=0.5, sample=100, seed=3)
    again = ConfidentSet(torch.arange(1000), threshold=0.5, sample=100, seed=3)
    other = ConfidentSet(torch.arange(1000), threshold=0.5, sample=100, seed=4)
    assert torch.equal(confident.to_score(20), again.to_score(20))
    assert not torch.equal(confident.to_score(20), confident.to_score(0))
    assert not torch.equal(confident.to_score(20), other.to_score(20))
    together = torch.cat([confident.to_score(epoch) for epoch in range(100)])
    assert len(together.unique()) == 1000  # each is missed with a chance of 0.9^100


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="refresh_sample"):
        ConfidentSet(torch.arange(3), sample=0)
