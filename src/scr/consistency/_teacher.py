"""The averaged teacher of SCR-m: the student's weights, smoothed over the steps of training.

Follows Tarvainen and Valpola 2017, "Mean teachers are better role models", arXiv:1703.01780.

Half precision has no room for small steps: 1 + 0.01 x 0.1 is 1 in bfloat16. So weights in half
precision have their average beside them in float32, and the teacher's model has it rounded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scr.consistency._views import weak_view
from scr.errors import ConfigError


def ema_decay_at(step: int, decay: float, *, ramp: bool = False) -> float:
    """The decay used at one step; a ramp lets a young teacher follow its student quickly.

    Args:
        step: t, counted from 1 after the first update of the student.
        decay: alpha, the largest value.
        ramp: Use min(1 - 1/(t+1), alpha).

    Examples:
        >>> [round(ema_decay_at(step, 0.9, ramp=True), 3) for step in (1, 2, 100)]
        [0.5, 0.667, 0.9]
    """
    return min(1 - 1 / (step + 1), decay) if ramp else decay


TeacherStatistics = Literal["averaged", "batch"]

AVERAGES = "averages."
"""Begins the names of averages in a state, which has them only for half precision."""


class MeanTeacher(nn.Module):
    """An exponential moving average of a model, parameters and BatchNorm statistics alike.

    Equation: SCR-m, teacher update (docs/equations.md#teacher)
        theta'_t = alpha theta'_{t-1} + (1 - alpha) theta_t

    It starts as a copy of the student. Where there is a warm-up, `restart` makes it a copy of the
    trained student at the end of it: an average that began before would still be mostly untrained,
    since 0.999^300 leaves 74% of the initial weights after 300 steps. Call `update` after every
    optimizer step from there on. Usable in anybody's loop:

        teacher = MeanTeacher(model, decay=0.99)
        if epoch == warmup:
            teacher.restart()
        pseudo_labels = teacher(x, edge_index)
        ...
        optimizer.step()
        teacher.update()

    As a module it is moved, stored and restored with the module that it is an attribute of; an
    optimizer may be given its weights too, which have no gradient.
    """

    model: nn.Module

    def __init__(
        self,
        model: nn.Module,
        decay: float = 0.99,
        *,
        ramp: bool = False,
        statistics: TeacherStatistics = "averaged",
    ) -> None:
        """Copy the student.

        Args:
            model: The student.
            decay: alpha in [0, 1); 0 makes the teacher a copy of the student at every step.
            ramp: Grow the decay from 1/2 to `decay` over the first steps.
            statistics: `averaged`: BatchNorm of the teacher uses the averaged running statistics;
                `batch`: those of the rows that it is given.
        """
        super().__init__()
        if statistics not in get_args(TeacherStatistics):
            raise ConfigError("consistency.teacher_statistics", statistics, "`averaged` or `batch`")
        if not 0 <= decay < 1:
            raise ConfigError("consistency.decay", decay, "a number in [0, 1)")
        _check_module("model", model)
        if any(is_lazy(weight) for weight in model.parameters()):
            raise ConfigError(
                "model", type(model).__name__, "a model whose weights have shapes",
                hint="layers that find out their widths need one batch before they can be copied",
            )  # fmt: skip
        self.model = copy.deepcopy(model)
        self.model.requires_grad_(False)
        self.model.eval()
        # In a tuple, so that the student is not a part of the teacher.
        self._student = (model,)
        self.decay = decay
        self.ramp = ramp
        self.statistics: TeacherStatistics = statistics
        self.step = 0
        self.averages: dict[str, Tensor] = {}
        """Of numbers that the model has in half precision: what they are rounded from."""

    @torch.no_grad()
    def update(self, student: nn.Module | None = None) -> None:
        """Move the teacher a little towards the student: by default the model it was made of."""
        self._move(student, keep=ema_decay_at(self.step + 1, self.decay, ramp=self.ramp))
        self.step += 1

    @torch.no_grad()
    def restart(self, student: nn.Module | None = None) -> None:
        """Become a copy of the student as it is now; the ramp counts from here."""
        self._move(student, keep=0.0)
        self.step = 0

    def _move(self, student: nn.Module | None, *, keep: float) -> None:
        """Average the teacher's numbers, of weight `keep`, with the student's."""
        chosen = self._student[0] if student is None else student
        _check_module("student", chosen)
        pairs = self._pairs(chosen)
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, values = [mine for mine, _ in floating], [theirs for _, theirs in floating]
        torch._foreach_lerp_(averages, values, 1 - keep)
        for mine, theirs in pairs:
            if not mine.is_floating_point():
                mine.copy_(theirs)  # counters, such as num_batches_tracked, have no average
        for name, mine in self._numbers() if self.averages else ():
            if name in self.averages:
                mine.copy_(self.averages[name])

    def _numbers(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.model.named_parameters()
        yield from self.model.named_buffers()

    def _pairs(self, student: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Every average with the student's value; the teacher goes where the student is."""
        parameters = dict(student.named_parameters())
        theirs = {**parameters, **dict(student.named_buffers())}
        pairs, names = [], set()
        for name, mine in self._numbers():
            value = theirs.get(name)
            if value is None or value.shape != mine.shape:
                shape = "nothing" if value is None else f"of shape {tuple(value.shape)}"
                raise ConfigError(
                    f"student.{name}", shape, f"shape {tuple(mine.shape)}, as the teacher has it"
                )
            if mine.device != value.device:
                mine.data = mine.data.to(value.device)
            average = self._average(name, mine)
            # A precision that is lower than the teacher's would lose the small steps of an average.
            pairs.append((average, value.detach().to(average.dtype)))
            names.add(name)
        _refuse_others([name for name in parameters if name not in names], student)
        return pairs

    def _average(self, name: str, mine: Tensor) -> Tensor:
        """What is averaged: the teacher's own number, or what it is rounded from."""
        if not _is_half(mine):
            self.averages.pop(name, None)
            return mine
        average = self.averages.get(name)
        if average is None or not _rounds_to(average, mine):
            average = mine.detach().float()
        self.averages[name] = average.to(mine.device)
        return self.averages[name]

    def get_extra_state(self) -> Tensor:
        """How many updates there were: the ramp resumes from there."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from an earlier number of updates."""
        self.step = int(state)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, mine in self._numbers() if self.averages else ():
            if name in self.averages and _rounds_to(self.averages[name], mine):
                destination[f"{prefix}{AVERAGES}{name}"] = self.averages[name]

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *others: Any, **named: Any
    ) -> None:
        start = f"{prefix}{AVERAGES}"
        keys = [key for key in state_dict if key.startswith(start)]
        # Where a state has no averages, those of the model's own numbers begin at the next update.
        self.averages = {key.removeprefix(start): state_dict.pop(key).clone() for key in keys}
        super()._load_from_state_dict(state_dict, prefix, *others, **named)

    def forward(self, *inputs: Any, dropout: bool = False, **named: Any) -> Tensor:
        """Pseudo labels as class probabilities, without gradient.

        Args:
            *inputs: Whatever the model takes, such as a batch, or `x` and `edge_index`.
            dropout: Leave the teacher's dropout on.
            **named: The same, by name.
        """
        batch_statistics = self.statistics == "batch"
        return weak_view(
            self.model, *inputs, dropout=dropout, batch_statistics=batch_statistics, **named
        )

    def extra_repr(self) -> str:
        """Show the settings in the module's repr."""
        return f"decay={self.decay}, ramp={self.ramp}"


def _is_half(numbers: Tensor) -> bool:
    return numbers.is_floating_point() and numbers.dtype.itemsize < 4


def _rounds_to(average: Tensor, number: Tensor) -> bool:
    """Whether a number of the teacher is its average, rounded; else someone else put it there."""
    return _is_half(number) and torch.equal(average.to(number), number)


def _check_module(setting: str, given: object) -> None:
    if not isinstance(given, nn.Module):
        raise ConfigError(
            setting, type(given).__name__, "a torch module, whose weights can be averaged",
            hint="of a function that calls a model, give the model",
        )  # fmt: skip


def _refuse_others(names: list[str], student: nn.Module) -> None:
    """Refuse weights that the teacher does not have; a student may have teachers among its own."""
    if not names:
        return
    teachers = [f"{at}." for at, each in student.named_modules() if isinstance(each, MeanTeacher)]
    others = [name for name in names if not name.startswith(tuple(teachers))]
    if others:
        raise ConfigError(
            f"student.{others[0]}",
            "a weight that the teacher does not have",
            "a model with the layers of the one that the teacher was made of",
            hint="make a new teacher of a model that has grown: `MeanTeacher(model)`",
        )
