"""Entropy minimization: predictions for unlabeled nodes should be decided, whichever way.

Paper: Grandvalet and Bengio 2005, "Semi-supervised Learning by Entropy Minimization", NIPS 17.

Where classes form clusters, a decided prediction for every node puts the boundary between them. It
is what SCR's sharpening asks for, without the agreement of views.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from scr.consistency._unlabeled import UnlabeledLoss


def entropy(logits: Tensor) -> Tensor:
    r"""Shannon entropy of each prediction, in nats: -sum_c p_c log p_c.

    Equation: entropy minimization (docs/equations.md#entropy)

    From logits of shape (..., classes) to (...).
    """
    log_predictions = torch.log_softmax(logits, dim=-1)
    return -(log_predictions.exp() * log_predictions).sum(dim=-1)


class EntropyLoss(UnlabeledLoss):
    """Weight times the mean entropy over unlabeled rows and views."""

    # The paper chooses lambda by cross-validation. 1 is what Miyato et al. 2018, "Virtual
    # Adversarial Training" (arXiv:1704.03976), take for the entropy term beside their own.
    defaults: ClassVar = {"weight": 1.0, "views": 1, "threshold": 0.0}

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Mean entropy; no pseudo labels are read."""
        return entropy(views).mean()
