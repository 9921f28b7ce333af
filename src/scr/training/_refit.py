"""Train once more on every known label, for as many epochs as validation nodes chose.

Validation nodes choose the epoch, and for that their labels must not be trained on. Once it is
chosen, they can be: the refit starts from scratch, trains on training and validation labels
together, with the settings of the run, and keeps the weights of its last epoch. After it, nothing
may be measured on validation nodes; their accuracy is that from before the refit.

What was chosen is written beside the checkpoint, so that a run that is stopped in its refit resumes
there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from scr.errors import ConfigError
from scr.graph import Graph, GraphPart, known_labels
from scr.training._checkpoint import Checkpoint, restoring
from scr.training._records import NO_VALIDATION, Stage, TermActivity, TrainingOutcome
from scr.training._stages import beside
from scr.training._trust import TermGain

if TYPE_CHECKING:
    from scr.training._recipe import Recipe


@dataclass(frozen=True)
class Selected:
    """What a run has chosen before its refit."""

    outcome: TrainingOutcome
    weight: float | None
    """Of the consistency term; 0 where the baseline was kept, none without a term."""
    notes: list[str]
    held_out: Tensor
    """Probabilities of the labeled validation nodes, by the weights that were chosen."""
    gain: TermGain | None = None
    """Of the term, where it was compared."""

    def write(self, stage: Stage) -> None:
        """Keep it beside the checkpoint of a stage, if it has one."""
        file = beside(stage.checkpoint, "-selected")
        if file is not None:
            values = asdict(dataclasses.replace(self, held_out=self.held_out[:0]))
            del values["held_out"]
            Checkpoint({"held_out": self.held_out}, values, stage.identity).write(file)

    @classmethod
    def read(cls, stage: Stage) -> Selected | None:
        """What an earlier session has chosen; none: nothing yet."""
        file = beside(stage.checkpoint, "-selected")
        if file is None or not file.exists():
            return None
        kept = Checkpoint.read(file, stage.identity)
        values = kept.values
        with restoring(file):
            outcome = TrainingOutcome(**values["outcome"])
            if outcome.activity is not None:
                activity = TermActivity(**values["outcome"]["activity"])
                outcome = dataclasses.replace(outcome, activity=activity)
            gain = TermGain(**values["gain"]) if values.get("gain") else None
            return cls(outcome, values["weight"], values["notes"], kept.tensors["held_out"], gain)


def check_refit(graph: Graph, recipe: Recipe) -> None:
    """Refuse a refit where there is nothing to choose its epochs by, or several stages."""
    if not recipe.training.refit:
        return
    if len(graph.valid) == 0:
        raise ConfigError(
            "training.refit", True, "false where a graph has no validation nodes",
            hint="give validation nodes, whose labels a refit trains on",
        )  # fmt: skip
    if recipe.stages.active:
        raise ConfigError(
            "training.refit", True, "false where a run has stages",
            hint="leave out `stages.method`, or the refit",
        )  # fmt: skip


def with_known_labels(graph: Graph, recipe: Recipe) -> Graph:
    """The graph as the last training run of a recipe sees it.

    After a refit, labeled validation nodes are training nodes, and none validates.
    """
    if not recipe.training.refit:
        return graph
    valid = np.asarray(graph.valid)
    labeled = valid[known_labels(graph.labels[valid])]
    train = np.union1d(np.asarray(graph.train), labeled).astype(np.int64)
    if isinstance(graph, GraphPart):
        known = np.union1d(graph.whole_train, graph.whole_valid)
        graph = dataclasses.replace(graph, whole_train=known, whole_valid=known[:0])
    return dataclasses.replace(graph, train=train, valid=labeled[:0])


def refit_stage(stage: Stage, graph: Graph, selected: Selected, unlabeled: torch.Tensor) -> Stage:
    """The stage of the refit: every label of a graph `with_known_labels`, and the epochs chosen."""
    consistency = stage.consistency
    if consistency is not None and selected.weight is not None:
        consistency = dataclasses.replace(consistency, weight=selected.weight)
    return dataclasses.replace(
        stage,
        train=torch.from_numpy(np.array(graph.train, dtype=np.int64)),
        train_labels=torch.from_numpy(np.array(graph.labels[graph.train], dtype=np.int64)),
        unlabeled=unlabeled,
        validation=NO_VALIDATION,
        watched=NO_VALIDATION,
        consistency=consistency,
        training=dataclasses.replace(
            stage.training, epochs=selected.outcome.best_epoch, select="last", patience=0
        ),
        checkpoint=beside(stage.checkpoint, "-refit"),
    )


def refitted(selected: TrainingOutcome, outcome: TrainingOutcome) -> TrainingOutcome:
    """One outcome of both: scores of the selection, weights and term of the refit."""
    return dataclasses.replace(
        selected,
        activity=outcome.activity,
        stopped=outcome.stopped if outcome.stopped == "interrupted" else selected.stopped,
        train_seconds=selected.train_seconds + outcome.train_seconds,
    )


def refit_note(graph: Graph, epochs: int) -> str:
    """What should be known of a run with a refit; the graph is one `with_known_labels`."""
    return (
        f"Trained once more on all {len(graph.train):,} labels of training and validation nodes, "
        f"for {epochs:,} epochs; accuracies on validation nodes are from before the refit"
    )
