"""Entropy minimization against SciPy and by hand."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from scr.consistency.alternatives import EntropyLoss
from scr.consistency.alternatives._entropy import entropy


def test_entropy_is_shannons_in_nats():
    logits = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = scipy_entropy(logits.softmax(dim=-1).numpy(), axis=1)
    np.testing.assert_allclose(entropy(logits).numpy(), expected, rtol=1e-12)


def test_an_undecided_row_has_the_logarithm_of_the_classes_and_a_decided_one_nothing():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [500.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(entropy(logits), torch.tensor([np.log(4), 0.0], dtype=torch.float32))


def test_the_term_is_the_weighted_mean_over_rows_and_views():
    logits = torch.zeros(2, 3, 2)
    logits[0, 0, 0] = 500  # one of six predictions is decided
    loss = EntropyLoss(0.3)(logits)
    assert loss.item() == pytest.approx(0.3 * 5 / 6 * np.log(2))


def test_a_step_against_the_gradient_decides_in_the_direction_of_the_likelier_class():
    logits = torch.tensor([[[0.2, 0.0]]], requires_grad=True)
    EntropyLoss()(logits).backward()
    assert logits.grad[0, 0, 0] < 0 < logits.grad[0, 0, 1]
