"""The Pi-model: every two noisy views of a row should predict the same.

Paper: Laine and Aila 2017, "Temporal Ensembling for Semi-Supervised Learning", arXiv:1610.02242.

Its noise is augmentation and dropout; here it is dropout alone, as for SCR. Unlike in SCR, views
are compared with each other: there is no average to move towards, no sharpening, and gradient flows
through both sides.
"""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from scr.consistency._unlabeled import UnlabeledLoss


def pairwise_squared_distance(logits: Tensor) -> Tensor:
    r"""Squared distance of the predictions of two views, averaged over all pairs of views.

    Equation: Pi-model, unsupervised term (docs/equations.md#pi)
        2 / (S (S - 1)) sum_{s < t} sum_c (p_ic^(s) - p_ic^(t))^2

    From logits of shape (views, nodes, classes), with at least two views, to (nodes,).
    """
    predictions = torch.softmax(logits, dim=-1)
    pairs = [(one - other).square().sum(dim=-1) for one, other in combinations(predictions, 2)]
    return torch.stack(pairs).mean(dim=0)


class PiLoss(UnlabeledLoss):
    """Weight times the mean distance of views, over labeled and unlabeled rows alike."""

    # The weight is that of the same squared distance in SCR's presets. The paper's own is 10 in
    # these units (100 M/N, for M labels among N inputs, of an average over ten classes, beside a
    # cross-entropy that is divided by all N), for images whose noise changes predictions less than
    # dropout of half of all units does. The ramp and the missing warm-up are the paper's: the full
    # weight comes after 80 of 300 epochs.
    defaults: ClassVar = {
        "weight": 1.0, "views": 2, "threshold": 0.0, "warmup": 0, "weight_ramp": 80
    }  # fmt: skip
    least_views = 2
    takes_labeled = True

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Mean distance over all pairs of views."""
        return pairwise_squared_distance(views).mean()
