"""What the training loop is given by an earlier stage, and what it says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from scr.training.validation import Score


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
    test_accuracy: float | None = None
    """Only for curves that a person looks at; nothing in training reads it."""
    stage: int = 1


@dataclass(frozen=True)
class ReliableNodes:
    """Unlabelled nodes with the soft labels that an earlier stage gave them."""

    nodes: Tensor
    soft_labels: Tensor
    """Shape (nodes, classes), in the order of `nodes`."""
    weight: float = 1.0
    """Factor of their term (gamma)."""


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


@dataclass
class Progress:
    """What changes from epoch to epoch besides the weights."""

    epoch: int = 0
    best_epoch: int = 0
    best: Score | None = None
    hopeful_epoch: int = 0
    """The last one with an accuracy as high, or a loss as low, as any before."""
    extremes: Score | None = None
    """Highest accuracy and lowest loss so far."""
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
