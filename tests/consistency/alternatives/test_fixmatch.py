"""FixMatch's term by hand."""

import math

import pytest
import torch

from scr.consistency.alternatives import FixMatchLoss
from scr.consistency.alternatives._fixmatch import weighted_pseudo_label_loss
from scr.errors import ConfigError

WEAK = torch.tensor([[0.96, 0.04], [0.30, 0.70], [0.05, 0.95]])
STRONG = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2]]).log().unsqueeze(0)


def test_only_sure_rows_teach_and_all_rows_are_counted():
    # Rows 0 and 2 reach 0.95; their classes are 0 and 1. The sum is over three rows.
    expected = -(math.log(0.5) + math.log(0.2)) / 3
    assert FixMatchLoss(1.0, 0.95)(STRONG, WEAK).item() == pytest.approx(expected, rel=1e-5)


def test_views_are_averaged():
    views = torch.cat([STRONG, torch.zeros_like(STRONG)])
    expected = -(math.log(0.5) + math.log(0.2) + 2 * math.log(0.5)) / 6
    assert FixMatchLoss(1.0, 0.95)(views, WEAK).item() == pytest.approx(expected, rel=1e-5)


def test_the_weight_of_a_row_is_a_factor_of_its_cross_entropy():
    weights = torch.tensor([0.5, 0.0, 0.25])
    expected = -(0.5 * math.log(0.5) + 0.25 * math.log(0.2)) / 3
    loss = weighted_pseudo_label_loss(STRONG, WEAK, weights)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_rows_below_the_threshold_get_no_gradient():
    strong = STRONG.clone().requires_grad_()
    FixMatchLoss(1.0, 0.95)(strong, WEAK).backward()
    assert (strong.grad[0].abs().sum(dim=-1) > 0).tolist() == [True, False, True]


def test_no_gradient_flows_through_the_pseudo_label():
    weak = WEAK.clone().requires_grad_()
    FixMatchLoss()(STRONG.clone().requires_grad_(), weak).backward()
    assert weak.grad is None


def test_the_threshold_follows_its_schedule_and_is_told():
    loss = FixMatchLoss(1.0, 0.9, 0.7)
    thresholds = []
    for epoch in range(3):
        loss.begin_epoch(epoch, 3)
        thresholds.append(loss.threshold)
    assert thresholds == pytest.approx([0.9, 0.8, 0.7])


def test_the_share_of_rows_that_took_part_is_counted_per_epoch():
    loss = FixMatchLoss(1.0, 0.95)
    loss(STRONG, WEAK)
    loss(STRONG, WEAK)
    assert loss.chosen_share == pytest.approx(2 / 3)
    loss.begin_epoch(1, 2)
    assert loss.chosen_share == 1.0


def test_it_asks_for_the_weak_view_that_it_cannot_make():
    with pytest.raises(ConfigError, match="weak_view"):
        FixMatchLoss()(STRONG)
