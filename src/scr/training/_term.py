"""The term on unlabeled nodes in the training loop: its loss, its confident set and its teacher.

`NoTerm` is training on labels alone, in which nothing happens in any epoch. In an `UnlabeledTerm`,
of SCR and the alternatives, nodes take part from the end of the warm-up on; a `TaughtTerm`, of
SCR-m, has an averaged teacher, too, which makes the pseudo labels.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn

from scr.consistency import (
    ConfidentSet,
    ConsistencyConfig,
    ConsistencyLoss,
    MeanTeacher,
    UnlabeledLoss,
    make_unlabeled_loss,
    weight_share_at,
)
from scr.training._checkpoint import Checkpoint
from scr.training._inference import predict_logits, stream_logits
from scr.training._row_source import RowSource
from scr.training._validation import ValidationNodes


class NoTerm:
    """Training on labels alone."""

    exists = False
    views = 1
    teacher: MeanTeacher | None = None
    teacher_dropout = False
    threshold: float | None = None
    """Least confidence of nodes that take part: the method's own, else the confident set's."""

    def __init__(self) -> None:
        self.loss: UnlabeledLoss = ConsistencyLoss(weight=0.0)
        self.averages: dict[str, MeanTeacher] = {}

    def is_active(self, epoch: int) -> bool:
        """Whether nodes may take part in an epoch, counted from 0."""
        return False

    def begin_epoch(self, epoch: int, rows: RowSource) -> Tensor:
        """Follow schedules; returns the nodes that may take part."""
        return torch.zeros(0, dtype=torch.int64)

    def end_step(self, epoch: int) -> None:
        """Follow an update of the student."""

    def scores(
        self, epoch: int, rows: RowSource, validation: ValidationNodes, logits: Tensor
    ) -> dict[str, float | None]:
        """What the record of an evaluated epoch has more.

        Args:
            epoch: Counted from 0.
            rows: What the encoder reads.
            validation: Nodes that are scored.
            logits: Of the evaluated model for these nodes.
        """
        return {}

    def put(self, state: Checkpoint) -> None:
        """Add what changes through training to a checkpoint."""
        state.put("regularizer", self.loss.state_dict())
        state.values["threshold"] = None

    def load(self, state: Checkpoint) -> None:
        """Take what `put` added."""
        self.loss.load_state_dict(state.get("regularizer"))


class UnlabeledTerm(NoTerm):
    """A term on nodes that the student itself is confident of."""

    exists = True

    def __init__(
        self,
        student: nn.Module,
        loss: UnlabeledLoss,
        unlabeled: Tensor,
        config: ConsistencyConfig,
        *,
        epochs: int,
        seed: int,
    ) -> None:
        """Take the parts; arguments as of `make_term`."""
        super().__init__()
        self.student, self.loss, self.config, self.epochs = student, loss, config, epochs
        self.views, self.teacher_dropout = config.views, config.teacher_dropout
        self.confident = ConfidentSet(
            unlabeled,
            threshold=0.0 if loss.chooses_rows else config.threshold,
            threshold_end=None if loss.chooses_rows else config.threshold_end,
            refresh=config.refresh,
            sample=config.refresh_sample,
            seed=seed,
        )

    @property
    def threshold(self) -> float:  # type: ignore[override]
        return self.confident.threshold if self.loss.threshold is None else self.loss.threshold

    def is_active(self, epoch: int) -> bool:
        return epoch >= self.config.warmup

    def begin_epoch(self, epoch: int, rows: RowSource) -> Tensor:
        if not self.is_active(epoch):
            return super().begin_epoch(epoch, rows)
        share = weight_share_at(epoch - self.config.warmup, self.config.weight_ramp)
        self.loss.begin_epoch(epoch, self.epochs, share=share)
        self.refresh(epoch, rows)
        return self.confident.nodes

    def judge(self, epoch: int) -> nn.Module:
        """Whose predictions decide which nodes are confident."""
        return self.student

    def refresh(self, epoch: int, rows: RowSource) -> None:
        """Score candidates without dropout, where the confident set is due."""
        if not self.confident.due(epoch, first=self.config.warmup):
            return
        scored = stream_logits(self.judge(epoch), rows, self.confident.to_score(epoch))
        with closing(scored):
            parts = (torch.softmax(logits, dim=-1) for _, logits in scored)
            self.confident.update_by_parts(parts, epoch, self.epochs)

    def scores(
        self, epoch: int, rows: RowSource, validation: ValidationNodes, logits: Tensor
    ) -> dict[str, float | None]:
        accuracy = validation.confident_accuracy(logits.softmax(dim=-1), self.threshold)
        return {"confident_valid_accuracy": accuracy}

    def put(self, state: Checkpoint) -> None:
        super().put(state)
        state.values["threshold"] = self.confident.threshold
        if self.confident.nodes is not self.confident.candidates:
            # All candidates may be a hundred million, and are known.
            state.put("confident", {"nodes": self.confident.nodes})

    def load(self, state: Checkpoint) -> None:
        super().load(state)
        nodes = state.get("confident").get("nodes")
        if nodes is not None:
            self.confident.restore(nodes, state.values["threshold"])


class TaughtTerm(UnlabeledTerm):
    """A term whose pseudo labels an averaged teacher makes, which starts after the warm-up."""

    teacher: MeanTeacher

    def __init__(self, student: nn.Module, *parts: Any, decay: float, **schedule: Any) -> None:
        """Take the parts, and copy the student; other arguments as of `UnlabeledTerm`."""
        super().__init__(student, *parts, **schedule)
        self.teacher = MeanTeacher(
            student, decay, ramp=self.config.ramp, statistics=self.config.teacher_statistics
        )
        self.averages["teacher"] = self.teacher

    def begin_epoch(self, epoch: int, rows: RowSource) -> Tensor:
        if epoch == self.config.warmup:
            self.teacher.restart(self.student)
        return super().begin_epoch(epoch, rows)

    def end_step(self, epoch: int) -> None:
        if self.is_active(epoch):
            self.teacher.update(self.student)

    def judge(self, epoch: int) -> nn.Module:
        # In the warm-up nobody teaches yet.
        by_teacher = self.is_active(epoch) and self.config.judge == "teacher"
        return self.teacher.model if by_teacher else self.student

    def scores(
        self, epoch: int, rows: RowSource, validation: ValidationNodes, logits: Tensor
    ) -> dict[str, float | None]:
        if not self.is_active(epoch):
            return super().scores(epoch, rows, validation, logits)
        taught = predict_logits(self.teacher.model, rows, validation.nodes)
        judged = taught if self.config.judge == "teacher" else logits
        return {
            "teacher_valid_accuracy": validation.score(taught).accuracy,
            **super().scores(epoch, rows, validation, judged),
        }


def make_term(
    student: nn.Module,
    rows: RowSource,
    unlabeled: Tensor,
    config: ConsistencyConfig | None,
    regularizer: str,
    *,
    epochs: int,
    seed: int,
) -> NoTerm:
    """The term of a regularizer with its settings; `NoTerm` where there is nothing to add.

    Args:
        student: The encoder that is trained.
        rows: Say how many classes there are, and where torch computes.
        unlabeled: Nodes that may take part.
        config: The settings; none: there is no term.
        regularizer: `scr` (SCR-m, if `config` has a decay) or the name of an alternative.
        epochs: How many there are in all.
        seed: Decides which nodes are scored, where it is a sample.
    """
    if config is None or config.weight == 0:
        return NoTerm()
    loss = make_unlabeled_loss(regularizer, config, rows.classes).to(rows.device)
    parts = student, loss, unlabeled, config
    if config.decay is None:
        return UnlabeledTerm(*parts, epochs=epochs, seed=seed)
    return TaughtTerm(*parts, decay=config.decay, epochs=epochs, seed=seed)
