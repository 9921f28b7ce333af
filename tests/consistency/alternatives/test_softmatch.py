"""SoftMatch's weights, alignment and averages by hand and against SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from scr.consistency.alternatives import SoftMatchLoss
from scr.consistency.alternatives._softmatch import align_to_uniform, truncated_gaussian_weights

WEAK = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.6, 0.4]])


@pytest.mark.parametrize("sigmas", [1.0, 2.0])
def test_weights_are_a_gaussian_below_the_mean_and_one_above(sigmas):
    confidence = torch.linspace(0, 1, 21, dtype=torch.float64)
    mean, variance = torch.tensor(0.6, dtype=torch.float64), torch.tensor(0.04, dtype=torch.float64)
    gaussian = norm(0.6, 0.2 / sigmas)
    expected = np.where(confidence < 0.6, gaussian.pdf(confidence) / gaussian.pdf(0.6), 1.0)
    found = truncated_gaussian_weights(confidence, mean, variance, sigmas)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_without_any_spread_the_weights_are_a_step():
    weights = truncated_gaussian_weights(
        torch.tensor([0.5, 0.7]), torch.tensor(0.6), torch.tensor(0.0)
    )
    assert weights.tolist() == [0.0, 1.0]


def test_alignment_makes_the_classes_equally_likely_on_average():
    predictions = torch.tensor([[0.8, 0.2], [0.6, 0.4]])
    aligned = align_to_uniform(predictions, predictions.mean(dim=0))
    # Class 0 is divided by 0.7 and class 1 by 0.3.
    ratio = torch.tensor(
        [(0.8 / 0.7) / (0.8 / 0.7 + 0.2 / 0.3), (0.6 / 0.7) / (0.6 / 0.7 + 0.4 / 0.3)]
    )
    torch.testing.assert_close(aligned[:, 0], ratio, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(aligned.sum(dim=-1), torch.ones(2))


def test_averages_start_as_in_the_paper_and_move_by_the_decay():
    loss = SoftMatchLoss(4, momentum=0.75)
    assert (loss.threshold, loss.variance.item()) == (0.25, 1.0)
    loss.update(torch.tensor([0.5, 0.7, 0.9]))
    # Mean 0.7, unbiased variance (0.04 + 0 + 0.04) / 2.
    assert loss.threshold == pytest.approx(0.75 * 0.25 + 0.25 * 0.7)
    assert loss.variance.item() == pytest.approx(0.75 + 0.25 * 0.04)


def test_a_single_row_does_not_break_the_variance():
    loss = SoftMatchLoss(2, momentum=0.5)
    loss.update(torch.tensor([0.8]))
    assert loss.variance.item() == pytest.approx(0.5)


def test_the_term_weighs_every_row():
    loss = SoftMatchLoss(2, momentum=0.0, sigmas=1.0, alignment="none")
    # Confidence 0.9, 0.7, 0.6, 0.6: mean 0.7, variance (0.04 + 0 + 0.01 + 0.01) / 3 = 0.02.
    low = math.exp(-(0.1**2) / (2 * 0.02))
    expected = math.log(2) * (2 + 2 * low) / 4
    assert loss(torch.zeros(1, 4, 2), WEAK).item() == pytest.approx(expected, rel=1e-4)
    assert loss.chosen_share == pytest.approx((2 + 2 * low) / 4, rel=1e-4)


def test_alignment_changes_weights_but_not_pseudo_labels():
    """Row 3 of the weak view is of class 0, and of class 1 once classes are evened out."""
    assert align_to_uniform(WEAK, WEAK.mean(dim=0))[3].argmax() == 1
    strong = torch.tensor([[50.0, 0.0]]).repeat(4, 1).requires_grad_()
    SoftMatchLoss(2, momentum=0.0)(strong, WEAK).backward()
    # Only a row that is taught class 1 pulls against logits that are sure of class 0.
    assert (strong.grad.abs().sum(dim=-1) > 1e-6).tolist() == [False, False, True, False]


def test_the_first_batch_starts_the_average_prediction():
    loss = SoftMatchLoss(2, momentum=0.9)
    loss(torch.zeros(1, 4, 2), WEAK)
    torch.testing.assert_close(loss.mean_prediction, WEAK.mean(dim=0))
    loss(torch.zeros(1, 4, 2), WEAK.flip(-1))
    expected = 0.9 * WEAK.mean(dim=0) + 0.1 * WEAK.flip(-1).mean(dim=0)
    torch.testing.assert_close(loss.mean_prediction, expected)
