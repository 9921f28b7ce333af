"""Dropout on all cores: rates, gradients and seeds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.encoders.fused import dropout
from scr.encoders.fused._parallel import TINY


@pytest.fixture
def ones() -> torch.Tensor:
    return torch.ones(2000, 131)


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _bound(chance: float, count: int) -> float:
    """Five standard deviations of the share of kept numbers."""
    return 5 * math.sqrt(chance * (1 - chance) / count)


@pytest.mark.parametrize("chance", [0.01, 0.2, 0.5, 0.9])
def test_share_of_kept_numbers_is_within_binomial_bounds(ones, chance):
    torch.manual_seed(0)
    kept = dropout(ones, chance) != 0
    share = kept.float().mean().item()
    assert abs(share - (1 - chance)) < _bound(chance, ones.numel())
    per_column, per_row = kept.float().mean(0), kept.float().mean(1)
    assert (per_column - (1 - chance)).abs().max() < 1.2 * _bound(chance, len(ones))
    assert (per_row - (1 - chance)).abs().max() < 1.2 * _bound(chance, ones.shape[1])


def test_neighbors_in_rows_and_columns_are_independent():
    torch.manual_seed(1)
    centered = (dropout(torch.ones(4000, 256), 0.5) != 0).float() - 0.5
    for product in (centered[1:] * centered[:-1], centered[:, 1:] * centered[:, :-1]):
        assert abs(product.mean().item()) < 5 * 0.25 / math.sqrt(product.numel())


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.75])
def test_mean_is_unbiased_and_kept_numbers_share_one_scale(ones, chance):
    torch.manual_seed(2)
    silenced = dropout(ones, chance)
    values = silenced[silenced != 0].unique()
    torch.testing.assert_close(values, torch.tensor([1 / (1 - chance)]))
    assert abs(silenced.mean().item() - 1) < _bound(chance, ones.numel()) / (1 - chance)


def test_gradient_is_mask_times_scale(ones):
    torch.manual_seed(3)
    numbers = torch.randn(300, 57, requires_grad=True)
    silenced = dropout(numbers, 0.4)
    incoming = torch.randn_like(silenced)
    silenced.backward(incoming)
    mask = (silenced != 0).float()
    torch.testing.assert_close(numbers.grad, incoming * mask / 0.6)


def test_second_derivative_passes_through():
    torch.manual_seed(4)
    numbers = torch.randn(100, 100, requires_grad=True)
    silenced = dropout(numbers, 0.5)
    (slope,) = torch.autograd.grad((silenced**3).sum(), numbers, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), numbers)
    mask = (silenced != 0).float()
    # d2/dx2 (s x)^3 = 6 s^3 x with s = 2 where kept.
    torch.testing.assert_close(curvature, 48 * numbers.detach() * mask)


def test_manual_seed_reproduces_and_calls_differ(ones):
    torch.manual_seed(5)
    first, second = dropout(ones, 0.5), dropout(ones, 0.5)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout(ones, 0.5), first, rtol=0, atol=0)
    assert ((first != second).float().mean() - 0.5).abs() < _bound(0.5, ones.numel())


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_result_does_not_depend_on_threads(ones, threads):
    torch.set_num_threads(1)
    torch.manual_seed(6)
    alone = dropout(ones, 0.3)
    torch.set_num_threads(threads)
    torch.manual_seed(6)
    assert torch.equal(dropout(ones, 0.3), alone)


@pytest.mark.parametrize("shape", [(10,), (100, 100)])
def test_chance_zero_is_identity_and_chance_one_is_silence(shape):
    numbers = torch.randn(shape)
    assert torch.equal(dropout(numbers, 0.0), numbers)
    assert not dropout(numbers, 1.0).any()


def test_evaluation_is_identity_and_draws_nothing():
    numbers = torch.randn(100, 100)
    state = torch.get_rng_state()
    assert dropout(numbers, 0.5, training=False) is numbers
    assert torch.equal(torch.get_rng_state(), state)


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 3 * TINY), chance=st.floats(0.05, 0.95), seed=st.integers(0, 2**31))
def test_every_size_gets_zeros_and_scaled_numbers_only(size, chance, seed):
    torch.manual_seed(seed)
    numbers = torch.arange(1, size + 1).float()
    ratio = dropout(numbers, chance) / numbers
    scaled = ratio[ratio != 0]
    torch.testing.assert_close(scaled, torch.full_like(scaled, 1 / (1 - chance)))


def test_strided_input_and_other_precisions_work():
    torch.manual_seed(7)
    strided = torch.ones(200, 6, 50)[:, 2]
    assert set(dropout(strided, 0.5).unique().tolist()) == {0.0, 2.0}
    assert dropout(torch.ones(100, 100, dtype=torch.float64), 0.5).dtype == torch.float64
