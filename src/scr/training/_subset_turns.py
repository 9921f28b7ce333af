"""Train a few subsets of relations at a time: memory for those, and for one more.

With S subsets a row has S times the hops of a plain graph. NARS saves memory by training k of
them at a time and taking the others' part of the mixture as it is:

    mixed_k = rest_k + sum_s w_ks * hop_k^s    over all s in the sample
    rest_k  =          sum_s w_ks * hop_k^s    over all others

`rest` is computed from the weights that the other subsets have, when the sample is drawn, and
their weights stand still until another sample is drawn. So the encoder is at every moment the one
with all S subsets, only that it learns some of them at a time; it is stored and used as such.

Rows of a sample lie in memory as hops of k + 1 subsets, of which the last is `rest`. Hops of all S
are read once per sample, part by part; they are best kept on disk (`scr propagate`).

Paper: Yu et al. 2020, "Scalable Graph Neural Networks for Heterogeneous Graphs", arXiv:2011.09679.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from scr.encoders import NARS
from scr.storage import take_rows
from scr.training._rows import Rows, RowSource

PART_ROWS = 16_384
"""Rows of all subsets that are in memory at once while a sample is gathered."""


class NoTurns:
    """All of a student is always trained, on the same rows."""

    def __init__(self, rows: RowSource) -> None:
        self.all_rows = rows

    def begin(self, epoch: int, followers: Iterable[nn.Module] = ()) -> RowSource:
        """The rows for an epoch, counted from 0, of a student and of averages that follow it."""
        return self.all_rows

    def hold(self) -> None:
        """Undo what a step did to weights that stand still."""

    def end(self) -> RowSource:
        """Returns the rows of the trained student."""
        return self.all_rows


class SubsetTurns(NoTurns):
    """Which subsets of a student train in which epoch, and the rows for them."""

    all_rows: Rows

    def __init__(self, student: NARS, rows: Rows, *, seed: int) -> None:
        super().__init__(rows)
        self.student = student
        self.seed = seed
        self._period = -1
        self._rest: list[int] = []
        self._fixed = torch.empty(0)
        self._rows = rows

    def sample(self, period: int) -> tuple[int, ...]:
        """The subsets that train in a period, a function of the seed: nothing is to be stored."""
        size = self.student.settings.subset_sample
        generator = np.random.default_rng([self.seed, period])
        chosen = generator.choice(self.student.mixture.subsets, size, replace=False)
        return tuple(sorted(int(subset) for subset in chosen))

    def begin(self, epoch: int, followers: Iterable[nn.Module] = ()) -> Rows:
        # Of what stands still, followers take the student's weights: their predictions need the
        # same `rest`.
        period = epoch // self.student.settings.resample
        mixture = self.student.mixture
        if period != self._period:
            self._period = period
            chosen = self.sample(period)
            self._rest = [each for each in range(mixture.subsets) if each not in chosen]
            self._fixed = mixture.weight.detach()[:, self._rest].clone()
            self._rows = self.all_rows  # the old sample goes before the new one comes
            self._rows = self._gathered(chosen)
        for model in (self.student, *followers):
            if isinstance(model, NARS):
                model.mixture.chosen = self.sample(period)
                self._hold(model)
        return self._rows

    def hold(self) -> None:
        """Undo what an optimizer's momentum did to weights that stand still; after each step."""
        self._hold(self.student)

    def end(self) -> Rows:
        """Let the student read all subsets again; returns their rows."""
        self.student.mixture.chosen = None
        self._rows, self._period = self.all_rows, -1
        return self.all_rows

    @torch.no_grad()
    def _hold(self, model: NARS) -> None:
        model.mixture.weight[:, self._rest] = self._fixed

    def _gathered(self, chosen: tuple[int, ...]) -> Rows:
        """Rows of the chosen subsets and the rest, in memory."""
        source, mixture = self.all_rows.hops, self.student.mixture
        count, matrices = len(source), 1 + (len(chosen) + 1) * mixture.hops
        columns = [
            1 + subset * mixture.hops + hop for subset in chosen for hop in range(mixture.hops)
        ]
        gathered = np.empty((count, matrices, source.shape[2]), source.dtype)
        for start in range(0, count, PART_ROWS):
            stop = min(start + PART_ROWS, count)
            part = take_rows(source, np.arange(start, stop))
            hops = torch.from_numpy(part).to(self.all_rows.device, torch.float32)
            rest = mixture.sum_of(hops, self._rest)
            gathered[start:stop, : len(columns) + 1] = part[:, [0, *columns]]
            gathered[start:stop, len(columns) + 1 :] = rest.cpu().numpy()
        return replace(self.all_rows, hops=gathered, subsets=len(chosen) + 1)


def make_turns(student: nn.Module, rows: RowSource, *, seed: int) -> NoTurns:
    """The turns that a student's settings ask for; `NoTurns` where all of it is always trained."""
    if isinstance(student, NARS) and isinstance(rows, Rows):
        sample = student.settings.subset_sample
        if sample is not None and sample < student.mixture.subsets:
            return SubsetTurns(student, rows, seed=seed)
    return NoTurns(rows)
