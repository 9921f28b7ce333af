"""Settings of the consistency term: the recipe section `consistency`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scr.config import check
from scr.consistency._distance import DistanceName
from scr.consistency._teacher import TeacherStatistics


@dataclass(frozen=True, kw_only=True)
class ConsistencyConfig:
    """How strongly, and on which nodes, predictions must agree."""

    weight: float = 1.0
    """Factor of the consistency term in the loss (lambda in the paper)."""
    temperature: float = 0.5
    """Sharpening of the pseudo label (T); 1 switches it off."""
    distance: DistanceName = "mse"
    """How far a prediction is from its pseudo label (dist)."""
    views: int = 2
    """Noisy predictions per row and step (S)."""
    threshold: float = 0.0
    """Least confidence of a node that takes part (eta); 0 lets all take part."""
    threshold_end: float | None = None
    """Value that the threshold falls to, linearly over all epochs; none: constant."""
    refresh: int = 20
    """Epochs between two refreshes of the confident set (beta)."""
    refresh_sample: int | None = None
    """Unlabeled nodes that a refresh scores, a fresh sample each time, of which the confident ones
    take part; none: all. Without a threshold nothing is scored and all take part."""
    decay: float | None = None
    """Decay of the averaged teacher (alpha, SCR-m); none: the target is the views' mean (SCR)."""
    ramp: bool = False
    """Let the teacher's decay grow from 1/2 over the first steps after the warm-up."""
    judge: Literal["teacher", "student"] = "teacher"
    """Who scores candidates for the confident set where there is a teacher (SCR-m)."""
    teacher_statistics: TeacherStatistics = "averaged"
    """Statistics by which BatchNorm of the teacher normalizes: `averaged` with its weights, or of
    each `batch`, as of a model that is never switched to evaluation (SCR-m)."""
    warmup: int = 0
    """Epochs at the start without the consistency term (tau)."""
    teacher_dropout: bool = False
    """Leave dropout on when pseudo labels are made by a teacher (SCR-m) or by a weak view."""
    trust: Literal["measured", "full"] = "measured"
    """`measured`: lower the weight where training labels say that pseudo labels are unreliable."""
    weight_ramp: int = 0
    """Epochs after the warm-up over which the weight rises to its full value; 0: at once."""
    momentum: float = 0.999
    """Decay of the averages that thresholds follow (`freematch`, `softmatch`)."""
    fairness: float = 0.01
    """Factor of the fairness term, relative to the weight (w_f of `freematch`)."""
    sigmas: float = 2.0
    """By how much the weighting is narrower than the spread of confidence (`softmatch`)."""
    alignment: Literal["uniform", "none"] = "uniform"
    """Whether classes are evened out before confidence is judged (`softmatch`)."""

    drop_node: float = 0.5
    """Chance that a view drops the features of a node before they are propagated (delta of
    `grand`)."""

    def __post_init__(self) -> None:
        check(self.weight >= 0, "consistency.weight", self.weight, "a number of at least 0")
        check(0 < self.temperature <= 1, "consistency.temperature", self.temperature,
              "a number in (0, 1]")  # fmt: skip
        check(self.views >= 1, "consistency.views", self.views, "a whole number of at least 1")
        check(0 <= self.threshold <= 1, "consistency.threshold", self.threshold,
              "a number in [0, 1]")  # fmt: skip
        check(self.threshold_end is None or 0 <= self.threshold_end <= 1,
              "consistency.threshold_end", self.threshold_end, "a number in [0, 1]")  # fmt: skip
        check(self.refresh >= 1, "consistency.refresh", self.refresh,
              "a whole number of at least 1")  # fmt: skip
        check(self.refresh_sample is None or self.refresh_sample >= 1,
              "consistency.refresh_sample", self.refresh_sample,
              "a whole number of at least 1")  # fmt: skip
        check(self.decay is None or 0 <= self.decay < 1, "consistency.decay", self.decay,
              "a number in [0, 1)")  # fmt: skip
        check(self.warmup >= 0, "consistency.warmup", self.warmup, "a whole number of at least 0")
        check(self.weight_ramp >= 0, "consistency.weight_ramp", self.weight_ramp,
              "a whole number of at least 0")  # fmt: skip
        check(0 <= self.momentum < 1, "consistency.momentum", self.momentum, "a number in [0, 1)")
        check(self.fairness >= 0, "consistency.fairness", self.fairness, "a number of at least 0")
        check(0 <= self.drop_node < 1, "consistency.drop_node", self.drop_node,
              "a number in [0, 1)")  # fmt: skip
        check(self.sigmas > 0, "consistency.sigmas", self.sigmas, "a number above 0")
