"""The Pi-model's term by hand and in loops."""

import math

import pytest
import torch

from scr.consistency import average_views, squared_distance
from scr.consistency.alternatives import PiLoss
from scr.consistency.alternatives._pi import pairwise_squared_distance


def log(*rows):
    """Logits whose softmax is the given probabilities."""
    return torch.tensor(rows).log()


def test_two_views_differ_by_their_squared_distance():
    views = torch.stack([log([0.5, 0.5], [0.9, 0.1]), log([0.8, 0.2], [0.9, 0.1])])
    # (0.5 - 0.8)^2 + (0.5 - 0.2)^2 = 0.18; equal views are at no distance.
    torch.testing.assert_close(pairwise_squared_distance(views), torch.tensor([0.18, 0.0]))


def test_three_views_are_compared_in_all_pairs():
    views = torch.stack([log([0.5, 0.5]), log([0.8, 0.2]), log([0.6, 0.4])])
    expected = (2 * 0.3**2 + 2 * 0.1**2 + 2 * 0.2**2) / 3
    assert pairwise_squared_distance(views).item() == pytest.approx(expected, rel=1e-5)


def test_labeled_rows_take_part_with_the_same_say():
    unlabeled = torch.stack([log([0.5, 0.5]), log([0.8, 0.2])])
    labeled = torch.stack([log([0.5, 0.5], [0.5, 0.5]), log([0.5, 0.5], [0.6, 0.4])])
    assert PiLoss(2.0)(unlabeled).item() == pytest.approx(2 * 0.18, rel=1e-5)
    assert PiLoss(2.0)(unlabeled, known=labeled).item() == pytest.approx(
        2 * (0.18 + 0.0 + 0.02) / 3, rel=1e-5
    )


def test_the_distance_of_two_views_is_four_times_that_to_their_average():
    """What SCR's term would be without sharpening and without a fixed target."""
    views = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    to_average = squared_distance(average_views(views), views.log_softmax(dim=-1)).mean(dim=0)
    torch.testing.assert_close(pairwise_squared_distance(views), 4 * to_average)


def test_gradient_flows_through_both_views():
    views = torch.stack([log([0.5, 0.5]), log([0.8, 0.2])]).requires_grad_()
    PiLoss()(views).backward()
    assert views.grad.abs().sum(dim=-1).min() > 0


def test_a_single_view_has_nothing_to_disagree_with():
    assert PiLoss()(torch.randn(1, 3, 2)).item() == 0


def test_the_ramp_begins_at_a_hundred_and_fiftieth_of_the_weight():
    loss, views = PiLoss(1.0), torch.stack([log([0.5, 0.5]), log([0.8, 0.2])])
    loss.begin_epoch(0, 10, share=math.exp(-5))
    assert loss(views).item() == pytest.approx(0.18 * math.exp(-5), rel=1e-5)
