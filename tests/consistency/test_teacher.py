"""The averaged teacher against its recursion worked by hand."""

import copy

import pytest
import torch
from torch import nn

from scr.consistency import MeanTeacher, ema_decay_at
from scr.errors import ConfigError


def test_the_teacher_starts_as_a_copy_and_follows_the_recursion():
    student = nn.Linear(1, 1, bias=False)
    student.weight.data.fill_(1.0)
    teacher = MeanTeacher(student, decay=0.9)
    assert teacher.model.weight.item() == 1.0
    expected = 1.0
    for value in (2.0, -1.0, 5.0):
        student.weight.data.fill_(value)
        teacher.update(student)
        expected = 0.9 * expected + 0.1 * value
    assert teacher.model.weight.item() == pytest.approx(expected)


def test_batch_norm_statistics_are_averaged_too():
    student = nn.BatchNorm1d(2)
    teacher = MeanTeacher(student, decay=0.5)
    student.running_mean.fill_(4.0)
    student.num_batches_tracked.fill_(3)
    teacher.update(student)
    assert teacher.model.running_mean.tolist() == [2.0, 2.0]
    assert teacher.model.num_batches_tracked.item() == 3


def test_the_ramp_is_the_papers_minimum():
    assert ema_decay_at(1, 0.99, ramp=True) == 0.5
    assert ema_decay_at(9, 0.99, ramp=True) == pytest.approx(0.9)
    assert ema_decay_at(10**6, 0.99, ramp=True) == 0.99
    assert ema_decay_at(1, 0.99) == 0.99


def test_decay_zero_makes_the_teacher_the_student():
    student = nn.Linear(3, 2)
    teacher = MeanTeacher(student, decay=0.0)
    nn.init.normal_(student.weight)
    teacher.update(student)
    assert torch.equal(teacher.model.weight, student.weight)


def test_pseudo_labels_carry_no_gradient_and_no_dropout():
    student = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    teacher = MeanTeacher(student)
    rows = torch.randn(5, 4)
    first = teacher(rows)
    assert not first.requires_grad
    assert torch.equal(first, teacher(rows))
    torch.testing.assert_close(first.sum(-1), torch.ones(5))
    assert not any(weight.requires_grad for weight in teacher.model.parameters())


def test_teacher_dropout_leaves_batch_statistics_alone():
    student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    teacher = MeanTeacher(student)
    before = copy.deepcopy(teacher.model.state_dict())
    rows = torch.randn(16, 4)
    assert not torch.equal(teacher(rows, dropout=True), teacher(rows, dropout=True))
    for name, value in teacher.model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_outside_its_range_is_named(decay):
    with pytest.raises(ConfigError, match="decay"):
        MeanTeacher(nn.Linear(1, 1), decay=decay)
