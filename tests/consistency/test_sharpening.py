"""Sharpening against the paper's power rule, and where that rule underflows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.consistency import sharpen
from scr.errors import ConfigError


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0])
def test_sharpen_is_the_papers_power_rule(temperature):
    probabilities = torch.tensor([[0.2, 0.3, 0.5]])
    powers = probabilities ** (1 / temperature)
    torch.testing.assert_close(sharpen(probabilities, temperature), powers / powers.sum())


def test_sharpen_by_hand():
    # T = 1/2 squares: (.01, .04, .49) / .54 for (.1, .2, .7).
    expected = torch.tensor([[0.01, 0.04, 0.49]]) / 0.54
    torch.testing.assert_close(sharpen(torch.tensor([[0.1, 0.2, 0.7]]), 0.5), expected)


def test_sharpen_survives_where_powers_underflow():
    probabilities = torch.full((1, 1000), 1e-3)
    probabilities[0, 7] = 2e-3
    assert ((probabilities ** (1 / 0.01)) == 0).all()  # the plain rule is 0/0 here
    sharp = sharpen(probabilities, 0.01)
    assert sharp.argmax() == 7
    torch.testing.assert_close(sharp.sum(), torch.tensor(1.0))


def test_a_certain_pseudo_label_stays_as_it_is():
    certain = torch.tensor([[0.0, 1.0, 0.0]])
    torch.testing.assert_close(sharpen(certain, 0.3), certain)


@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=6, unique=True),
    st.floats(0.1, 0.99),
)
def test_sharpening_keeps_the_order_and_lowers_the_entropy(weights, temperature):
    probabilities = torch.tensor([weights], dtype=torch.float64)
    probabilities /= probabilities.sum()
    sharp = sharpen(probabilities, temperature)
    assert torch.equal(sharp.argsort(stable=True), probabilities.argsort(stable=True))
    entropy = lambda p: -(p * p.log()).sum()  # noqa: E731
    assert entropy(sharp) <= entropy(probabilities) + 1e-9


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1.5])
def test_a_temperature_outside_its_range_is_named(temperature):
    with pytest.raises(ConfigError, match="temperature"):
        sharpen(torch.tensor([[0.5, 0.5]]), temperature)
