"""FreeMatch: FixMatch with thresholds that follow how sure the model has become, class by class.

Paper: Wang et al. 2023, "FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning",
arXiv:2205.07246.

One global threshold is a moving average of the weak view's confidence; each class has a share of
it, by how much it is predicted. A fairness term keeps predictions from gathering in few classes.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from scr.config import check
from scr.consistency._unlabeled import COMMON_SETTINGS, UnlabeledLoss, as_pseudo_labels
from scr.consistency.alternatives._fixmatch import weighted_pseudo_label_loss


def self_adaptive_thresholds(global_threshold: Tensor, mean_prediction: Tensor) -> Tensor:
    r"""A threshold for each class: the global one for the class predicted most, lower for others.

    Equation: FreeMatch, self-adaptive threshold (docs/equations.md#freematch)
        tau_t(c) = ptilde_t(c) / max_c' ptilde_t(c') tau_t

    Here tau_t is a scalar and ptilde_t the average prediction of the weak view, shape (classes,).
    """
    return mean_prediction / mean_prediction.max() * global_threshold


def fairness_loss(predictions: Tensor, mean_prediction: Tensor, label_histogram: Tensor) -> Tensor:
    r"""The paper's self-adaptive fairness: minus a cross-entropy of two normalized distributions.

    Equation: FreeMatch, fairness (docs/equations.md#freematch)
        L_f = sum_c SumNorm(ptilde / htilde)_c log SumNorm(pbar / hbar)_c

    Predictions are those of the strong views for rows that passed their threshold, shape (rows,
    classes); pbar is their mean and hbar the histogram of their classes. ptilde is the average
    prediction and htilde the average histogram of the weak view's classes. The result is at most 0.
    A class that no row is assigned to has no ratio and is left out; the published code gives it a
    floor instead, whose gradient is 0 as well.
    """
    classes = predictions.shape[-1]
    histogram = torch.bincount(predictions.argmax(dim=-1), minlength=classes) / len(predictions)
    present = histogram > 0
    ratio = predictions.mean(dim=0)[present] / histogram[present]
    target = torch.where(label_histogram > 0, mean_prediction / label_histogram, 0.0)
    target = target / target.sum()
    return (target[present] * (ratio / ratio.sum()).log()).sum()


class FreeMatchLoss(UnlabeledLoss):
    """Weight times the cross-entropy to hard pseudo labels that pass their class's threshold."""

    mean_confidence: Tensor
    mean_prediction: Tensor
    label_histogram: Tensor

    # The paper: w_u = 1, decay 0.999; w_f = 0.01 is the default of its code.
    defaults: ClassVar = {"weight": 1.0, "views": 1}
    settings = COMMON_SETTINGS | {"momentum", "fairness", "teacher_dropout"}
    chooses_rows = True
    needs_weak_view = True

    def __init__(
        self, classes: int, weight: float = 1.0, momentum: float = 0.999, fairness: float = 0.01
    ) -> None:
        """Start with thresholds of 1/C, as the paper does.

        Weight is w_u there and momentum, the decay of the averages in [0, 1), lambda; fairness is
        w_f, relative to the weight, and 0 leaves the fairness term out.
        """
        super().__init__(weight)
        check(0 <= momentum < 1, "momentum", momentum, "a number in [0, 1)")
        check(fairness >= 0, "fairness", fairness, "a number of at least 0")
        self.classes, self.momentum, self.fairness = classes, momentum, fairness
        self.register_buffer("mean_confidence", torch.tensor(1 / classes))
        self.register_buffer("mean_prediction", torch.full((classes,), 1 / classes))
        self.register_buffer("label_histogram", torch.full((classes,), 1 / classes))

    @property
    def threshold(self) -> float:
        """The global threshold."""
        return float(self.mean_confidence)

    @torch.no_grad()
    def update(self, weak: Tensor) -> None:
        """Move the averages towards a batch of weak predictions, shape (nodes, classes)."""
        histogram = F.one_hot(weak.argmax(dim=-1), weak.shape[-1]).to(weak.dtype).mean(dim=0)
        step = 1 - self.momentum
        self.mean_confidence.lerp_(weak.amax(dim=-1).mean(), step)
        self.mean_prediction.lerp_(weak.mean(dim=0), step)
        self.label_histogram.lerp_(histogram, step)

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Cross-entropy of rows that pass; those of the weak view move the thresholds."""
        weak = as_pseudo_labels(pseudo_labels, views)
        if self.training:
            self.update(weak)
        confidence, classes = weak.max(dim=-1)
        thresholds = self_adaptive_thresholds(self.mean_confidence, self.mean_prediction)
        passed = confidence >= thresholds[classes]
        self.count(passed)
        term = weighted_pseudo_label_loss(views, weak, passed.to(views.dtype))
        if self.fairness > 0 and passed.any():
            predictions = torch.softmax(views[:, passed], dim=-1).flatten(0, 1)
            fair = fairness_loss(predictions, self.mean_prediction, self.label_histogram)
            term = term + self.fairness * fair
        return term
