"""Attention through a linear layer equals the layer and then the attention, dropped rows or not."""

from __future__ import annotations

import pytest
import torch

from scr.encoders.layers._attended_linear import attend_linear
from scr.encoders.layers._grouped_linear import grouped_linear
from scr.encoders.layers._hop_mixture import mix_hops

ROWS, HOPS, INPUTS, OUTPUTS = 700, 4, 12, 9


def _weigh_with(mask):
    def weigh(dots, context):
        weights = torch.softmax(dots[..., 0] * context + dots[:, :1, :, 1], 1)
        return weights * mask.to(weights.dtype)

    return weigh


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("heads", [1, 3])
def test_values_and_gradients_equal_the_two_steps_in_double_precision(heads, kept):
    torch.manual_seed(0)
    shapes = [(ROWS, HOPS * heads, INPUTS), (HOPS * heads, INPUTS, OUTPUTS)]
    shapes += [(HOPS * heads, OUTPUTS), (heads, 2, OUTPUTS), (1,)]
    singles = [torch.randn(shape).requires_grad_() for shape in shapes]
    weigh = _weigh_with(torch.rand(ROWS, HOPS, heads) < kept)
    incoming = torch.randn(ROWS, heads, OUTPUTS)
    result = attend_linear(*singles, weigh)
    result.backward(incoming)

    z, weight, bias, vectors, context = doubles = [
        tensor.detach().double().requires_grad_() for tensor in singles
    ]
    hidden = grouped_linear(z, weight, bias).view(ROWS, HOPS, heads, OUTPUTS)
    expected = mix_hops(hidden, vectors, context, weigh)
    expected.backward(incoming.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-3, atol=1e-4)
    for one, other in zip(singles, doubles, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("heads", [1, 3])
def test_weights_need_no_vectors(heads):
    torch.manual_seed(2)
    z, weight = torch.randn(ROWS, HOPS * heads, INPUTS), torch.randn(HOPS * heads, INPUTS, OUTPUTS)
    bias, none = torch.randn(HOPS * heads, OUTPUTS), torch.empty(heads, 0, OUTPUTS)

    def mean(dots, _):
        return dots.new_full(dots.shape[:-1], 1 / HOPS)

    mixed = attend_linear(z, weight, bias, none, torch.empty(0), mean)
    hidden = torch.einsum("rgi,gio->rgo", z.double(), weight.double()) + bias
    expected = hidden.unflatten(1, (HOPS, heads)).mean(1)
    torch.testing.assert_close(mixed.double(), expected, rtol=1e-4, atol=1e-4)


def test_result_does_not_depend_on_threads():
    torch.manual_seed(1)
    z = torch.randn(ROWS, HOPS, INPUTS, requires_grad=True)
    weight, bias = torch.randn(HOPS, INPUTS, OUTPUTS), torch.randn(HOPS, OUTPUTS)
    vectors = torch.randn(1, 2, OUTPUTS, requires_grad=True)
    weigh = _weigh_with(torch.rand(ROWS, HOPS, 1) < 0.5)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            z.grad = vectors.grad = None
            mixed = attend_linear(z, weight, bias, vectors, torch.ones(1), weigh)
            mixed.square().sum().backward()
            found.append((mixed.detach(), z.grad, vectors.grad))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        # torch's own products may differ in the last bit; our sums may not add to that.
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
