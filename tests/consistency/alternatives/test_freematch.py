"""FreeMatch's averages, thresholds and fairness by hand and against NumPy."""

import math

import numpy as np
import pytest
import torch

from scr.consistency.alternatives import FreeMatchLoss
from scr.consistency.alternatives._freematch import fairness_loss, self_adaptive_thresholds

WEAK = torch.tensor([[0.9, 0.1], [0.75, 0.25], [0.4, 0.6], [0.55, 0.45]])


def test_each_class_has_the_share_of_the_global_threshold_that_it_is_predicted():
    thresholds = self_adaptive_thresholds(torch.tensor(0.8), torch.tensor([0.5, 0.2, 0.3]))
    torch.testing.assert_close(thresholds, torch.tensor([0.8, 0.32, 0.48]))


def test_averages_start_at_one_over_the_classes_and_move_by_the_decay():
    loss = FreeMatchLoss(2, momentum=0.75)
    assert loss.threshold == 0.5
    loss.update(WEAK)
    # Confidence 0.9, 0.75, 0.6, 0.55: mean 0.7. Predictions: mean (0.65, 0.35). Classes: 3 and 1.
    assert loss.threshold == pytest.approx(0.75 * 0.5 + 0.25 * 0.7)
    torch.testing.assert_close(
        loss.mean_prediction, torch.tensor([0.75 * 0.5 + 0.25 * 0.65, 0.75 * 0.5 + 0.25 * 0.35])
    )
    torch.testing.assert_close(
        loss.label_histogram, torch.tensor([0.75 * 0.5 + 0.25 * 0.75, 0.75 * 0.5 + 0.25 * 0.25])
    )


def test_rows_that_pass_their_class_teach():
    loss = FreeMatchLoss(2, momentum=0.0, fairness=0.0)
    strong = torch.zeros(1, 4, 2)
    # Without memory the thresholds are the batch's own: 0.7 for class 0, 0.7 * 0.35 / 0.65 = 0.377
    # for class 1. So rows 0, 1 and 2 pass and row 3 does not.
    assert loss(strong, WEAK).item() == pytest.approx(3 / 4 * math.log(2), rel=1e-5)
    assert loss.chosen_share == 0.75


def brute_fairness(predictions, mean_prediction, label_histogram):
    """The formula in plain NumPy, with the published code's floor of 1e-12 within the logarithm."""
    classes = predictions.argmax(axis=1)
    histogram = np.array([(classes == c).mean() for c in range(predictions.shape[1])])
    inverse = np.divide(1, histogram, out=np.zeros_like(histogram), where=histogram > 0)
    target = mean_prediction / label_histogram
    mean = predictions.mean(axis=0) * inverse
    logarithms = np.log(mean / mean.sum() + 1e-12)
    shares = target / target.sum()
    return (shares * logarithms)[histogram > 0].sum()


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_fairness_is_the_formula(classes):
    generator = torch.Generator().manual_seed(classes)
    draw = {"generator": generator, "dtype": torch.float64}
    predictions = (2 * torch.randn(9, classes, **draw)).softmax(dim=-1)
    mean, histogram = torch.randn(2, classes, **draw).softmax(dim=-1)
    expected = brute_fairness(predictions.numpy(), mean.numpy(), histogram.numpy())
    assert fairness_loss(predictions, mean, histogram).item() == pytest.approx(expected)


def test_fairness_is_the_uniform_cross_entropy_where_all_is_even():
    predictions = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    even = torch.tensor([0.5, 0.5])
    assert fairness_loss(predictions, even, even).item() == pytest.approx(-math.log(2))


def test_fairness_is_added_with_its_factor():
    strong = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.0]]])
    plain = FreeMatchLoss(2, 3.0, momentum=0.0, fairness=0.0)(strong, WEAK)
    loss = FreeMatchLoss(2, 3.0, momentum=0.0, fairness=0.1)
    fair = fairness_loss(
        strong[0, :3].softmax(dim=-1), WEAK.mean(dim=0), torch.tensor([0.75, 0.25])
    )
    assert loss(strong, WEAK).item() == pytest.approx((plain + 3.0 * 0.1 * fair).item(), rel=1e-5)


def test_evaluation_leaves_the_averages_alone():
    loss = FreeMatchLoss(2, momentum=0.5).eval()
    loss(torch.zeros(1, 4, 2), WEAK)
    assert loss.threshold == 0.5


def test_state_goes_through_a_state_dict():
    loss, other = FreeMatchLoss(2, momentum=0.5), FreeMatchLoss(2, momentum=0.5)
    loss.update(WEAK)
    other.load_state_dict(loss.state_dict())
    strong = torch.zeros(1, 4, 2)
    assert torch.equal(loss(strong, WEAK), other(strong, WEAK))
