"""Which weights a training run keeps: one rule, which the loop follows and reports draw again.

    best          those of the best validation accuracy, the lower loss where several tie; another
                  metric (`training.metric`) may take the place of accuracy
    lowest-loss   those of the lowest validation loss
    last          the last ones

A small validation set likes some early weights by luck, so a share of the epochs may pass before
weights are kept (`training.select_after`). Those of the epochs before are remembered all the same:
where that metric collapses afterwards, by more than chance explains, they are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

CLEARLY = 3.0
"""Standard errors by which accuracy must have fallen to be called a collapse."""


@dataclass(frozen=True)
class Score:
    """How good predictions for the validation nodes are."""

    accuracy: float
    loss: float
    metric: float | None = None
    """What counts instead of accuracy, more of it being better; none: accuracy counts."""

    @property
    def value(self) -> float:
        """What counts."""
        return self.accuracy if self.metric is None else self.metric

    def beats(self, other: Score | None, *, by_loss: bool = False) -> bool:
        """Higher value; equal value and lower loss counts too, since small sets tie often.

        With `by_loss`, only the loss counts; any score beats none.
        """
        if other is None:
            return True
        if by_loss:
            return self.loss < other.loss
        return (self.value, -self.loss) > (other.value, -other.loss)

    def joins(self, extremes: Score | None) -> bool:
        """Whether value or loss is at least as good as the best of each so far."""
        return extremes is None or self.value >= extremes.value or self.loss <= extremes.loss

    def extremes(self, other: Score | None) -> Score:
        """The higher accuracy, the lower loss and the higher metric."""
        if other is None:
            return self
        metric = None if self.metric is None else max(self.value, other.value)
        return Score(max(self.accuracy, other.accuracy), min(self.loss, other.loss), metric)

    def clearly_below(self, other: Score, nodes: int) -> bool:
        """Whether the value on so many nodes is lower by more than chance explains.

        The standard error is that of two accuracies on different nodes. On the same nodes it is
        smaller, so that what is called clear is so all the more.
        """
        if nodes == 0:
            return False
        variance = sum(each.value * (1 - each.value) for each in (self, other)) / nodes
        return other.value - self.value > CLEARLY * math.sqrt(variance)


@dataclass(frozen=True)
class Selection:
    """The rule, for one stage of a run."""

    select: Literal["best", "lowest-loss", "last"] = "best"
    after: float = 0.0
    """Share of the epochs that pass before weights may be kept."""
    epochs: int = 1
    """How many there are at most."""
    nodes: int = 0
    """Validation nodes; of none it cannot be said whether accuracy has collapsed. For a metric over
    classes, so many as make accuracy as uncertain."""
    by_metric: bool = False
    """Whether scores have a metric that counts instead of accuracy."""


@dataclass
class KeptWeights:
    """Follows the scores of a stage; epochs are counted from 1."""

    best: Score | None = None
    """Of the epochs that are late enough."""
    best_epoch: int = 0
    early: Score | None = None
    """The best before."""
    early_epoch: int = 0

    def offer(self, epoch: int, score: Score, rule: Selection) -> Literal["best", "early"] | None:
        """Take note of an epoch's score.

        Returns:
            As what the weights of this epoch are to be remembered; None: not at all.
        """
        # Of a few epochs not even the last may come after the share; it is late enough, always.
        late_enough = epoch == rule.epochs or epoch - 1 >= rule.after * rule.epochs
        by_loss = rule.select == "lowest-loss"
        if not score.beats(self.best if late_enough else self.early, by_loss=by_loss):
            return None
        if late_enough:
            self.best, self.best_epoch = score, epoch
            return "best"
        self.early, self.early_epoch = score, epoch
        return "early"

    def collapsed(self, rule: Selection) -> bool:
        """Whether the best score is clearly below what there was before weights could be kept."""
        if rule.select == "last" or self.best is None or self.early is None:
            return False
        return self.best.clearly_below(self.early, rule.nodes)
