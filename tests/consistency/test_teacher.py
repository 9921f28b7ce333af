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


def test_a_restarted_teacher_is_the_student_and_its_ramp_counts_from_there():
    student = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    teacher = MeanTeacher(student, decay=0.9, ramp=True)
    for _ in range(50):
        teacher.update()
    student[0].weight.data.fill_(3.0)
    student[1].running_mean.fill_(5.0)
    teacher.restart()
    assert teacher.model[0].weight.item() == 3.0
    assert teacher.model[1].running_mean.item() == 5.0
    student[0].weight.data.fill_(4.0)
    teacher.update()
    assert teacher.model[0].weight.item() == 3.5  # min(1 - 1/2, 0.9) is 1/2 at the first step


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_restart_in_half_precision_is_exact(kind):
    student, teacher = a_half_teacher(kind)
    teacher.update()
    student.weight.data.fill_(0.1)
    teacher.restart()
    assert torch.equal(teacher.model.weight, student.weight)
    assert teacher.averages["weight"].item() == student.weight.item()


def test_a_teacher_with_batch_statistics_is_a_model_in_training_mode_without_its_side_effects():
    student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    student[1].running_mean.fill_(100.0)
    teacher = MeanTeacher(student, statistics="batch")
    before = copy.deepcopy(teacher.model.state_dict())
    rows = torch.randn(16, 4)
    hidden = student[0](rows)
    by_hand = (hidden - hidden.mean(0)) / torch.sqrt(hidden.var(0, unbiased=False) + 1e-5)
    torch.testing.assert_close(teacher(rows), by_hand.softmax(-1))
    for name, value in teacher.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert not any(module.training for module in teacher.model.modules())
    assert teacher.model[1].track_running_stats


def test_unknown_statistics_are_named():
    with pytest.raises(ConfigError, match="teacher_statistics"):
        MeanTeacher(nn.Linear(1, 1), statistics="running")


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


def a_half_teacher(kind, weight=1.0, decay=0.99):
    student = nn.Linear(1, 1, bias=False).to(kind)
    student.weight.data.fill_(weight)
    return student, MeanTeacher(student, decay=decay)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_teacher_in_half_precision_follows_the_recursion(kind):
    student, teacher = a_half_teacher(kind)
    student.weight.data.fill_(1.125)  # in bfloat16, 1 + 0.01 x 0.125 would be 1 again, for ever
    for _ in range(300):
        teacher.update()
    expected = 1.125 - 0.125 * 0.99**300
    assert teacher.model.weight.dtype == kind
    assert teacher.model.weight.item() == torch.tensor(expected).to(kind).item() != 1.0
    assert teacher.averages["weight"].item() == pytest.approx(expected, rel=1e-5)


def test_statistics_in_half_precision_are_averaged_in_single():
    student = nn.BatchNorm1d(1).bfloat16()
    teacher = MeanTeacher(student, decay=0.999)
    student.running_var.fill_(2.0)
    for _ in range(1000):
        teacher.update()
    assert teacher.model.running_var.item() == pytest.approx(2 - 0.999**1000, rel=2**-8)


def test_a_state_keeps_an_average_that_is_finer_than_the_model():
    student, teacher = a_half_teacher(torch.bfloat16)
    student.weight.data.fill_(2.0)
    for _ in range(10):
        teacher.update()
    state = {name: value.clone() for name, value in teacher.state_dict().items()}
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    _, other = a_half_teacher(torch.bfloat16)
    other.load_state_dict(state)
    other.update(student)
    assert other.averages["weight"].item() == pytest.approx(2 - 0.99**11, rel=1e-6)


def test_a_state_of_rounded_weights_alone_is_gone_on_from():
    student, teacher = a_half_teacher(torch.bfloat16, 1.5)
    teacher.update()
    old = {"model.weight": torch.tensor([[1.25]]).bfloat16(), "_extra_state": torch.tensor(7)}
    teacher.load_state_dict(old)
    assert teacher.step == 7
    teacher.update(student)
    assert teacher.averages["weight"].item() == pytest.approx(0.99 * 1.25 + 0.01 * 1.5)


def test_weights_that_are_put_into_the_teachers_model_count():
    _, teacher = a_half_teacher(torch.bfloat16, 1.0, decay=0.5)
    teacher.update()
    teacher.model.weight.fill_(4.0)
    assert not [name for name in teacher.state_dict() if name.startswith("averages")]
    teacher.update()
    assert teacher.model.weight.item() == 2.5


def test_single_precision_has_its_averages_in_the_model_alone():
    student = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    teacher = MeanTeacher(student)
    teacher.update()
    expected = {f"model.{name}" for name in student.state_dict()} | {"_extra_state"}
    assert set(teacher.state_dict()) == expected
    assert teacher.averages == {}


def test_a_teacher_whose_precision_is_changed_goes_on():
    student, teacher = a_half_teacher(torch.float32)
    teacher.bfloat16()
    student.weight.data.fill_(1.125)
    for _ in range(300):
        teacher.update()
    assert teacher.averages["weight"].item() == pytest.approx(1.125 - 0.125 * 0.99**300, rel=1e-5)
    teacher.float()
    before = teacher.model.weight.item()
    teacher.update()
    assert teacher.model.weight.item() == pytest.approx(0.99 * before + 0.01 * 1.125)
    assert teacher.averages == {}


def test_a_model_with_other_layers_is_no_student():
    teacher = MeanTeacher(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ConfigError, match=r"student\.1\.weight.*that the teacher does not have"):
        teacher.update(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    assert teacher.step == 0


def test_a_function_is_neither_model_nor_student():
    with pytest.raises(ConfigError, match="`model` is 'function'; expected a torch module"):
        MeanTeacher(lambda rows: rows)
    with pytest.raises(ConfigError, match="`student` is 'function'; expected a torch module"):
        MeanTeacher(nn.Linear(1, 1)).update(lambda rows: rows)


def test_an_owner_may_have_two_teachers_of_itself():
    owner = nn.Sequential(nn.Linear(1, 1, bias=False))
    owner.weights = nn.ParameterList()
    owner.fast, slow = MeanTeacher(owner, 0.5), MeanTeacher(owner, 0.75)
    owner.slow = slow
    before = owner[0].weight.item()
    nn.init.zeros_(owner[0].weight)
    owner.fast.update()
    assert owner.fast.model[0].weight.item() == pytest.approx(before / 2)
