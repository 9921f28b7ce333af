"""GRAND's term by hand."""

import pytest
import torch

from scr.consistency import consistency_config, make_unlabeled_loss, noisy_views
from scr.consistency.alternatives import GrandLoss


def log(*rows):
    """Logits whose softmax is the given probabilities."""
    return torch.tensor(rows).log()


def test_views_are_compared_with_their_sharpened_average():
    views = torch.stack([log([0.5, 0.5]), log([0.9, 0.1])])
    # The average is (0.7, 0.3); squared and normalized (T = 1/2): (0.49, 0.09) / 0.58.
    sharp = 0.49 / 0.58
    expected = (2 * (0.5 - sharp) ** 2 + 2 * (0.9 - sharp) ** 2) / 2
    assert GrandLoss(1.0, 0.5)(views).item() == pytest.approx(expected, rel=1e-5)
    assert GrandLoss(3.0, 0.5)(views).item() == pytest.approx(3 * expected, rel=1e-5)


def test_labeled_rows_take_part_with_the_same_say():
    views = torch.stack([log([0.5, 0.5]), log([0.9, 0.1])])
    equal = log([0.5, 0.5], [0.5, 0.5])  # no distance to their average, sharpened or not
    loss = GrandLoss()
    torch.testing.assert_close(loss(views, known=torch.stack([equal, equal])), loss(views) / 3)


def test_the_average_has_no_gradient():
    views = torch.stack([log([0.5, 0.5]), log([0.9, 0.1])]).requires_grad_()
    loss = GrandLoss(1.0, 1.0)
    (gradient,) = torch.autograd.grad(loss(views), views)
    target = torch.tensor([0.7, 0.3])
    predictions = views.softmax(dim=-1)
    fixed = ((predictions - target) ** 2).sum(dim=-1).mean()
    (expected,) = torch.autograd.grad(fixed, views)
    torch.testing.assert_close(gradient, expected)


def test_its_settings_are_the_papers_for_cora():
    config = consistency_config("grand", {})
    assert (config.weight, config.temperature, config.views) == (1.0, 0.5, 4)
    assert (config.drop_node, config.warmup, config.threshold) == (0.5, 0, 0.0)
    loss = make_unlabeled_loss("grand", consistency_config("grand", {"temperature": 0.2}), 3)
    assert isinstance(loss, GrandLoss)
    assert loss.temperature == 0.2


def test_an_augmented_batch_is_another_one_in_each_view():
    class Counting:
        count = 0

        def noisy_view(self):
            self.count += 1
            return torch.full((2, 3), float(self.count))

    views = noisy_views(lambda batch: batch * 10, Counting(), 3)
    assert views[:, 0, 0].tolist() == [10.0, 20.0, 30.0]
