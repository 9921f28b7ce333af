"""Multi-stage self-training: each stage starts afresh with what the one before predicted.

This is the one place in the design where predictions flow back into the input. A finished stage
hands on `Handover`: nodes that it is sure of, with labels. The next stage trains a new encoder,
and label hops, where the encoder reads them, are rebuilt from the training labels and the handover.

    rlu   GAMLP's reliable label utilization: soft labels with a loss term of their own
    sle   SAGN's self-label-enhanced training: hard labels join the training set

With a regularizer, later stages have its consistency term too, on nodes of which the stage before
was sure enough for `consistency.threshold`; one that weighs rows by itself, such as FixMatch, is
given all nodes. Everything handed on is written beside the checkpoint, so a run resumes in the
stage, and in the epoch, in which it was stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from scr.consistency import UNLABELED_LOSSES, ConsistencyConfig, confidence_mask
from scr.encoders import Encoder
from scr.training._checkpoint import Checkpoint
from scr.training._config import StagesConfig
from scr.training._inference import stream_logits
from scr.training._loop import Trainer
from scr.training._recipe import Recipe
from scr.training._records import EpochRecord, Handover, TermActivity, TrainingOutcome
from scr.training._row_source import RowSource
from scr.training._validation import NO_VALIDATION, ValidationNodes

SEED_STEP = 1_000_003
"""Between the seeds of two stages; a prime, so that stages of neighboring seeds do not meet."""


@dataclass(frozen=True)
class Staged:
    """The end of all stages."""

    encoder: Encoder
    rows: RowSource
    outcome: TrainingOutcome
    handover: Handover | None
    """What the last stage was given; none if it was the first."""


@dataclass(frozen=True)
class StagePlan:
    """What all stages of a run share."""

    recipe: Recipe
    consistency: ConsistencyConfig | None
    train: Tensor
    train_labels: Tensor
    unlabeled: Tensor
    validation: ValidationNodes
    seed: int
    watched: ValidationNodes = NO_VALIDATION
    identity: str = ""
    """Names the run in its files, so that no other run resumes from them."""

    @property
    def weighs_rows(self) -> bool:
        """Whether the regularizer decides batch by batch which rows take part."""
        loss = UNLABELED_LOSSES.get(self.recipe.regularizer)
        return loss is not None and loss.chooses_rows

    @property
    def handed_on(self) -> ConsistencyConfig | None:
        """Settings by which a stage chooses the nodes of the next one's consistency term."""
        if self.consistency is None or not self.weighs_rows:
            return self.consistency
        return replace(self.consistency, threshold=0.0)


def train_in_stages(
    plan: StagePlan,
    rows_with: Callable[[Handover | None], RowSource],
    make: Callable[[RowSource], Encoder],
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[EpochRecord], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float = 60.0,
) -> Staged:
    """Train stage after stage; without the recipe section `stages`, there is just one.

    Args:
        plan: What all stages share.
        rows_with: Makes the rows, with label hops from the training labels and a handover.
        make: Makes a fresh encoder.
        checkpoint: File of the stage under way; handovers are written beside it.
        on_epoch: Called after every epoch.
        should_stop: Asked after every epoch.
        checkpoint_seconds: Least time between two checkpoints.
    """
    count = stage_count(plan.recipe)
    handover: Handover | None = None
    finished: list[TrainingOutcome] = []
    for stage in range(1, count + 1):
        handed_on = handover_file(checkpoint, stage)
        if stage < count and handed_on is not None and handed_on.exists():
            handover, outcome = _read(handed_on, plan.identity)
            finished.append(outcome)
            continue
        rows = rows_with(handover)
        torch.manual_seed(plan.seed + SEED_STEP * (stage - 1))
        encoder = make(rows)
        trainer = _trainer(
            plan, encoder, rows, stage, handover, stage_file(checkpoint, stage),
            epochs_before=sum(outcome.epochs for outcome in finished),
        )  # fmt: skip
        outcome = trainer.run(
            on_epoch=on_epoch, should_stop=should_stop, checkpoint_seconds=checkpoint_seconds
        )
        finished.append(outcome)
        if stage == count or outcome.stopped == "interrupted":
            break
        handover = handed_over(
            encoder, rows, plan.unlabeled, plan.recipe.stages, stage + 1, plan.handed_on
        )
        if handed_on is not None:
            _write(handed_on, handover, outcome, plan.identity)
    return Staged(encoder, rows, _join(finished), handover)


def stage_count(recipe: Recipe) -> int:
    """How many stages a recipe has."""
    return recipe.stages.count if recipe.stages.active else 1


def rebuilds_label_hops(recipe: Recipe) -> bool:
    """Whether the last stage reads label hops that an earlier one had a part in."""
    return recipe.stages.active and recipe.propagation.label_matrices > 0


def stage_epochs(recipe: Recipe) -> int:
    """Epochs of all stages together."""
    stages = range(1, stage_count(recipe) + 1)
    return sum(recipe.stages.epochs_of(stage, recipe.training.epochs) for stage in stages)


