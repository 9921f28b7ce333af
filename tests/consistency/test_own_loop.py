"""What a loop that is not ours relies on: shapes, precisions, state, and sentences."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import scr
from scr.consistency.alternatives import FixMatchLoss, FreeMatchLoss, SoftMatchLoss
from scr.errors import ConfigError


def logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))


def test_a_list_of_views_is_their_stack():
    views = [logits(5, 3), logits(5, 3, seed=1)]
    loss = scr.ConsistencyLoss()
    assert loss(views) == loss(torch.stack(views))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_precision(kind):
    views = (4 * logits(2, 6, 3)).to(kind).requires_grad_()
    loss = scr.ConsistencyLoss(1.0, 0.25)(views)
    assert loss.dtype == torch.float32
    assert loss == scr.ConsistencyLoss(1.0, 0.25)(views.detach().float())
    loss.backward()
    assert views.grad.isfinite().all()
    assert views.grad.any()


def test_loss_and_teacher_work_under_autocast():
    model, rows = small_model(), logits(6, 4)
    teacher = scr.MeanTeacher(model)
    with torch.autocast("cpu", torch.bfloat16):
        views = [model(rows), model(rows)]
        assert views[0].dtype == torch.bfloat16
        pseudo_labels = teacher(rows)
        loss = scr.ConsistencyLoss()(views, pseudo_labels)
    assert pseudo_labels.dtype == loss.dtype == torch.float32
    loss.backward()
    teacher.update()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (logits(4), r"torch\.float32 of shape \(4,\).*expected numbers of shape \(views, nodes"),
        (torch.zeros(2, 3, dtype=torch.int64), r"torch\.int64 of shape \(2, 3\)"),
        ([logits(4, 3), logits(5, 3)], r"\(4, 3\), \(5, 3\).*expected views of one shape"),
        ([], "no views"),
        (torch.zeros(0, 4, 3), r"of shape \(0, 4, 3\)'; expected at least one view"),
        (None, "'NoneType'; expected a tensor, or a list of one tensor per view"),
        (np.zeros((2, 4, 3)), "'ndarray'; expected a tensor"),
        ([np.zeros((4, 3))] * 2, "'a list with a ndarray'; expected a tensor"),
        ((logits(4, 3) for _ in range(2)), "'generator'; expected a tensor"),
    ],
)
def test_views_of_a_wrong_shape_are_named(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        scr.ConsistencyLoss()(given)


def test_pseudo_labels_of_other_nodes_or_without_softmax_are_named():
    loss = scr.ConsistencyLoss()
    with pytest.raises(ConfigError, match=r"of shape \(9, 3\)'; expected \(4, 3\)"):
        loss(logits(2, 4, 3), logits(9, 3).softmax(-1))
    with pytest.raises(ConfigError, match="expected class probabilities"):
        loss(logits(2, 4, 3), logits(4, 3))


LOSSES_WITH_PSEUDO_LABELS = [
    scr.ConsistencyLoss(),
    FixMatchLoss(),
    FreeMatchLoss(3),
    SoftMatchLoss(3),
]
GOOD = [0.2, 0.3, 0.5]


@pytest.mark.parametrize("loss", LOSSES_WITH_PSEUDO_LABELS, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([3.0, -1.0, -1.0], "numbers from -1 that add up to 1, in row 1"),
        ([0.9, 0.9, 0.9], "numbers from 0.9 that add up to 2.7, in row 1"),
        ([0.0, 0.0, 0.0], "numbers from 0 that add up to 0, in row 1"),
    ],
)
def test_logits_in_any_row_are_no_pseudo_labels(loss, row, sentence):
    state = copy.deepcopy(loss.state_dict())
    with pytest.raises(ConfigError, match=sentence) as error:
        loss(logits(2, 3, 3), torch.tensor([GOOD, row, GOOD]))
    assert "softmax" in error.value.hint
    assert all(torch.equal(value, state[name]) for name, value in loss.state_dict().items())
    with pytest.raises(ConfigError, match=r"of shape \(2, 3\)'; expected \(3, 3\)"):
        loss(logits(2, 3, 3), torch.tensor([GOOD, GOOD]))
    with pytest.raises(ConfigError, match="'ndarray'; expected a tensor of class probabilities"):
        loss(logits(2, 3, 3), np.array([GOOD] * 3))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [3, 1000])
def test_pseudo_labels_in_half_precision_are_those_of_single(kind, classes):
    rounded = (3 * logits(200, classes)).to(kind).softmax(-1)
    views = logits(2, 200, classes, seed=1)
    for make in (scr.ConsistencyLoss, lambda: FixMatchLoss(threshold=0.5),
                 lambda: FreeMatchLoss(classes), lambda: SoftMatchLoss(classes)):  # fmt: skip
        assert make()(views, rounded) == make()(views, rounded.float())


@pytest.mark.parametrize("make", [FreeMatchLoss, SoftMatchLoss])
def test_a_loss_that_was_made_for_other_classes_is_named(make):
    with pytest.raises(ConfigError, match="of 7 classes'; expected 5"):
        make(classes=5)(logits(2, 4, 7), logits(4, 7).softmax(-1))


def test_a_teacher_knows_its_student():
    student = small_model()
    teacher, told = scr.MeanTeacher(student, 0.9), scr.MeanTeacher(student, 0.9)
    nn.init.normal_(student[0].weight)
    teacher.update()
    told.update(student)
    assert torch.equal(teacher.model[0].weight, told.model[0].weight)
    assert not torch.equal(teacher.model[0].weight, student[0].weight)


class Owner(nn.Module):
    """Has the student and its teacher, as a Lightning module would."""

    def __init__(self):
        super().__init__()
        self.model = small_model()
        self.teacher = scr.MeanTeacher(self.model, 0.9, ramp=True)


def test_a_teacher_is_in_the_state_of_its_owner():
    owner = Owner()
    for _ in range(3):
        nn.init.normal_(owner.model[0].weight)
        owner.teacher.update()
    other = Owner()
    other.load_state_dict(owner.state_dict())
    assert other.teacher.step == 3
    for one in (owner, other):
        nn.init.ones_(one.model[0].weight)
        one.teacher.update()
    assert torch.equal(other.teacher.model[0].weight, owner.teacher.model[0].weight)
    assert not [name for name in owner.state_dict() if "student" in name]


def test_a_copy_of_the_owner_has_a_teacher_of_its_own_student():
    owner = Owner()
    twin = copy.deepcopy(owner)
    before = owner.teacher.model[0].weight.clone()
    nn.init.normal_(twin.model[0].weight)
    twin.teacher.update()
    assert torch.equal(owner.teacher.model[0].weight, before)
    assert not torch.equal(twin.teacher.model[0].weight, before)


def test_an_owner_may_be_its_own_student():
    owner = small_model()
    owner.teacher = scr.MeanTeacher(owner, 0.5)
    before = owner[0].weight.detach().clone()
    nn.init.zeros_(owner[0].weight)
    owner.teacher.update()
    torch.testing.assert_close(owner.teacher.model[0].weight, before / 2)


def test_training_its_owner_leaves_a_teacher_without_dropout_and_gradient():
    owner, rows = Owner().train(), logits(6, 4)
    assert torch.equal(owner.teacher(rows), owner.teacher(rows))
    optimizer = torch.optim.Adam(owner.parameters(), lr=0.1, weight_decay=0.1)
    before = copy.deepcopy(owner.teacher.state_dict())
    owner.model(rows).sum().backward()
    optimizer.step()
    after = owner.teacher.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in after.items())


def test_a_student_of_another_precision_is_averaged_in_the_teachers():
    student = nn.Linear(2, 2, bias=False)
    student.weight.data.fill_(1.0)
    teacher = scr.MeanTeacher(student, 0.999)
    student.bfloat16()
    student.weight.data.fill_(2.0)
    teacher.update()
    # In bfloat16, 1.001 would be 1.
    torch.testing.assert_close(teacher.model.weight, torch.full((2, 2), 1.001))


def test_another_student_or_one_without_shapes_is_named():
    teacher = scr.MeanTeacher(nn.Linear(4, 3))
    with pytest.raises(ConfigError, match=r"student\.weight.*\(5, 4\).*expected shape \(3, 4\)"):
        teacher.update(nn.Linear(4, 5))
    assert teacher.step == 0
    with pytest.raises(ConfigError, match="expected a model whose weights have shapes"):
        scr.MeanTeacher(nn.LazyLinear(3))


def test_candidates_may_be_a_mask_and_predictions_a_function():
    mask = torch.tensor([True, False, True, True])
    confident = scr.ConfidentSet(mask, threshold=0.8)
    assert confident.candidates.tolist() == [0, 2, 3]
    every = torch.tensor([[0.9, 0.1], [1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
    confident.update(lambda nodes: every[nodes])
    assert confident.nodes.tolist() == [0, 3]
    assert len(confident) == 2
    with pytest.raises(ConfigError, match=r"hint: .*probabilities\[confident\.to_score"):
        confident.update(every)
    with pytest.raises(ConfigError, match="numbers from 0 to 9"):
        confident.update(10 * every[:3].clamp(max=0.9))
    assert confident.nodes.tolist() == [0, 3]


@pytest.mark.parametrize(
    "candidates",
    [torch.zeros(2, 2, dtype=torch.bool), torch.rand(3), np.array([0.0, 1.0]), [[1, 2]], 5],
)
def test_candidates_that_are_no_nodes_are_named(candidates):
    with pytest.raises(ConfigError, match="expected node numbers, or a mask"):
        scr.ConfidentSet(candidates)


@pytest.mark.parametrize(
    ("candidates", "nodes"),
    [
        ([1, 4], [1, 4]),
        ([], []),
        ([True, False, True], [0, 2]),
        (np.array([True, False, True]), [0, 2]),
        (np.array([1, 4], dtype=np.int32), [1, 4]),
        (torch.tensor([1, 4], dtype=torch.int32), [1, 4]),
    ],
)
def test_candidates_may_be_lists_and_numpy_arrays(candidates, nodes):
    confident = scr.ConfidentSet(candidates)
    assert confident.nodes.dtype == torch.int64
    assert confident.nodes.tolist() == nodes


@pytest.mark.parametrize("made", [np.uint8, torch.uint8])
def test_bytes_are_neither_a_mask_nor_numbers(made):
    mask = torch.tensor([1, 0, 1], dtype=made) if made is torch.uint8 else np.ones(3, made)
    with pytest.raises(ConfigError, match="expected a mask of booleans, or node numbers"):
        scr.ConfidentSet(mask)


@pytest.mark.parametrize("candidates", [None, "nodes", (node for node in range(3)), [[1], [2, 3]]])
def test_candidates_that_are_no_array_are_named(candidates):
    with pytest.raises(ConfigError, match="expected a tensor, a numpy array or a list"):
        scr.ConfidentSet(candidates)


def test_predictions_may_be_numpy_arrays_and_nothing_else():
    confident = scr.ConfidentSet([3, 5], threshold=0.8)
    confident.update(np.array([[0.5, 0.5], [0.1, 0.9]]))
    assert confident.nodes.tolist() == [5]
    confident.update(lambda nodes: np.array([[0.9, 0.1]] * len(nodes)))
    assert confident.nodes.tolist() == [3, 5]
    with pytest.raises(ConfigError, match="`probabilities` is 'a NoneType'; expected a tensor"):
        confident.update(lambda nodes: None)


@pytest.mark.parametrize("told", [{}, {"epoch": 3}, {"epochs": 9}])
def test_a_threshold_that_changes_needs_to_know_when(told):
    confident = scr.ConfidentSet([3, 5], threshold=0.9, threshold_end=0.5)
    with pytest.raises(ConfigError, match=r"`epochs?` is None; expected .* `threshold_end` is set"):
        confident.update(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), **told)
    confident.update(torch.tensor([[0.5, 0.5], [0.2, 0.8]]), epoch=2, epochs=3)
    assert confident.threshold == 0.5
    assert confident.nodes.tolist() == [3, 5]


def test_a_sample_is_of_confident_nodes_without_replacement_and_seeded():
    confident = scr.ConfidentSet(torch.arange(50, 100))
    drawn = confident.sample(20, torch.Generator().manual_seed(3))
    assert len(set(drawn.tolist())) == 20
    assert set(drawn.tolist()) <= set(range(50, 100))
    assert torch.equal(drawn, confident.sample(20, torch.Generator().manual_seed(3)))
    assert not torch.equal(drawn, confident.sample(20, torch.Generator().manual_seed(4)))
    assert torch.equal(confident.sample(50), confident.nodes)
    counts = torch.zeros(100)
    for seed in range(400):
        counts[confident.sample(10, torch.Generator().manual_seed(seed))] += 1
    assert counts[:50].sum() == 0
    assert 40 < counts[50:].min() <= counts[50:].max() < 130  # 80 each, deviation 8


def test_a_confident_set_goes_through_a_state_dict():
    candidates = torch.arange(4)
    confident = scr.ConfidentSet(candidates, threshold=0.9, threshold_end=0.5)
    confident.update(torch.tensor([[0.8, 0.2]] * 2 + [[0.6, 0.4]] * 2), epoch=1, epochs=3)
    assert confident.nodes.tolist() == [0, 1]  # the threshold is 0.7
    other = scr.ConfidentSet(candidates, threshold=0.9, threshold_end=0.5)
    other.load_state_dict(confident.state_dict())
    assert other.nodes.tolist() == [0, 1]
    assert other.threshold == confident.threshold
    with pytest.raises(ConfigError, match="not candidates"):
        scr.ConfidentSet(torch.arange(10, 14)).load_state_dict(confident.state_dict())
    with pytest.raises(ConfigError, match="expected `threshold`"):
        other.load_state_dict({"nodes": candidates})
