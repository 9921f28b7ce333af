"""The loss of a mixed batch against the paper's formula written out in loops."""

import math

import pytest
import torch
from torch import nn

from scr.consistency import ConsistencyLoss, MeanTeacher
from scr.encoders import HopBatch
from scr.training._objective import balanced_class_weights, mixed_loss, supervised_loss


class Scripted(nn.Module):
    """Returns prepared logits, one set per call, scaled by a parameter so that gradients exist."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits
        self.scale = nn.Parameter(torch.ones(()))
        self.calls = 0

    def forward(self, batch):
        self.calls += 1
        return self.logits[(self.calls - 1) % len(self.logits)][: len(batch)] * self.scale


def test_the_mixed_loss_is_the_papers_equation():
    torch.manual_seed(0)
    views = torch.randn(2, 5, 3)
    targets = torch.tensor([2, 0])
    batch = HopBatch(torch.zeros(5, 1, 1))
    loss = mixed_loss(Scripted(views), batch, targets, ConsistencyLoss(0.3, 0.5), views=2)
    p = views.softmax(-1)
    supervised = sum(-math.log(p[s, i, targets[i]]) for s in range(2) for i in range(2)) / (2 * 2)
    consistent = 0.0
    for i in range(2, 5):
        target = p[:, i].mean(0) ** 2
        target = target / target.sum()
        consistent += sum(float(((target - p[s, i]) ** 2).sum()) for s in range(2))
    consistent *= 0.3 / (2 * 3)
    assert loss.supervised.item() == pytest.approx(supervised, rel=1e-5)
    assert loss.consistency.item() == pytest.approx(consistent, rel=1e-5)
    assert loss.total.item() == pytest.approx(supervised + consistent, rel=1e-5)


def test_a_teacher_sees_only_the_unlabeled_rows():
    torch.manual_seed(0)
    student = Scripted(torch.randn(1, 5, 3))
    teacher = MeanTeacher(student)
    seen = []
    teacher.model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    batch = HopBatch(torch.zeros(5, 1, 1))
    mixed_loss(student, batch, torch.tensor([2, 0]), ConsistencyLoss(), views=1, teacher=teacher)
    assert seen == [3]


def test_balanced_weights_give_every_class_the_same_say():
    targets = torch.tensor([0, 0, 0, 1])
    weights = balanced_class_weights(targets, 3)
    # Inverse shares over two present classes: 4/(2*3) and 4/(2*1); the absent class is unused.
    torch.testing.assert_close(weights, torch.tensor([4 / 6, 2.0, 1.0]))


def test_class_weights_agree_with_torch():
    logits, targets = torch.randn(1, 4, 3), torch.tensor([0, 0, 0, 1])
    weights = torch.tensor([1.0, 3.0, 1.0])
    expected = nn.functional.cross_entropy(logits[0], targets, weight=weights)
    torch.testing.assert_close(supervised_loss(logits, targets, weights), expected)
