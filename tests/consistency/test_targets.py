"""SCR on several yes-or-no targets, by the formulas of each target."""

import pytest
import torch

from scr.consistency import ConsistencyLoss, TargetConsistencyLoss, target_confidence

LOGITS = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0])
def test_the_pseudo_label_of_each_target_is_sharpened_by_itself(temperature):
    p = torch.sigmoid(LOGITS)
    mean = p.mean(dim=0)
    one, zero = mean ** (1 / temperature), (1 - mean) ** (1 / temperature)
    q = one / (one + zero)
    # The squared distance of (1 - p, p) and (1 - q, q).
    expected = 0.7 * (2 * (p - q).square()).mean()
    loss = TargetConsistencyLoss(weight=0.7, temperature=temperature)(LOGITS)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("distance", ["mse", "kl", "reverse-kl"])
def test_one_target_is_a_problem_of_two_classes(distance):
    logits = LOGITS[..., :1]
    classes = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    ours = TargetConsistencyLoss(distance=distance)(logits)
    torch.testing.assert_close(ours, ConsistencyLoss(distance=distance)(classes))


def test_no_rows_give_no_loss():
    assert TargetConsistencyLoss()(LOGITS[:, :0]).item() == 0


def test_confidence_is_the_mean_over_targets():
    p = torch.tensor([[0.9, 0.2], [0.5, 0.5]])
    torch.testing.assert_close(target_confidence(p), torch.tensor([0.85, 0.5]))
