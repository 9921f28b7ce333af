"""The averaged teacher of SCR-m: the student's weights, smoothed over the steps of training.

Follows Tarvainen and Valpola 2017, "Mean teachers are better role models", arXiv:1703.01780.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scr.consistency.views import weak_view
from scr.errors import ConfigError


def ema_decay_at(step: int, decay: float, *, ramp: bool = False) -> float:
    """The decay used at one step; a ramp lets a young teacher follow its student quickly.

    Args:
        step: t, counted from 1 after the first update of the student.
        decay: alpha, the largest value.
        ramp: Use min(1 - 1/(t+1), alpha).

    >>> [round(ema_decay_at(step, 0.9, ramp=True), 3) for step in (1, 2, 100)]
    [0.5, 0.667, 0.9]
    """
    return min(1 - 1 / (step + 1), decay) if ramp else decay


class MeanTeacher(nn.Module):
    """An exponential moving average of a model, parameters and BatchNorm statistics alike.

    Equation: SCR-m, teacher update (docs/equations.md#teacher)
        theta'_t = alpha theta'_{t-1} + (1 - alpha) theta_t

    It starts as a copy of the student, so that its first targets are as good as the student's.
    Call `update` after every optimizer step. Usable in anybody's loop:

        teacher = MeanTeacher(model, decay=0.99)
        pseudo_labels = teacher(x, edge_index)
        ...
        optimizer.step()
        teacher.update()

    As a module it is moved, stored and restored with the module that it is an attribute of; an
    optimizer may be given its weights too, which have no gradient.
    """

    model: nn.Module

    def __init__(self, model: nn.Module, decay: float = 0.99, *, ramp: bool = False) -> None:
        """Copy the student.

        Args:
            model: The student.
            decay: alpha in [0, 1); 0 makes the teacher a copy of the student at every step.
            ramp: Grow the decay from 1/2 to `decay` over the first steps.
        """
        super().__init__()
        if not 0 <= decay < 1:
            raise ConfigError("consistency.decay", decay, "a number in [0, 1)")
        if any(is_lazy(weight) for weight in model.parameters()):
            raise ConfigError(
                "model",
                type(model).__name__,
                "a model whose weights have shapes",
                hint="layers that find out their widths need one batch before they can be copied",
            )
        self.model = copy.deepcopy(model)
        self.model.requires_grad_(False)
        self.model.eval()
        # In a tuple, so that the student is not a part of the teacher.
        self._student = (model,)
        self.decay = decay
        self.ramp = ramp
        self.step = 0

    @torch.no_grad()
    def update(self, student: nn.Module | None = None) -> None:
        """Move the teacher a little towards the student.

        Args:
            student: None: the model that the teacher was made of.
        """
        pairs = self._pairs(self._student[0] if student is None else student)
        self.step += 1
        keep = ema_decay_at(self.step, self.decay, ramp=self.ramp)
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, values = [mine for mine, _ in floating], [theirs for _, theirs in floating]
        torch._foreach_lerp_(averages, values, 1 - keep)
        for mine, theirs in pairs:
            if not mine.is_floating_point():
                mine.copy_(theirs)  # counters, such as num_batches_tracked, have no average

    def _pairs(self, student: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Every number of the teacher with the student's; the teacher goes where the student is."""
        theirs = {**dict(student.named_parameters()), **dict(student.named_buffers())}
        pairs = []
        for name, mine in [*self.model.named_parameters(), *self.model.named_buffers()]:
            value = theirs.get(name)
            if value is None or value.shape != mine.shape:
                found = "nothing" if value is None else f"of shape {tuple(value.shape)}"
                raise ConfigError(
                    f"student.{name}", found, f"shape {tuple(mine.shape)}, as the teacher has it"
                )
            if mine.device != value.device:
                mine.data = mine.data.to(value.device)
            # A precision that is lower than the teacher's would lose the small steps of an average.
            pairs.append((mine, value.detach().to(mine.dtype)))
        return pairs

    def get_extra_state(self) -> Tensor:
        """How many updates there were: the ramp goes on from there."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from an earlier number of updates."""
        self.step = int(state)

    def forward(self, *inputs: Any, dropout: bool = False, **named: Any) -> Tensor:
        """Pseudo labels as class probabilities, without gradient.

        Args:
            *inputs: Whatever the model takes, such as a batch, or `x` and `edge_index`.
            dropout: Leave the teacher's dropout on.
            **named: The same, by name.
        """
        return weak_view(self.model, *inputs, dropout=dropout, **named)

    def extra_repr(self) -> str:
        """Show the settings in the module's repr."""
        return f"decay={self.decay}, ramp={self.ramp}"
