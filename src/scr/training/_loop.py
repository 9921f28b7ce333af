"""The training loop: Algorithm 1 with warm-up, evaluation, early stopping and checkpoints.

Reads rows, training labels and validation scores; returns the chosen weights and the history. It
prints nothing and knows no paths but its checkpoint's: who calls it can watch through `on_epoch`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scr.consistency import ConsistencyConfig, MeanTeacher
from scr.errors import TrainingError
from scr.selection import Selection
from scr.training._batches import EpochNodes, Step
from scr.training._config import TrainingConfig
from scr.training._inference import predict_logits
from scr.training._objective import balanced_class_weights, mixed_loss
from scr.training._records import EpochRecord, Handover, Progress, TrainingOutcome
from scr.training._resuming import CheckpointFile
from scr.training._row_source import RowSource
from scr.training._subset_turns import make_turns
from scr.training._term import make_term
from scr.training._validation import NO_VALIDATION, ValidationNodes


class Trainer:
    """Trains one encoder on one set of rows.

    Validation labels are only ever seen by `validation`; test labels are not given to it at all.
    """

    def __init__(
        self,
        student: nn.Module,
        rows: RowSource,
        *,
        train: Tensor,
        train_labels: Tensor,
        unlabeled: Tensor,
        validation: ValidationNodes,
        training: TrainingConfig,
        consistency: ConsistencyConfig | None = None,
        regularizer: str = "scr",
        seed: int = 0,
        checkpoint: Path | None = None,
        identity: str = "",
        reliable: Handover | None = None,
        reliable_weight: float = 1.0,
        watched: ValidationNodes = NO_VALIDATION,
        stage: int = 1,
        epochs_before: int = 0,
    ) -> None:
        """Set the stage; nothing is trained yet.

        Args:
            student: The encoder; it is trained in place and ends with the chosen weights.
            rows: What the encoder reads of the nodes.
            train: Indices of the training nodes.
            train_labels: Their classes.
            unlabeled: Indices of the nodes that may take part in the consistency term.
            validation: Scores predictions for the validation nodes.
            training: How to train.
            consistency: The consistency term; none trains on labels alone.
            regularizer: What the term is: `scr` (SCR-m, if `consistency` has a decay) or the name
                of an alternative.
            seed: Decides batches and dropout.
            checkpoint: File to continue from, if it exists, and to write to.
            identity: Names the run in its checkpoint, so that no other run resumes from it.
            reliable: Nodes that an earlier stage labeled; none: there are none.
            reliable_weight: Factor of their term (gamma).
            watched: Nodes whose accuracy is written into the history and read by nobody here.
            stage: Number of the stage, from 1, for the records.
            epochs_before: Epochs of earlier stages; records count through all of them.
        """
        self.student = student.to(rows.device)
        self.rows = rows
        self.train = train
        self.targets = train_labels.to(rows.device)
        self.validation = validation
        self.training = training
        self.checkpoint = CheckpointFile(checkpoint, identity)
        self.watched = watched
        self.stage, self.epochs_before = stage, epochs_before
        self.reliable = reliable or Handover.nothing(rows.classes)
        self.reliable_weight = reliable_weight
        self.generator = torch.Generator().manual_seed(seed)
        self.term = make_term(
            student, rows, unlabeled, consistency, regularizer, epochs=training.epochs, seed=seed
        )
        self.averages = dict(self.term.averages)
        """Averaged models by their names in checkpoints."""
        self.evaluated = student
        if training.average_decay is not None:
            self.averages["average"] = MeanTeacher(student, training.average_decay)
            self.evaluated = self.averages["average"].model
        self.optimizer = torch.optim.Adam(
            student.parameters(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            fused=True,  # one pass over all parameters instead of a dozen
        )
        self.turns = make_turns(student, rows, seed=seed)
        self.class_weights = (
            balanced_class_weights(self.targets, rows.classes).to(rows.device)
            if training.class_weights == "balanced"
            else None
        )
        self.states: dict[str, dict[str, Tensor]] = {}
        """Weights that may be kept: the `best`, and the `early` ones from before `select_after`."""
        self.selection = Selection(
            training.select, training.select_after, training.epochs, len(validation.nodes)
        )
        self.progress = Progress()

    def run(
        self,
        *,
        on_epoch: Callable[[EpochRecord], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> TrainingOutcome:
        """Train to the end, or until `should_stop` says so after some epoch.

        Args:
            on_epoch: Called after every epoch.
            should_stop: Asked after every epoch; a stopped run can be continued.
            checkpoint_seconds: Least time between two checkpoints.
        """
        self.checkpoint.restore(self)
        stopped = "epochs"
        progress = self.progress
        while progress.epoch < self.training.epochs:
            if self._patience_is_over():
                stopped = "patience"
                break
            if should_stop is not None and should_stop():
                stopped = "interrupted"
                break
            record = self._epoch(progress.epoch)
            if self._evaluates(progress.epoch):
                progress.history.append(asdict(record))
            progress.epoch += 1
            progress.seconds += record.seconds
            if on_epoch is not None:
                on_epoch(record)
            self.checkpoint.save(self, every=checkpoint_seconds)
        if stopped == "interrupted":
            self.checkpoint.save(self)
        self.rows = self.turns.end()
        if stopped != "interrupted":
            self._keep_chosen_weights()
        return self._outcome(stopped)

    def _outcome(self, stopped: str) -> TrainingOutcome:
        progress, kept = self.progress, self.progress.kept
        score, epoch, collapsed_to = kept.best, kept.best_epoch, None
        if stopped != "interrupted" and kept.collapsed(self.selection):
            collapsed_to = None if kept.best is None else kept.best.accuracy
            score, epoch = kept.early, kept.early_epoch
        elif stopped != "interrupted" and self.training.select == "last":
            epoch = progress.epoch
        return TrainingOutcome(
            history=progress.history,
            best_epoch=self.epochs_before + epoch,
            epochs=progress.epoch,
            valid_accuracy=None if score is None else score.accuracy,
            train_seconds=progress.seconds,
            stopped=stopped,
            activity=progress.activity if self.term.exists else None,
            collapsed_to=collapsed_to,
        )

    def _epoch(self, epoch: int) -> EpochRecord:
        started = time.perf_counter()
        rate = learning_rate_at(epoch, self.training)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.rows = self.turns.begin(epoch, [each.model for each in self.averages.values()])
        confident = self.term.begin_epoch(epoch, self.rows)
        nodes = EpochNodes(
            epoch, self.train, confident, self.reliable.nodes,
            self.training.batch_size, self.training.unlabeled_per_batch, self.generator,
        )  # fmt: skip
        self.student.train()
        supervised = consistent = 0.0
        steps = 0
        with closing(self.rows.epoch_steps(nodes)) as batches:
            for step, batch in batches:
                first, second = self._step(epoch, step, batch)
                supervised, consistent, steps = supervised + first, consistent + second, steps + 1
        confident_nodes = round(len(confident) * self.term.loss.chosen_share)
        if self.term.is_active(epoch):
            self.progress.activity.add(self.epochs_before + epoch + 1, confident_nodes)
        scores = self._evaluate(epoch) if self._evaluates(epoch) else {}
        seconds = time.perf_counter() - started
        if len(self.watched.nodes) and self._evaluates(epoch):
            logits = predict_logits(self.evaluated, self.rows, self.watched.nodes)
            scores["test_accuracy"] = self.watched.score(logits).accuracy
        return EpochRecord(
            epoch=self.epochs_before + epoch + 1,
            stage=self.stage,
            supervised_loss=supervised / max(steps, 1),
            consistency_loss=consistent / max(steps, 1),
            learning_rate=rate,
            confident_nodes=confident_nodes,
            threshold=self.term.threshold,
            seconds=seconds,
            **scores,
        )

    def _step(self, epoch: int, step: Step, batch: Any) -> tuple[float, float]:
        """One update of the student and of all that follows it."""
        loss = mixed_loss(
            self.student,
            batch,
            self.targets[step.labeled.to(self.targets.device)],
            self.term.loss,
            # Without a term that compares them, one view is enough.
            views=self.term.views if len(step.unlabeled) else 1,
            teacher=self.term.teacher,
            teacher_dropout=self.term.teacher_dropout,
            class_weights=self.class_weights,
            reliable=self.reliable.soft_labels[step.relied_on].to(self.rows.device),
            reliable_weight=self.reliable_weight,
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        if self.training.clip is not None:
            nn.utils.clip_grad_norm_(self.student.parameters(), self.training.clip)
        self.optimizer.step()
        self.turns.hold()
        self.term.end_step(epoch)
        if "average" in self.averages:
            self.averages["average"].update(self.student)
        terms = loss.supervised.item(), loss.consistency.item()
        if not all(map(math.isfinite, terms)):
            raise TrainingError(
                f"The loss became {sum(terms)} in epoch {epoch + 1}; expected a finite number",
                hint="lower training.learning_rate, or set training.clip=1",
            )
        return terms

    def _evaluates(self, epoch: int) -> bool:
        return (epoch + 1) % self.training.evaluate_every == 0 or epoch + 1 == self.training.epochs

    def _evaluate(self, epoch: int) -> dict[str, Any]:
        """Score the validation nodes and keep the weights if they are the best so far."""
        if len(self.validation.nodes) == 0:
            return {}
        logits = predict_logits(self.evaluated, self.rows, self.validation.nodes)
        score = self.validation.score(logits)
        progress = self.progress
        if score.joins(progress.extremes):
            progress.hopeful_epoch = epoch + 1
        progress.extremes = score.extremes(progress.extremes)
        remembered = progress.kept.offer(epoch + 1, score, self.selection)
        if remembered is not None and self.training.select != "last":
            self.states[remembered] = {
                name: value.clone() for name, value in self.evaluated.state_dict().items()
            }
        return {
            "valid_accuracy": score.accuracy,
            "valid_loss": score.loss,
            **self.term.scores(epoch, self.rows, self.validation, logits),
        }

    def _patience_is_over(self) -> bool:
        progress, patience = self.progress, self.training.patience
        by_loss = self.training.select == "lowest-loss"
        waited = progress.epoch - (progress.hopeful_epoch if by_loss else progress.kept.best_epoch)
        return bool(patience and progress.kept.best is not None and waited >= patience)

    def _keep_chosen_weights(self) -> None:
        name = "early" if self.progress.kept.collapsed(self.selection) else "best"
        self.student.load_state_dict(self.states.get(name) or self.evaluated.state_dict())


def learning_rate_at(epoch: int, training: TrainingConfig) -> float:
    """The learning rate of one epoch, a pure function of the epoch.

    Args:
        epoch: Counted from 0.
        training: Holds the largest rate, the schedule and the number of epochs.
    """
    if training.schedule == "constant":
        return training.learning_rate
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / training.epochs))
