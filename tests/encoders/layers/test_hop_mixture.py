"""Mixing hops in compiled loops equals the sums written out, forward and backward."""

from __future__ import annotations

import pytest
import torch

from scr.encoders.layers._grouped_linear import grouped_linear
from scr.encoders.layers._hop_mixture import mix_hops


def _weigh(dots, context):
    return torch.softmax(dots[..., 0] * context + dots[:, :1, :, 1], 1)


@pytest.mark.parametrize("heads", [1, 3])
def test_mixture_and_its_gradients_equal_loops_in_double_precision(heads):
    torch.manual_seed(0)
    hidden = torch.randn(500, 4, heads, 10, requires_grad=True)
    vectors = torch.randn(heads, 2, 10, requires_grad=True)
    context = torch.tensor([0.7], requires_grad=True)
    incoming = torch.randn(500, heads, 10)
    mixed = mix_hops(hidden, vectors, context, _weigh)
    mixed.backward(incoming)

    wide, across, scale = (t.detach().double().requires_grad_() for t in (hidden, vectors, context))
    scores = torch.stack(
        [
            (wide[:, k] * across[:, 0]).sum(-1) * scale + (wide[:, 0] * across[:, 1]).sum(-1)
            for k in range(4)
        ],
        1,
    )
    weights = scores.exp() / scores.exp().sum(1, keepdim=True)
    expected = sum(weights[:, k, :, None] * wide[:, k] for k in range(4))
    expected.backward(incoming.double())
    torch.testing.assert_close(mixed.double(), expected, rtol=1e-4, atol=1e-5)
    for one, other in ((hidden, wide), (vectors, across), (context, scale)):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=1e-4)


def test_constant_weights_need_no_gradient():
    hidden = torch.randn(600, 3, 1, 8, requires_grad=True)
    mixed = mix_hops(
        hidden,
        torch.zeros(1, 0, 8),
        torch.zeros(0),
        lambda dots, _: dots.new_full(dots.shape[:3], 1 / 3),
    )
    mixed.sum().backward()
    torch.testing.assert_close(mixed, hidden.mean(1))
    torch.testing.assert_close(hidden.grad, torch.full_like(hidden, 1 / 3))


@pytest.mark.parametrize("groups", [1, 4])
def test_grouped_linear_equals_one_linear_layer_per_group(groups):
    torch.manual_seed(1)
    x = torch.randn(50, groups, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(groups, 7, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(groups, 5, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(grouped_linear, (x, weight, bias))
    result = grouped_linear(x, weight, bias)
    for group in range(groups):
        expected = x[:, group] @ weight[group] + bias[group]
        torch.testing.assert_close(result[:, group], expected)
