"""The fused pass equals the four torch layers that it replaces, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from scr.encoders.fused import activate, make_norm
from scr.encoders.fused._activation import column_moments

ROWS, COLUMNS = 700, 24


def _plain(x, norm, bias, residual, slope):
    """The same in torch's own layers."""
    x = norm(x + bias)
    if residual is not None:
        x = x + residual
    return F.prelu(x, slope)


def _leaves(*tensors):
    return [None if t is None else t.clone().requires_grad_() for t in tensors]


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["batch", "layer", "none"])
def test_values_gradients_and_statistics_equal_torch_layers(kind, training, with_residual):
    torch.manual_seed(0)
    # Columns far from zero are where a careless variance goes wrong.
    x = torch.randn(ROWS, COLUMNS) * 2 + torch.linspace(-50, 50, COLUMNS)
    residual = torch.randn(ROWS, COLUMNS) if with_residual else None
    bias, slope = torch.randn(COLUMNS), torch.rand(COLUMNS)
    incoming = torch.randn(ROWS, COLUMNS)
    ours, theirs = make_norm(kind, COLUMNS), make_norm(kind, COLUMNS).double()
    if kind != "none":
        nn.init.uniform_(ours.weight, 0.5, 1.5)
        nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    ours.train(training)
    theirs.train(training)

    mine = _leaves(x, bias, residual, slope)
    result = activate(mine[0], ours, bias=mine[1], residual=mine[2], slope=mine[3])
    result.backward(incoming)
    reference = _leaves(*(None if t is None else t.double() for t in (x, bias, residual, slope)))
    expected = _plain(reference[0], theirs, reference[1], reference[2], reference[3])
    expected.backward(incoming.double())

    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(mine, reference, strict=True):
        if one is not None:
            torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-4, atol=2e-3)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-4, atol=2e-3)
    for one, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=1e-4, atol=1e-5)


def test_noise_is_one_mask_in_both_directions():
    torch.manual_seed(1)
    x = torch.rand(ROWS, COLUMNS) + 0.1
    x.requires_grad_()
    result = activate(x, nn.Identity(), chance=0.25, training=True)
    mask = (result != 0).float()
    assert abs(mask.mean().item() - 0.75) < 0.02
    torch.testing.assert_close(result, x * mask / 0.75)
    result.sum().backward()
    torch.testing.assert_close(x.grad, mask / 0.75)


def test_gradient_through_batch_statistics_and_noise_equals_torch_with_the_same_mask():
    torch.manual_seed(2)
    ours, theirs = make_norm("batch", 16), make_norm("batch", 16).double()
    slope = torch.full((16,), 0.25)
    x, incoming = torch.randn(400, 16, requires_grad=True), torch.randn(400, 16)
    result = activate(x, ours, slope=slope, chance=0.5, training=True)
    result.backward(incoming)
    mask = (result != 0).double() / 0.5
    reference = x.detach().double().requires_grad_()
    expected = F.prelu(theirs(reference), slope.double()) * mask
    expected.backward(incoming.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x.grad.double(), reference.grad, rtol=1e-4, atol=1e-5)


def test_sums_over_rows_do_not_depend_on_threads():
    torch.manual_seed(3)
    x = torch.randn(5000, 64)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = column_moments(x)
        torch.set_num_threads(4)
        together = column_moments(x)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    torch.testing.assert_close(alone[1], x.double().var(0, unbiased=False), rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [2, 7, ROWS])
def test_a_bias_that_batch_norm_takes_away_has_a_gradient_of_zero(rows, kind):
    norm = make_norm("batch", COLUMNS).to(kind)
    x, bias = torch.randn(rows, COLUMNS, dtype=kind), torch.randn(COLUMNS, dtype=kind)
    bias.requires_grad_()
    (activate(x, norm, bias=bias, training=True) ** 2).sum().backward()
    assert torch.equal(bias.grad, torch.zeros_like(bias))
    mean = 0.1 * (x.mean(0) + bias.detach())
    torch.testing.assert_close(norm.running_mean, mean, rtol=1e-5, atol=1e-6)


def test_a_batch_of_one_row_keeps_the_running_statistics():
    norm = make_norm("batch", 8)
    row = torch.randn(1, 8)
    torch.testing.assert_close(activate(row, norm, training=True), F.relu(row / (1 + 1e-5) ** 0.5))
