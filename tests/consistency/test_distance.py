"""The three distances against hand-worked values and torch's own divergence."""

import math

import torch
import torch.nn.functional as F

from scr.consistency import kl, reverse_kl, squared_distance

TARGET = torch.tensor([[0.8, 0.2]])
PREDICTION = torch.tensor([[0.5, 0.5]])


def test_squared_distance_by_hand():
    # (.8 - .5)^2 + (.2 - .5)^2 = .18, summed over classes and not averaged.
    torch.testing.assert_close(squared_distance(TARGET, PREDICTION.log()), torch.tensor([0.18]))


def test_kl_by_hand():
    expected = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    torch.testing.assert_close(kl(TARGET, PREDICTION.log()), torch.tensor([expected]))


def test_reverse_kl_by_hand():
    expected = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    torch.testing.assert_close(reverse_kl(TARGET, PREDICTION.log()), torch.tensor([expected]))


def test_kl_agrees_with_torch():
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    target = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).softmax(-1)
    expected = F.kl_div(logits.log_softmax(-1), target, reduction="none").sum(-1)
    torch.testing.assert_close(kl(target, logits.log_softmax(-1)), expected)


def test_a_target_without_mass_gives_finite_distances_and_gradients():
    logits = torch.zeros(1, 3, requires_grad=True)
    target = torch.tensor([[1.0, 0.0, 0.0]])
    for distance in (squared_distance, kl, reverse_kl):
        (gradient,) = torch.autograd.grad(distance(target, logits.log_softmax(-1)).sum(), logits)
        assert torch.isfinite(gradient).all()
