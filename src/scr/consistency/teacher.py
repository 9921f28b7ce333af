"""The averaged teacher of SCR-m: the student's weights, smoothed over the steps of training.

Follows Tarvainen and Valpola 2017, "Mean teachers are better role models", arXiv:1703.01780.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

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


class MeanTeacher:
    """An exponential moving average of a model, parameters and BatchNorm statistics alike.

    Equation: SCR-m, teacher update (docs/equations.md#teacher)
        theta'_t = alpha theta'_{t-1} + (1 - alpha) theta_t

    It starts as a copy of the student, so that its first targets are as good as the student's.
    Call `update` after every optimizer step.
    """

    def __init__(self, model: nn.Module, decay: float = 0.99, *, ramp: bool = False) -> None:
        """Copy the student.

        Args:
            model: The student.
            decay: alpha in [0, 1); 0 makes the teacher a copy of the student at every step.
            ramp: Grow the decay from 1/2 to `decay` over the first steps.
        """
        if not 0 <= decay < 1:
            raise ConfigError("consistency.decay", decay, "a number in [0, 1)")
        self.model = copy.deepcopy(model)
        self.model.requires_grad_(False)
        self.model.eval()
        self.decay = decay
        self.ramp = ramp
        self.step = 0

    @torch.no_grad()
    def update(self, student: nn.Module) -> None:
        """Move the teacher a little towards the student."""
        self.step += 1
        keep = ema_decay_at(self.step, self.decay, ramp=self.ramp)
        averages, values = self._pairs(student)
        torch._foreach_lerp_(averages, values, 1 - keep)
        for mine, theirs in zip(self.model.buffers(), student.buffers(), strict=True):
            if not mine.is_floating_point():
                mine.copy_(theirs)  # counters, such as num_batches_tracked, have no average

    def _pairs(self, student: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
        averages = [*self.model.parameters(), *self.model.buffers()]
        values = [*student.parameters(), *student.buffers()]
        floating = [
            pair for pair in zip(averages, values, strict=True) if pair[0].is_floating_point()
        ]
        return [mine for mine, _ in floating], [theirs for _, theirs in floating]

    def __call__(self, batch: Any, *, dropout: bool = False) -> Tensor:
        """Pseudo labels as class probabilities, without gradient.

        Args:
            batch: Whatever the model takes.
            dropout: Leave the teacher's dropout on.
        """
        return weak_view(self.model, batch, dropout=dropout)
