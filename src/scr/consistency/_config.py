"""Settings of the consistency term: the recipe section `consistency`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from scr.config import Chance, Count, Natural, NonNegative, Positive, Range, Settings, Share
from scr.consistency._distance import DistanceName
from scr.consistency._teacher import TeacherStatistics


@dataclass(frozen=True, kw_only=True)
class ConsistencyConfig(Settings):
    """How strongly, and on which nodes, predictions must agree."""

    section: ClassVar[str] = "consistency"

    weight: NonNegative = 1.0
    """Factor of the consistency term in the loss (lambda in the paper)."""
    temperature: Annotated[float, Range(0, 1, "(]")] = 0.5
    """Sharpening of the pseudo label (T); 1 switches it off."""
    distance: DistanceName = "mse"
    """How far a prediction is from its pseudo label (dist)."""
    views: Count = 2
    """Noisy predictions per row and step (S)."""
    threshold: Share = 0.0
    """Least confidence of a node that takes part (eta); 0 lets all take part."""
    threshold_end: Share | None = None
    """Value that the threshold falls to, linearly over all epochs; none: constant."""
    refresh: Count = 20
    """Epochs between two refreshes of the confident set (beta)."""
    refresh_sample: Count | None = None
    """Unlabeled nodes that a refresh scores, a fresh sample each time, of which the confident ones
    take part; none: all. Without a threshold nothing is scored and all take part."""
    decay: Chance | None = None
    """Decay of the averaged teacher (alpha, SCR-m); none: the target is the views' mean (SCR)."""
    ramp: bool = False
    """Let the teacher's decay grow from 1/2 over the first steps after the warm-up."""
    judge: Literal["teacher", "student"] = "teacher"
    """Which model scores candidates for the confident set where there is a teacher (SCR-m)."""
    teacher_statistics: TeacherStatistics = "averaged"
    """Statistics by which BatchNorm of the teacher normalizes: `averaged` with its weights, or of
    each `batch`, as of a model that is never switched to evaluation (SCR-m)."""
    warmup: Natural = 0
    """Epochs at the start without the consistency term (tau)."""
    teacher_dropout: bool = False
    """Leave dropout on when pseudo labels are made by a teacher (SCR-m) or by a weak view."""
    trust: Literal["measured", "compared", "full"] = "measured"
    """`measured`: lower the weight where training labels say that pseudo labels are unreliable.
    `compared`: the same, and then train the baseline too, and keep it if it is clearly better on
    validation nodes."""
    weight_ramp: Natural = 0
    """Epochs after the warm-up over which the weight rises to its full value; 0: at once."""
    momentum: Chance = 0.999
    """Decay of the averages that thresholds follow (`freematch`, `softmatch`)."""
    fairness: NonNegative = 0.01
    """Factor of the fairness term, relative to the weight (w_f of `freematch`)."""
    sigmas: Positive = 2.0
    """By how much the weighting is narrower than the spread of confidence (`softmatch`)."""
    alignment: Literal["uniform", "none"] = "uniform"
    """Whether classes are evened out before confidence is judged (`softmatch`)."""

    drop_node: Chance = 0.5
    """Chance that a view drops the features of a node before they are propagated (delta of
    `grand`, and of `noise = "dropped-nodes"`)."""
    noise: Literal["dropout", "dropped-nodes"] = "dropout"
    """What views of SCR and SCR-m differ by: the encoder's dropout, or nodes dropped before
    propagation beside it, for encoders with a fixed mixture of hops."""
    top_nodes: Count = 32
    """Nodes that count most in each row; views with dropped nodes are made of these alone."""
