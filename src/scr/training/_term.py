"""The term on unlabeled nodes in the training loop: its loss, its confident set and its teacher.

`NoTerm` is training on labels alone, in which nothing happens in any epoch. In an `UnlabeledTerm`,
of SCR, SCR-m and the alternatives, nodes take part from the end of the warm-up on.
"""

from __future__ import annotations

from contextlib import closing

import torch
from torch import Tensor, nn

from scr import consistency
from scr.compute import current_group
from scr.training._checkpoint import Checkpoint
from scr.training._records import Stage, ValidationNodes
from scr.training._rows import RowSource, as_probabilities, predict_logits, stream_logits


class NoTerm:
    """Training on labels alone; epochs are counted from 0."""

    views = 1
    teacher: consistency.MeanTeacher | None = None
    """Makes the pseudo labels (SCR-m); none: the student does."""
    teacher_dropout = False
    threshold: float | None = None
    """Least confidence of nodes that take part: the method's own, else the confident set's."""

    def __init__(self) -> None:
        self.loss: consistency.UnlabeledLoss = consistency.ConsistencyLoss(weight=0.0)

    def is_active(self, epoch: int) -> bool:
        """Whether nodes may take part in an epoch."""
        return False

    def begin_epoch(self, epoch: int, rows: RowSource) -> Tensor:
        """Follow schedules; returns the nodes that may take part."""
        return torch.zeros(0, dtype=torch.int64)

    def end_step(self, epoch: int) -> None:
        """Follow an update of the student."""

    def scores(
        self, epoch: int, rows: RowSource, validation: ValidationNodes, logits: Tensor
    ) -> dict[str, float | None]:
        """What the record of an evaluated epoch has more; `logits` are the evaluated model's."""
        return {}

    def put(self, state: Checkpoint) -> None:
        """Add what changes through training to a checkpoint."""
        state.put("regularizer", self.loss.state_dict())
        state.values["threshold"] = None

    def load(self, state: Checkpoint) -> None:
        """Take what `put` added."""
        self.loss.load_state_dict(state.get("regularizer"))


class UnlabeledTerm(NoTerm):
    """A term on nodes that the student, or its averaged teacher, is confident of."""

    def __init__(self, student: nn.Module, rows: RowSource, stage: Stage) -> None:
        assert stage.consistency is not None
        self.student, self.epochs = student, stage.training.epochs
        self.config = config = stage.consistency
        self.views, self.teacher_dropout = config.views, config.teacher_dropout
        self.is_multilabel = stage.train_labels.ndim == 2
        if self.is_multilabel:
            loss: consistency.UnlabeledLoss = consistency.TargetConsistencyLoss.from_config(
                config, rows.classes
            )
        else:
            loss = consistency.make_unlabeled_loss(stage.regularizer, config, rows.classes)
        self.loss = loss.to(rows.device)
        if config.decay is not None:
            self.teacher = consistency.MeanTeacher(
                student, config.decay, ramp=config.ramp, statistics=config.teacher_statistics
            )
        self.confident = consistency.ConfidentSet(
            stage.unlabeled, threshold=0.0 if self.loss.chooses_rows else config.threshold,
            threshold_end=None if self.loss.chooses_rows else config.threshold_end,
            refresh=config.refresh, sample=config.refresh_sample, seed=stage.seed,
        )  # fmt: skip

    @property
    def threshold(self) -> float:  # type: ignore[override]
        return self.confident.threshold if self.loss.threshold is None else self.loss.threshold

    def is_active(self, epoch: int) -> bool:
        return epoch >= self.config.warmup

    def begin_epoch(self, epoch: int, rows: RowSource) -> Tensor:
        if not self.is_active(epoch):
            return super().begin_epoch(epoch, rows)
        if self.teacher is not None and epoch == self.config.warmup:
            self.teacher.restart(self.student)
        share = consistency.weight_share_at(epoch - self.config.warmup, self.config.weight_ramp)
        self.loss.begin_epoch(epoch, self.epochs, share=share)
        self.refresh(epoch, rows)
        return self.confident.nodes

    def refresh(self, epoch: int, rows: RowSource) -> None:
        """Score candidates without dropout, where the confident set is due."""
        if not self.confident.due(epoch, first=self.config.warmup):
            return
        judge = self.student
        # In the warm-up nobody teaches yet.
        if self.teacher is not None and self.is_active(epoch) and self.config.judge == "teacher":
            judge = self.teacher.model
        candidates = self.confident.to_score(epoch)
        share = current_group().share(len(candidates))
        scored = stream_logits(judge, rows, candidates[share])
        with closing(scored):
            parts = (self.confidences(logits) for _, logits in scored)
            self.confident.update_by_parts(parts, epoch, self.epochs)

    def confidences(self, logits: Tensor) -> Tensor:
        """Columns of which the largest says how confident a row is."""
        probabilities = as_probabilities(logits, self.is_multilabel)
        if self.is_multilabel:
            return consistency.target_confidence(probabilities)[:, None]
        return probabilities

    def end_step(self, epoch: int) -> None:
        if self.teacher is not None and self.is_active(epoch):
            self.teacher.update(self.student)

    def scores(
        self, epoch: int, rows: RowSource, validation: ValidationNodes, logits: Tensor
    ) -> dict[str, float | None]:
        scores: dict[str, float | None] = {}
        if self.teacher is not None and self.is_active(epoch):
            taught = predict_logits(self.teacher.model, rows, validation.nodes)
            scores["teacher_valid_accuracy"] = validation.score(taught).accuracy
            logits = taught if self.config.judge == "teacher" else logits
        probabilities = as_probabilities(logits, self.is_multilabel)
        accuracy = validation.confident_accuracy(probabilities, self.threshold)
        return {**scores, "confident_valid_accuracy": accuracy}

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
            if not bool(torch.isin(nodes, self.confident.candidates).all()):
                raise ValueError("confident nodes that are no candidates")
            self.confident.restore(nodes, state.values["threshold"])