def handed_over(
    encoder: Encoder,
    rows: RowSource,
    nodes: Tensor,
    stages: StagesConfig,
    stage: int,
    consistency: ConsistencyConfig | None,
) -> Handover:
    """Predict nodes and hand on what is sure, part by part; arguments as of `hand_over`."""
    parts = [
        hand_over(logits, part, stages, stage, consistency)
        for part, logits in stream_logits(encoder, rows, nodes)
    ]
    if not parts:
        return Handover.nothing(rows.classes)
    return Handover(
        torch.cat([part.nodes for part in parts]),
        torch.cat([part.soft_labels for part in parts]),
        torch.cat([part.confident for part in parts]),
    )


def hand_over(
    logits: Tensor,
    nodes: Tensor,
    stages: StagesConfig,
    stage: int,
    consistency: ConsistencyConfig | None,
) -> Handover:
    """Choose what the stage `stage` may rely on.

    Args:
        logits: Of the stage before, without dropout, shape (nodes, classes).
        nodes: Their nodes, none of them a training node.
        stages: Its threshold and temperature decide which predictions are handed on, and how.
        stage: The stage that receives them, from 2.
        consistency: Its threshold, on predictions that are not tempered, decides on which nodes
            the consistency term works.
    """
    confident = nodes[:0]
    if consistency is not None:
        confident = nodes[confidence_mask(logits.softmax(dim=-1), consistency.threshold)]
    tempered = torch.softmax(logits / stages.of_stage("temperature", stage), dim=-1)
    reliable = confidence_mask(tempered, stages.of_stage("threshold", stage))
    soft_labels = tempered[reliable]
    if stages.method == "sle":
        hard = soft_labels.argmax(dim=-1, keepdim=True)
        soft_labels = torch.zeros_like(soft_labels).scatter_(1, hard, 1.0)
    return Handover(nodes[reliable], soft_labels, confident)


def _trainer(
    plan: StagePlan,
    encoder: Encoder,
    rows: RowSource,
    stage: int,
    handover: Handover | None,
    checkpoint: Path | None,
    *,
    epochs_before: int,
) -> Trainer:
    """The trainer of one stage, with the nodes that it may rely on."""
    stages = plan.recipe.stages
    training = plan.recipe.training
    training = replace(training, epochs=stages.epochs_of(stage, training.epochs))
    consistency, unlabeled = plan.consistency, plan.unlabeled
    reliable, reliable_weight = None, 1.0
    train, train_labels = plan.train, plan.train_labels
    regularizer = plan.recipe.regularizer
    if stages.active and stage == 1 and stages.first == "supervised":
        consistency = None
    if handover is not None:
        unlabeled = handover.confident
        if consistency is not None and not plan.weighs_rows:
            # The set is the handover's, for the whole stage.
            consistency = replace(consistency, threshold=0.0, threshold_end=None)
        # Averaged weights are for the first stage, as in GAMLP's code.
        training = replace(training, average_decay=None)
        if stages.method == "sle":
            train = torch.cat([train, handover.nodes])
            train_labels = torch.cat([train_labels, handover.hard_labels])
        else:
            reliable, reliable_weight = handover, stages.of_stage("weight", stage)
    return Trainer(
        encoder,
        rows,
        train=train,
        train_labels=train_labels,
        unlabeled=unlabeled,
        validation=plan.validation,
        training=training,
        consistency=consistency,
        regularizer=regularizer,
        seed=plan.seed + SEED_STEP * (stage - 1),
        checkpoint=checkpoint,
        identity=plan.identity,
        reliable=reliable,
        reliable_weight=reliable_weight,
        watched=plan.watched,
        stage=stage,
        epochs_before=epochs_before,
    )


def _join(outcomes: list[TrainingOutcome]) -> TrainingOutcome:
    """All stages as one run that ended as its last stage did."""
    return replace(
        outcomes[-1],
        history=[record for outcome in outcomes for record in outcome.history],
        epochs=sum(outcome.epochs for outcome in outcomes),
        train_seconds=sum(outcome.train_seconds for outcome in outcomes),
        activity=TermActivity.joined([outcome.activity for outcome in outcomes]),
    )


def stage_file(checkpoint: Path | None, stage: int) -> Path | None:
    """Checkpoint of a stage; that of the first is the file given."""
    if checkpoint is None or stage == 1:
        return checkpoint
    return checkpoint.with_name(f"{checkpoint.stem}-{stage}{checkpoint.suffix}")


def handover_file(checkpoint: Path | None, stage: int) -> Path | None:
    """What a finished stage handed on, beside its checkpoint."""
    if checkpoint is None:
        return None
    return checkpoint.with_name(f"{checkpoint.stem}-{stage}-handover{checkpoint.suffix}")


def _write(path: Path, handover: Handover, outcome: TrainingOutcome, identity: str) -> None:
    tensors = {field.name: getattr(handover, field.name) for field in dataclasses.fields(handover)}
    Checkpoint(tensors, {"outcome": asdict(outcome)}, identity).write(path)


def _read(path: Path, identity: str) -> tuple[Handover, TrainingOutcome]:
    state = Checkpoint.read(path, identity)
    outcome = TrainingOutcome(**state.values["outcome"])
    if outcome.activity is not None:
        outcome = replace(outcome, activity=TermActivity(**state.values["outcome"]["activity"]))
    return Handover(**state.tensors), outcome
