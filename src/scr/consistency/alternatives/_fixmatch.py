"""FixMatch: a hard pseudo label where a weak view is sure, taught to a strong view.

Paper: Sohn et al. 2020, "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
Confidence", arXiv:2001.07685.

There, weak and strong are augmentations of an image. Here the weak view is the student without
dropout (with `teacher_dropout`: one more view with dropout), and strong views have dropout.
Labeled rows share the passes of the strong views, where the paper shows them weakly augmented.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from scr.config import check
from scr.consistency._confidence import confidence_mask, threshold_at
from scr.consistency._unlabeled import COMMON_SETTINGS, UnlabeledLoss, as_pseudo_labels


def weighted_pseudo_label_loss(logits: Tensor, pseudo_labels: Tensor, weights: Tensor) -> Tensor:
    r"""Cross-entropy of strong views to the likeliest class of the weak one, row by row weighted.

    Equation: FixMatch, unlabeled loss (docs/equations.md#fixmatch)
        1 / (S N_U) sum_i sum_s w_i CE(argmax_c q_ic, p_i^(s))

    A row without weight counts in N_U: the term is small while few rows are sure. Logits are those
    of the strong views, shape (views, nodes, classes); q is of the weak view, shape (nodes,
    classes); w is 0 or 1 for FixMatch, shape (nodes,).
    """
    views = len(logits)
    classes = pseudo_labels.argmax(dim=-1).repeat(views)
    losses = F.cross_entropy(logits.flatten(0, 1), classes, reduction="none")
    return (weights.repeat(views) * losses).mean()


class FixMatchLoss(UnlabeledLoss):
    """Weight times the cross-entropy to hard pseudo labels of at least a threshold."""

    # Table 4 of the paper: lambda_u = 1, tau = 0.95, one strong view.
    defaults: ClassVar = {"weight": 1.0, "views": 1, "threshold": 0.95}
    settings = COMMON_SETTINGS | {"threshold", "threshold_end", "teacher_dropout"}
    chooses_rows = True
    needs_weak_view = True

    def __init__(
        self, weight: float = 1.0, threshold: float = 0.95, threshold_end: float | None = None
    ) -> None:
        """Weight is lambda_u, threshold tau in [0, 1], which `threshold_end` moves linearly."""
        super().__init__(weight)
        check(0 <= threshold <= 1, "threshold", threshold, "a number in [0, 1]")
        self.start, self.end = threshold, threshold_end
        self._threshold = threshold

    @property
    def threshold(self) -> float:
        """Tau of this epoch."""
        return self._threshold

    def begin_epoch(self, epoch: int, epochs: int, *, share: float = 1.0) -> None:
        """Follow the schedule of the threshold."""
        super().begin_epoch(epoch, epochs, share=share)
        self._threshold = threshold_at(epoch, epochs, self.start, self.end)

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Cross-entropy of rows whose weak view is sure."""
        weak = as_pseudo_labels(pseudo_labels, views)
        sure = confidence_mask(weak, self._threshold).to(views.dtype)
        self.count(sure)
        return weighted_pseudo_label_loss(views, weak, sure)
