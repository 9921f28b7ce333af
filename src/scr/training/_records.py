"""What the training loop is given by an earlier stage, and what it says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from scr.selection import KeptWeights, Score


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did; those with an evaluation are kept in the history."""

    epoch: int
    supervised_loss: float
    consistency_loss: float
    learning_rate: float
    confident_nodes: int
    threshold: float | None
    seconds: float
    valid_accuracy: float | None = None
    valid_loss: float | None = None
    confident_valid_accuracy: float | None = None
    """Of the validation nodes that the confident set would take."""
    teacher_valid_accuracy: float | None = None
    """Of the averaged teacher, from the end of the warm-up on."""
    test_accuracy: float | None = None
    """Only for curves that a person looks at; nothing in training reads it."""
    stage: int = 1


@dataclass
class TermActivity:
    """What the term on unlabeled nodes did in a run, counted in the epochs as they happened."""

    epochs: int = 0
    """Epochs after the warm-up."""
    acting_epochs: int = 0
    """Those of them in which at least one node took part."""
    first_epoch: int = 0
    """The first of these, counted from 1; 0: there was none."""
    nodes: int = 0
    """Nodes that took part, summed over the epochs after the warm-up."""
    last_nodes: int = 0
    """Nodes that took part in the last epoch."""

    def add(self, epoch: int, nodes: int) -> None:
        """Count an epoch after the warm-up, in which so many nodes took part."""
        self.epochs += 1
        self.nodes += nodes
        self.last_nodes = nodes
        if nodes:
            self.acting_epochs += 1
            self.first_epoch = self.first_epoch or epoch

    def had_part(self, kept_epoch: int) -> bool:
        """Whether the term had a part in the weights of an epoch."""
        return 0 < self.first_epoch <= kept_epoch

    def summary(self, unlabeled: int) -> dict[str, int | float | None]:
        """For `metrics.json`.

        Args:
            unlabeled: How many nodes may take part; shares are of these.
        """
        possible = unlabeled * self.epochs
        return {
            "epochs": self.epochs,
            "acting_epochs": self.acting_epochs,
            "first_epoch": self.first_epoch or None,
            "confident_share": round(self.nodes / possible, 6) if possible else None,
            "confident_share_last": round(self.last_nodes / unlabeled, 6) if possible else None,
        }

    @classmethod
    def joined(cls, stages: Sequence[TermActivity | None]) -> TermActivity | None:
        """All stages of a run; the weights that it keeps are of the last one."""
        present = [each for each in stages if each is not None]
        if not present:
            return None
        return cls(
            epochs=sum(each.epochs for each in present),
            acting_epochs=sum(each.acting_epochs for each in present),
            first_epoch=present[-1].first_epoch,
            nodes=sum(each.nodes for each in present),
            last_nodes=present[-1].last_nodes,
        )


@dataclass(frozen=True)
class Handover:
    """What a finished stage hands to the next one."""

    nodes: Tensor
    """Reliable nodes, none of them a training node."""
    soft_labels: Tensor
    """Their tempered predictions, for `sle` made hard, shape (nodes, classes)."""
    confident: Tensor
    """Nodes for the consistency term of the next stage."""

    @classmethod
    def nothing(cls, classes: int) -> Handover:
        """What a stage is given that relies on no predictions."""
        no_nodes = torch.zeros(0, dtype=torch.int64)
        return cls(no_nodes, torch.zeros(0, classes), no_nodes)

    @property
    def hard_labels(self) -> Tensor:
        """The likeliest class of each reliable node."""
        return self.soft_labels.argmax(dim=-1)


@dataclass(frozen=True)
class TrainingOutcome:
    """The end of a run."""

    history: list[dict[str, Any]]
    best_epoch: int
    epochs: int
    valid_accuracy: float | None
    train_seconds: float
    stopped: str
    """Why training ended: `epochs`, `patience` or `interrupted`."""
    activity: TermActivity | None = None
    """Of the term on unlabeled nodes; none: there is no such term."""
    collapsed_to: float | None = None
    """Where weights from before `select_after` were kept: the best validation accuracy after it."""


@dataclass
class Progress:
    """What changes from epoch to epoch besides the weights."""

    epoch: int = 0
    kept: KeptWeights = field(default_factory=KeptWeights)
    hopeful_epoch: int = 0
    """The last one with an accuracy as high, or a loss as low, as any before."""
    extremes: Score | None = None
    """Highest accuracy and lowest loss so far."""
    activity: TermActivity = field(default_factory=TermActivity)
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
