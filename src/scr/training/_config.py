"""Settings of the training loop and of its stages: the recipe sections `training` and `stages`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scr.config import check


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast and on how many rows at once a model is trained."""

    epochs: int = 200
    """Passes over the labeled nodes."""
    batch_size: int = 10_000
    """Labeled rows per step; with `proportional`, labeled and unlabeled rows together."""
    unlabeled_per_batch: int | Literal["proportional"] = 2_000
    """Confident unlabeled rows per step, or as many as keep both pools in step."""
    learning_rate: float = 0.001
    """Step size of Adam."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` lowers the learning rate to 0 over all epochs."""
    weight_decay: float = 0.0
    """L2 penalty, added to the gradient as Adam does it."""
    clip: float | None = None
    """Largest norm of the gradient; none: no limit."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced` weighs each class by the inverse of its share among training nodes."""
    average_decay: float | None = None
    """Evaluate an exponential average of the weights with this decay; none: the weights."""
    patience: int = 100
    """Epochs without a better validation accuracy after which training stops; 0: never. With
    `lowest-loss`: without an accuracy as high, or a loss as low, as any before."""
    evaluate_every: int = 5
    """Epochs between two evaluations on validation nodes."""
    select: Literal["best", "lowest-loss", "last"] = "best"
    """Which weights to keep: those of the best validation accuracy, of the lowest validation loss,
    or the last."""
    select_after: float = 0.0
    """Share of the epochs that pass before weights may be kept: a small validation set likes some
    early ones by luck."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "evaluate_every"):
            value = getattr(self, name)
            check(value >= 1, f"training.{name}", value, "a whole number of at least 1")
        check(
            self.unlabeled_per_batch == "proportional" or self.unlabeled_per_batch >= 1,
            "training.unlabeled_per_batch",
            self.unlabeled_per_batch,
            "`proportional` or a whole number of at least 1",
        )
        check(self.learning_rate > 0, "training.learning_rate", self.learning_rate,
              "a number above 0")  # fmt: skip
        check(self.weight_decay >= 0, "training.weight_decay", self.weight_decay,
              "a number of at least 0")  # fmt: skip
        check(self.clip is None or self.clip > 0, "training.clip", self.clip, "a number above 0")
        check(self.average_decay is None or 0 <= self.average_decay < 1, "training.average_decay",
              self.average_decay, "a number in [0, 1)")  # fmt: skip
        check(0 <= self.select_after < 1, "training.select_after", self.select_after,
              "a number in [0, 1)")  # fmt: skip
        check(self.patience >= 0, "training.patience", self.patience,
              "a whole number of at least 0")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StagesConfig:
    """Whether a run is repeated with what it learned before, and how far that is trusted.

    Settings of later stages are one value for all of them, or a list with one value each.
    """

    method: Literal["none", "rlu", "sle"] = "none"
    """`rlu`: soft labels with a loss of their own; `sle`: hard labels join the training set."""
    count: int = 3
    """Stages in all, the first one included."""
    epochs: int | tuple[int, ...] | None = None
    """Epochs of each stage; none: `training.epochs` in every stage."""
    threshold: float | tuple[float, ...] = 0.9
    """Least confidence of a node whose prediction the next stage relies on."""
    temperature: float | tuple[float, ...] = 1.0
    """Divides the logits of the predictions that are handed on; below 1 makes them harder."""
    weight: float | tuple[float, ...] = 1.0
    """Factor of the loss on reliable nodes (gamma in GAMLP); `rlu` only."""
    first: Literal["supervised", "regularized"] = "supervised"
    """Whether the first stage has the consistency term too, if the regularizer is not `none`."""

    def __post_init__(self) -> None:
        check(self.count >= 1, "stages.count", self.count, "a whole number of at least 1")
        later = self.count - 1
        self._check("epochs", self.count, lambda value: value >= 1, "of at least 1")
        self._check("threshold", later, lambda value: 0 <= value <= 1, "in [0, 1]")
        self._check("temperature", later, lambda value: value > 0, "above 0")
        self._check("weight", later, lambda value: value >= 0, "of at least 0")

    def _check(self, name: str, length: int, valid: Callable[[float], bool], range_: str) -> None:
        value = getattr(self, name)
        if value is None:
            return
        values = value if isinstance(value, tuple) else (value,)
        fits = not isinstance(value, tuple) or len(value) == length
        check(fits and all(valid(item) for item in values), f"stages.{name}", value,
              f"one number {range_}, or a list of {length} such numbers")  # fmt: skip

    @property
    def active(self) -> bool:
        """Whether there is more than one stage."""
        return self.method != "none" and self.count > 1

    def of_stage(self, name: str, stage: int) -> float:
        """A setting as stage `stage` (from 2) has it."""
        value = getattr(self, name)
        return float(value[stage - 2] if isinstance(value, tuple) else value)

    def epochs_of(self, stage: int, default: int) -> int:
        """Epochs of a stage, counted from 1."""
        if self.epochs is None or not self.active:
            return default
        return self.epochs[stage - 1] if isinstance(self.epochs, tuple) else self.epochs
