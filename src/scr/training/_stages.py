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

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from scr.consistency import UNLABELED_LOSSES, ConsistencyConfig, confidence_mask
from scr.encoders import Encoder
from scr.training._checkpoint import Checkpoint, restoring
from scr.training._config import StagesConfig
from scr.training._recipe import Recipe
from scr.training._records import Handover, Stage, TermActivity, TrainingOutcome
from scr.training._rows import RowSource, stream_logits
from scr.training._together import TrainStage, train_here

SEED_STEP = 1_000_003
"""Between the seeds of two stages; a prime, so that stages of neighboring seeds do not meet."""


def train_in_stages(
    whole: Stage,
    stages: StagesConfig,
    rows_with: Callable[[Handover | None], RowSource],
    make: Callable[[RowSource], Encoder],
    train: TrainStage = train_here,
) -> tuple[Encoder, RowSource, TrainingOutcome, Handover | None]:
    """Train stage after stage; without the recipe section `stages`, there is just one.

    Settings of each stage are derived from the whole run's; `rows_with` makes its rows, with label
    hops from the training labels and a handover, and `train` trains the encoder on them. Returns
    encoder, rows and handover of the last stage, and the outcome of all.
    """
    count = stages.count if stages.active else 1
    handover: Handover | None = None
    finished: list[TrainingOutcome] = []
    for number in range(1, count + 1):
        file = beside(whole.checkpoint, f"-{number}-handover")
        if number < count and file is not None and file.exists():
            handover, outcome = _read(file, whole.identity)
            finished.append(outcome)
            continue
        rows = rows_with(handover)
        stage = _stage(whole, stages, number, handover, sum(each.epochs for each in finished))
        torch.manual_seed(stage.seed)
        encoder = make(rows)
        outcome = train(encoder, rows, stage)
        finished.append(outcome)
        if number == count or outcome.stopped == "interrupted":
            break
        consistency = whole.consistency
        if consistency is not None and _weighs_rows(whole.regularizer):
            consistency = replace(consistency, threshold=0.0)
        handover = handed_over(encoder, rows, whole.unlabeled, stages, number + 1, consistency)
        if file is not None:
            values = {"outcome": asdict(outcome)}
            Checkpoint(handover._asdict(), values, whole.identity).write(file)
    # All stages as one run that ended as its last stage did.
    outcome = replace(
        finished[-1],
        history=[record for each in finished for record in each.history],
        epochs=sum(each.epochs for each in finished),
        train_seconds=sum(each.train_seconds for each in finished),
        activity=TermActivity.joined([each.activity for each in finished]),
    )
    return encoder, rows, outcome, handover


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
    return Handover(*map(torch.cat, zip(*parts, strict=True)))


def hand_over(
    logits: Tensor,
    nodes: Tensor,
    stages: StagesConfig,
    stage: int,
    consistency: ConsistencyConfig | None,
) -> Handover:
    """Choose what the stage `stage`, from 2, may rely on: predictions of the stage before.

    Logits, shape (nodes, classes), are without dropout, and none of the nodes is a training node.
    The threshold of `consistency`, on predictions that are not tempered, decides on which nodes the
    consistency term works.
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


def _stage(
    whole: Stage, stages: StagesConfig, number: int, handover: Handover | None, epochs_before: int
) -> Stage:
    """Nodes and settings of one stage, with the nodes that it may rely on."""
    training, consistency = whole.training, whole.consistency
    training = replace(training, epochs=stages.epochs_of(number, training.epochs))
    if stages.active and number == 1 and stages.first == "supervised":
        consistency = None
    stage = replace(
        whole, number=number, epochs_before=epochs_before,
        seed=whole.seed + SEED_STEP * (number - 1), training=training, consistency=consistency,
        checkpoint=beside(whole.checkpoint, "" if number == 1 else f"-{number}"),
    )  # fmt: skip
    if handover is None:
        return stage
    if consistency is not None and not _weighs_rows(whole.regularizer):
        # The set is the handover's, for the whole stage.
        consistency = replace(consistency, threshold=0.0, threshold_end=None)
    stage = replace(
        stage,
        unlabeled=handover.confident,
        consistency=consistency,
        # Averaged weights are for the first stage, as in GAMLP's code.
        training=replace(training, average_decay=None),
    )
    if stages.method == "sle":
        return replace(
            stage,
            train=torch.cat([whole.train, handover.nodes]),
            train_labels=torch.cat([whole.train_labels, handover.soft_labels.argmax(dim=-1)]),
        )
    weight = stages.of_stage("weight", number)
    return replace(stage, reliable=handover, reliable_weight=weight)


def _weighs_rows(regularizer: str) -> bool:
    """Whether a regularizer decides batch by batch which rows take part."""
    loss = UNLABELED_LOSSES.get(regularizer)
    return loss is not None and loss.chooses_rows


def beside(checkpoint: Path | None, suffix: str) -> Path | None:
    """A file of one stage; the checkpoint of the first is the file given."""
    if checkpoint is None:
        return None
    return checkpoint.with_name(f"{checkpoint.stem}{suffix}{checkpoint.suffix}")


def _read(path: Path, identity: str) -> tuple[Handover, TrainingOutcome]:
    state = Checkpoint.read(path, identity)
    with restoring(path):
        values = dict(state.values["outcome"])
        if values["activity"] is not None:
            values["activity"] = TermActivity(**values["activity"])
        return Handover(**state.tensors), TrainingOutcome(**values)
