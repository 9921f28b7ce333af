"""The training loop: Algorithm 1 with warm-up, evaluation, early stopping and checkpoints.

Reads rows, training labels and validation scores; returns the chosen weights and the history. It
prints nothing and knows no paths but its checkpoint's: callers can watch through `on_epoch`.

A resumed run ends in the weights of one that was never stopped. So a checkpoint has all that
decides the next step: weights, the optimizer's moments, averaged models and their steps, what the
regularizer remembers, the confident set, both random generators, and how far the run is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from scr.compute import current_group, stream_key
from scr.consistency import MeanTeacher
from scr.errors import TrainingError
from scr.selection import Selection
from scr.storage import check_fields
from scr.training._adam import make_adam
from scr.training._batches import EpochNodes, Step
from scr.training._checkpoint import Checkpoint, Machine, restoring
from scr.training._config import TrainingConfig
from scr.training._objective import balanced_class_weights, mixed_loss
from scr.training._records import EpochRecord, Handover, Progress, Stage, TrainingOutcome
from scr.training._rows import RowSource, predict_logits
from scr.training._subset_turns import make_turns
from scr.training._term import NoTerm, UnlabeledTerm

_VALUES: dict[str, Any] = {
    "progress.epoch": int, "progress.hopeful_epoch": int, "progress.seconds": float,
    "progress.history": list[dict[str, Any]], "progress.kept.best": dict[str, float | None] | None,
    "progress.kept.early": dict[str, float | None] | None, "progress.kept.best_epoch": int,
    "progress.kept.early_epoch": int, "progress.activity": dict[str, int],
    "threshold": float | None, "teacher_step?": int, "average_step?": int,
}  # fmt: skip
"""Of the values of a checkpoint."""
CHECKPOINT_SECONDS = 60.0
"""Least time between two checkpoints."""


class Trainer:
    """Trains one encoder on one set of rows.

    Validation labels are only ever seen by `stage.validation`; test labels are not given to it.

    In a group of processes, each runs a trainer with the same arguments. All draw the same steps
    and compute their shares of the rows, of which the number is fixed; gradients are added up, and
    rank 0 decides what the others might decide otherwise by the last bit of their machine. It
    alone writes checkpoints.
    """

    def __init__(self, student: nn.Module, rows: RowSource, stage: Stage) -> None:
        """Take the encoder, which is trained in place and ends with the chosen weights."""
        self.student, self.rows, self.stage = student.to(rows.device), rows, stage
        self.group = current_group()
        self.training = training = stage.training
        self.targets = stage.train_labels.to(rows.device)
        self.reliable = stage.reliable or Handover.nothing(rows.classes)
        self.generator = torch.Generator().manual_seed(stage.seed)
        consistency = stage.consistency
        has_term = consistency is not None and consistency.weight != 0
        self.term = UnlabeledTerm(student, rows, stage) if has_term else NoTerm()
        self.averages = {} if self.term.teacher is None else {"teacher": self.term.teacher}
        """Averaged models by their names in checkpoints."""
        self.evaluated = student
        if training.average_decay is not None:
            self.averages["average"] = MeanTeacher(student, training.average_decay)
            self.evaluated = self.averages["average"].model
        self.optimizer = make_adam(
            student.parameters(),
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
        )
        self.turns = make_turns(student, rows, seed=stage.seed)
        self.class_weights: Tensor | None = None
        if training.class_weights == "balanced":
            self.class_weights = balanced_class_weights(self.targets, rows.classes).to(rows.device)
        self.states: dict[str, dict[str, Tensor]] = {}
        """Weights that may be kept: the `best`, and the `early` ones from before `select_after`."""
        self.selection = Selection(
            training.keeps, training.select_after, training.epochs,
            stage.validation.effective_nodes, training.by_metric,
        )  # fmt: skip
        self.progress = Progress()
        self.machines: list[Machine] = []
        self.checkpoint_seconds = CHECKPOINT_SECONDS

    def run(self) -> TrainingOutcome:
        """Train to the end, or until `stage.should_stop` says so; a stopped run can be resumed."""
        stage, stopped = self.stage, "epochs"
        # Where files take a moment to be seen everywhere, others might read an older one.
        state = self.group.same(self._stored() if self.group.rank == 0 else None)
        if state is not None:
            assert stage.checkpoint is not None
            with restoring(stage.checkpoint):
                self.restore(state)
        progress, saved = self.progress, time.monotonic()
        while progress.epoch < self.training.epochs:
            if self._patience_is_over():
                stopped = "patience"
                break
            if self.group.same(stage.should_stop is not None and stage.should_stop()):
                stopped = "interrupted"
                break
            record = self._epoch(progress.epoch)
            if self._evaluates(progress.epoch):
                progress.history.append(record.table())
            progress.epoch += 1
            progress.seconds += record.seconds
            if stage.on_epoch is not None:
                stage.on_epoch(record)
            if time.monotonic() - saved > self.checkpoint_seconds:
                self._save()
                saved = time.monotonic()
        if stopped == "interrupted":
            self._save()
        self.rows = self.turns.end()
        if stopped != "interrupted":
            name = "early" if progress.kept.collapsed(self.selection) else "best"
            self.student.load_state_dict(self.states.get(name) or self.evaluated.state_dict())
        return self._outcome(stopped)

    def state(self) -> Checkpoint:
        """Copy everything that decides what the next epoch does."""
        state = Checkpoint(identity=self.stage.identity, machines=self.machines)
        state.put("student", self.student.state_dict())
        state.put_optimizer(self.optimizer)
        self.term.put(state)
        for name, average in self.averages.items():
            state.put(name, average.model.state_dict())
            state.put(f"{name}_averages", average.averages)
            state.values[f"{name}_step"] = average.step
        for name, weights in self.states.items():
            state.put(name, weights)
        random = {"batches": self.generator.get_state(), "torch": torch.get_rng_state()}
        if self.rows.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.rows.device)
        state.put("random", random)
        state.values["progress"] = asdict(self.progress)
        return state

    def restore(self, state: Checkpoint) -> None:
        """Continue where the state of a trainer with the same settings was taken."""
        self.student.load_state_dict(state.get("student"))
        state.load_optimizer(self.optimizer)
        self.term.load(state)
        for name, average in self.averages.items():
            average.model.load_state_dict(state.get(name))
            average.averages = state.get(f"{name}_averages")
            average.step = state.values[f"{name}_step"]
        self.states = {name: state.get(name) for name in ("best", "early")}
        random = state.get("random")
        self.generator.set_state(random["batches"])
        torch.set_rng_state(random["torch"])
        if "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self.rows.device)
        self.progress = Progress.restored(state.values["progress"])
        self.machines = state.machines

    def _stored(self) -> Checkpoint | None:
        """The checkpoint to resume from, if there is one."""
        path = self.stage.checkpoint
        if path is None or not path.exists():
            return None
        state = Checkpoint.read(path, self.stage.identity)
        check_fields(path, state.values, _VALUES)
        return state

    def _save(self) -> None:
        if self.stage.checkpoint is not None and self.group.rank == 0:
            self.state().write(self.stage.checkpoint)

    def _outcome(self, stopped: str) -> TrainingOutcome:
        progress, kept = self.progress, self.progress.kept
        score, epoch, collapsed_to = kept.best, kept.best_epoch, None
        if stopped != "interrupted" and kept.collapsed(self.selection):
            collapsed_to = None if kept.best is None else kept.best.value
            score, epoch = kept.early, kept.early_epoch
        elif stopped != "interrupted" and self.training.select == "last":
            epoch = progress.epoch
        return TrainingOutcome(
            history=progress.history, best_epoch=self.stage.epochs_before + epoch,
            epochs=progress.epoch, valid_accuracy=None if score is None else score.accuracy,
            train_seconds=progress.seconds, stopped=stopped,
            activity=progress.activity if isinstance(self.term, UnlabeledTerm) else None,
            collapsed_to=collapsed_to,
            valid_metric=None if score is None else self.stage.validation.reported(score),
        )  # fmt: skip

    def _epoch(self, epoch: int) -> EpochRecord:
        started = time.perf_counter()
        self._begin_in_group(epoch)
        rate = learning_rate_at(epoch, self.training)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.rows = self.turns.begin(epoch, [each.model for each in self.averages.values()])
        confident = self.term.begin_epoch(epoch, self.rows)
        nodes = EpochNodes(
            epoch, self.stage.train, confident, self.reliable.nodes,
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
        number = self.stage.epochs_before + epoch + 1
        if self.term.is_active(epoch):
            self.progress.activity.add(number, confident_nodes)
        scores = self._evaluate(epoch) if self._evaluates(epoch) else {}
        seconds = time.perf_counter() - started
        watched = self.stage.watched
        if len(watched.nodes) and self._evaluates(epoch):
            logits = predict_logits(self.evaluated, self.rows, watched.nodes)
            scores["test_accuracy"] = watched.score(logits).accuracy
        return EpochRecord(
            epoch=number, stage=self.stage.number, supervised_loss=supervised / max(steps, 1),
            consistency_loss=consistent / max(steps, 1), learning_rate=rate,
            confident_nodes=confident_nodes, threshold=self.term.threshold, seconds=seconds,
            **scores,
        )  # fmt: skip

    def _begin_in_group(self, epoch: int) -> None:
        """Give all processes the same random numbers and weights."""
        if not self.group.cuts_steps:
            return
        # A function of seed and epoch: a resumed group draws the same, and stores nothing.
        torch.manual_seed(int(stream_key(self.stage.seed, epoch)))
        # Machines of different kinds round differently.
        models = [self.student, *(each.model for each in self.averages.values())]
        self.group.copy_all_([value for model in models for value in model.state_dict().values()])

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
            reliable_weight=self.stage.reliable_weight,
            unlabeled=len(step.unlabeled),
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
        validation, progress = self.stage.validation, self.progress
        if len(validation.nodes) == 0:
            return {}
        logits = predict_logits(self.evaluated, self.rows, validation.nodes)
        score = self.group.same(validation.score(logits))
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
            "valid_metric": validation.reported(score),
            **self.term.scores(epoch, self.rows, validation, logits),
        }

    def _patience_is_over(self) -> bool:
        progress, patience = self.progress, self.training.patience
        by_loss = self.training.keeps == "lowest-loss"
        waited = progress.epoch - (progress.hopeful_epoch if by_loss else progress.kept.best_epoch)
        return bool(patience and progress.kept.best is not None and waited >= patience)


def learning_rate_at(epoch: int, training: TrainingConfig) -> float:
    """The learning rate of one epoch, counted from 0: a pure function of the epoch."""
    if training.schedule == "constant":
        return training.learning_rate
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / training.epochs))


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Round numbers below 1e-38 to 0: weight decay makes many, and each costs 100 cycles."""
    before = bool((torch.tensor([1e-40]) * 1.0 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
