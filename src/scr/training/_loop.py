"""The training loop: Algorithm 1 with warm-up, evaluation, early stopping and checkpoints.

Reads rows, training labels and validation scores; returns the chosen weights and the history. It
prints nothing and knows no paths but its checkpoint's: who calls it can watch through `on_epoch`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
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
from scr.encoders import HopBatch
from scr.errors import TrainingError
from scr.selection import Selection
from scr.training._batches import epoch_batches
from scr.training._checkpoint import Checkpoint
from scr.training._config import TrainingConfig
from scr.training._graph_rows import GraphRows
from scr.training._inference import predict_logits, stream_logits
from scr.training._objective import balanced_class_weights, mixed_loss
from scr.training._records import EpochRecord, Progress, ReliableNodes, TrainingOutcome
from scr.training._resuming import restore_trainer, trainer_state
from scr.training._row_source import RowSource
from scr.training._subgraph_rows import SubgraphRows
from scr.training._subset_turns import SubsetTurns
from scr.training._validation import ValidationNodes


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
        reliable: ReliableNodes | None = None,
        watched: ValidationNodes | None = None,
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
            identity: Names the run in its checkpoint, so that no other run goes on from it.
            reliable: Nodes that an earlier stage labeled.
            watched: Nodes whose accuracy is written into the history and read by nobody here.
        """
        self.student = student.to(rows.device)
        self.rows = rows
        self.train = train
        self.targets = train_labels.to(rows.device)
        self.validation = validation
        self.training = training
        self.config = consistency
        self.checkpoint = checkpoint
        self.identity = identity
        self.watched = watched
        self.reliable = reliable
        self.generator = torch.Generator().manual_seed(seed)
        self.loss: UnlabeledLoss = ConsistencyLoss(weight=0.0)
        self.confident: ConfidentSet | None = None
        self.teacher: MeanTeacher | None = None
        if consistency is not None and consistency.weight > 0:
            self.loss = make_unlabeled_loss(regularizer, consistency, rows.classes)
            self.loss.to(rows.device)
            chooses = self.loss.chooses_rows
            self.confident = ConfidentSet(
                unlabeled,
                threshold=0.0 if chooses else consistency.threshold,
                threshold_end=None if chooses else consistency.threshold_end,
                refresh=consistency.refresh,
                sample=consistency.refresh_sample,
                seed=seed,
            )
            if consistency.decay is not None:
                self.teacher = MeanTeacher(
                    student,
                    consistency.decay,
                    ramp=consistency.ramp,
                    statistics=consistency.teacher_statistics,
                )
        self.average = (
            None if training.average_decay is None else MeanTeacher(student, training.average_decay)
        )
        self.optimizer = torch.optim.Adam(
            student.parameters(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            fused=True,  # one pass over all parameters instead of a dozen
        )
        self.turns = SubsetTurns.of(student, rows, seed=seed)
        self.class_weights = (
            balanced_class_weights(self.targets, rows.classes).to(rows.device)
            if training.class_weights == "balanced"
            else None
        )
        self.best_state: dict[str, Tensor] = {}
        self.early_state: dict[str, Tensor] = {}
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
        if self.checkpoint is not None and self.checkpoint.exists():
            restore_trainer(self, Checkpoint.read(self.checkpoint, self.identity))
        stopped = "epochs"
        saved = time.monotonic()
        progress = self.progress
        while progress.epoch < self.training.epochs:
            if self._patience_is_over():
                stopped = "patience"
                break
            if should_stop is not None and should_stop():
                stopped = "interrupted"
                break
            record = self._epoch(progress.epoch)
            progress.epoch += 1
            progress.seconds += record.seconds
            if record.valid_accuracy is not None or self._evaluates(record.epoch - 1):
                progress.history.append(asdict(record))
            if on_epoch is not None:
                on_epoch(record)
            if self.checkpoint is not None and time.monotonic() - saved > checkpoint_seconds:
                trainer_state(self).write(self.checkpoint)
                saved = time.monotonic()
        if self.checkpoint is not None and stopped == "interrupted":
            trainer_state(self).write(self.checkpoint)
        if self.turns is not None:
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
            best_epoch=epoch,
            epochs=progress.epoch,
            valid_accuracy=None if score is None else score.accuracy,
            train_seconds=progress.seconds,
            stopped=stopped,
            activity=None if self.confident is None else progress.activity,
            collapsed_to=collapsed_to,
        )

    def _epoch(self, epoch: int) -> EpochRecord:
        started = time.perf_counter()
        rate = learning_rate_at(epoch, self.training)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._take_turns(epoch)
        active = self._consistency_is_active(epoch)
        if active and self.config is not None:
            share = weight_share_at(epoch - self.config.warmup, self.config.weight_ramp)
            self.loss.begin_epoch(epoch, self.training.epochs, share=share)
            if self.teacher is not None and epoch == self.config.warmup:
                self.teacher.restart(self.student)
            self._refresh_confident_set(epoch)
        nodes = self.confident.nodes if active and self.confident is not None else self.train[:0]
        self.student.train()
        supervised = consistent = 0.0
        steps = 0
        with closing(self.rows.stream(self._draw(epoch, nodes), self._nodes_of)) as batches:
            for (labeled, unlabeled, relied_on, *_), batch in batches:
                first, second = self._step(batch, labeled, unlabeled, relied_on)
                supervised, consistent, steps = supervised + first, consistent + second, steps + 1
        confident_nodes = round(len(nodes) * self.loss.chosen_share)
        if active:
            self.progress.activity.add(epoch + 1, confident_nodes)
        record = EpochRecord(
            epoch=epoch + 1,
            supervised_loss=supervised / max(steps, 1),
            consistency_loss=consistent / max(steps, 1),
            learning_rate=rate,
            confident_nodes=confident_nodes,
            threshold=self._threshold,
            seconds=0.0,
        )
        scores = self._evaluate(epoch) if self._evaluates(epoch) else {}
        seconds = time.perf_counter() - started
        if self.watched is not None and self._evaluates(epoch):
            logits = predict_logits(self._evaluated, self.rows, self.watched.nodes)
            scores["test_accuracy"] = self.watched.score(logits).accuracy
        return EpochRecord(**{**asdict(record), **scores, "seconds": seconds})

    def _take_turns(self, epoch: int) -> None:
        """Where only some subsets of relations train at a time: those of this epoch."""
        if self.turns is not None:
            averages = [each.model for each in (self.teacher, self.average) if each is not None]
            self.rows = self.turns.begin(epoch, averages)

    def _draw(self, epoch: int, confident: Tensor) -> Iterator[tuple[Any, ...]]:
        """The steps of an epoch; of some coupled encoders, the rows themselves decide on them."""
        reliable = self.train[:0] if self.reliable is None else self.reliable.nodes
        if isinstance(self.rows, SubgraphRows):
            return self.rows.draws(epoch, self.train, confident, reliable)
        if isinstance(self.rows, GraphRows):
            self.rows.begin_epoch(epoch)
        return epoch_batches(
            len(self.train),
            confident,
            torch.arange(len(reliable)),
            batch_size=self.training.batch_size,
            unlabeled_per_batch=self.training.unlabeled_per_batch,
            generator=self.generator,
        )

    def _nodes_of(self, drawn: tuple[Any, ...]) -> Tensor:
        """The nodes of one step: labeled, reliable and unlabeled ones."""
        labeled, unlabeled, relied_on, *_ = drawn
        known = self.train[labeled]
        if self.reliable is not None:
            known = torch.cat([known, self.reliable.nodes[relied_on]])
        return torch.cat([known, unlabeled])

    def _step(
        self, batch: HopBatch, labeled: Tensor, unlabeled: Tensor, relied_on: Tensor
    ) -> tuple[float, float]:
        """One update of the student and of all that follows it."""
        targets = self.targets[labeled.to(self.targets.device)]
        soft_labels, weight = None, 1.0
        if self.reliable is not None:
            soft_labels = self.reliable.soft_labels[relied_on].to(self.rows.device)
            weight = self.reliable.weight
        consistent = len(unlabeled) > 0 and self.config is not None
        loss = mixed_loss(
            self.student,
            batch,
            targets,
            self.loss,
            # Without a term that compares them, one view is enough.
            views=self.config.views if consistent and self.config is not None else 1,
            teacher=self.teacher if consistent else None,
            teacher_dropout=self.config is not None and self.config.teacher_dropout,
            class_weights=self.class_weights,
            reliable=soft_labels,
            reliable_weight=weight,
        )
        total, supervised = loss.total, loss.supervised
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        if self.training.clip is not None:
            nn.utils.clip_grad_norm_(self.student.parameters(), self.training.clip)
        self.optimizer.step()
        if self.turns is not None:
            self.turns.hold()
        if self.teacher is not None and self._consistency_is_active(self.progress.epoch):
            self.teacher.update(self.student)
        if self.average is not None:
            self.average.update(self.student)
        terms = supervised.item(), loss.consistency.item()
        if not all(map(math.isfinite, terms)):
            raise TrainingError(
                f"The loss became {sum(terms)} in epoch {self.progress.epoch + 1}; expected a "
                "finite number",
                hint="lower training.learning_rate, or set training.clip=1",
            )
        return terms

    def _consistency_is_active(self, epoch: int) -> bool:
        return (
            self.confident is not None and self.config is not None and epoch >= self.config.warmup
        )

    def _refresh_confident_set(self, epoch: int) -> None:
        """Score candidates without dropout, by whoever makes the pseudo labels."""
        confident, config = self.confident, self.config
        if confident is None or config is None or not confident.due(epoch, first=config.warmup):
            return
        scored = stream_logits(self._judge(epoch), self.rows, confident.to_score(epoch))
        with closing(scored):
            parts = (torch.softmax(logits, dim=-1) for _, logits in scored)
            confident.update_by_parts(parts, epoch, self.training.epochs)

    def _judge(self, epoch: int) -> nn.Module:
        """Whose predictions decide which nodes are confident; in the warm-up nobody teaches yet."""
        config, teacher = self.config, self.teacher
        if teacher is None or config is None or epoch < config.warmup or config.judge == "student":
            return self.student
        return teacher.model

    @property
    def _threshold(self) -> float | None:
        """Least confidence of nodes that take part: the method's own, else the confident set's."""
        if self.confident is None:
            return None
        own = self.loss.threshold
        return self.confident.threshold if own is None else own

    @property
    def _evaluated(self) -> nn.Module:
        return self.student if self.average is None else self.average.model

    def _evaluates(self, epoch: int) -> bool:
        return (epoch + 1) % self.training.evaluate_every == 0 or epoch + 1 == self.training.epochs

    def _evaluate(self, epoch: int) -> dict[str, float | None]:
        """Score the validation nodes and keep the weights if they are the best so far."""
        if len(self.validation.nodes) == 0:
            return {}
        logits = predict_logits(self._evaluated, self.rows, self.validation.nodes)
        score = self.validation.score(logits)
        progress = self.progress
        if score.joins(progress.extremes):
            progress.hopeful_epoch = epoch + 1
        progress.extremes = score.extremes(progress.extremes)
        remembered = progress.kept.offer(epoch + 1, score, self.selection)
        if remembered is not None and self.training.select != "last":
            state = {name: value.clone() for name, value in self._evaluated.state_dict().items()}
            if remembered == "best":
                self.best_state = state
            else:
                self.early_state = state
        scores: dict[str, float | None] = {
            "valid_accuracy": score.accuracy,
            "valid_loss": score.loss,
        }
        if self.confident is not None:
            if self.teacher is not None and self._consistency_is_active(epoch):
                taught = predict_logits(self.teacher.model, self.rows, self.validation.nodes)
                scores["teacher_valid_accuracy"] = self.validation.score(taught).accuracy
                logits = taught if self._judge(epoch) is self.teacher.model else logits
            scores["confident_valid_accuracy"] = self.validation.confident_accuracy(
                logits.softmax(dim=-1), self._threshold or 0.0
            )
        return scores

    def _patience_is_over(self) -> bool:
        patience = self.training.patience
        progress = self.progress
        by_loss = self.training.select == "lowest-loss"
        kept = progress.kept
        waited = progress.epoch - (progress.hopeful_epoch if by_loss else kept.best_epoch)
        return bool(patience and kept.best is not None and waited >= patience)

    def _keep_chosen_weights(self) -> None:
        if self.progress.kept.collapsed(self.selection):
            self.student.load_state_dict(self.early_state)
        elif self.best_state:
            self.student.load_state_dict(self.best_state)
        elif self.average is not None:
            self.student.load_state_dict(self.average.model.state_dict())


def learning_rate_at(epoch: int, training: TrainingConfig) -> float:
    """The learning rate of one epoch, a pure function of the epoch.

    Args:
        epoch: Counted from 0.
        training: Holds the largest rate, the schedule and the number of epochs.
    """
    if training.schedule == "constant":
        return training.learning_rate
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / training.epochs))
