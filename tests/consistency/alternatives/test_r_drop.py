"""R-Drop's divergence against SciPy and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as relative_entropy

from scr.consistency.alternatives import RDropLoss
from scr.consistency.alternatives._r_drop import symmetric_divergence


@given(st.integers(2, 6), st.integers(0, 1000))
def test_the_divergence_is_the_mean_of_both_directions(classes, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2, 4, classes, dtype=torch.float64, generator=generator)
    one, other = logits.softmax(dim=-1).numpy()
    expected = 0.5 * (relative_entropy(one, other, axis=1) + relative_entropy(other, one, axis=1))
    found = symmetric_divergence(*logits.log_softmax(dim=-1)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_a_quarter_against_a_half_by_hand():
    views = torch.tensor([[[0.25, 0.75]], [[0.5, 0.5]]]).log()
    # 1/2 [(1/4 - 1/2) log(1/2) + (3/4 - 1/2) log(3/2)] = 1/8 log 3
    assert RDropLoss(2.0)(views).item() == pytest.approx(2 * np.log(3) / 8, rel=1e-5)


def test_labeled_rows_take_part_with_the_same_say():
    views = torch.tensor([[[0.25, 0.75]], [[0.5, 0.5]]]).log()
    agreed = torch.zeros(2, 3, 2)
    assert RDropLoss(1.0)(views, known=agreed).item() == pytest.approx(np.log(3) / 32, rel=1e-5)


def test_it_stays_finite_where_a_probability_underflows():
    views = torch.tensor([[[300.0, 0.0]], [[0.0, 300.0]]], requires_grad=True)
    loss = RDropLoss(1.0)(views)
    assert loss.item() == pytest.approx(300)
    loss.backward()
    assert views.grad.isfinite().all()
