"""SCR for several yes-or-no targets per node: each target is a distribution over two outcomes.

With logits (0, z) of the two outcomes, the softmax is the sigmoid of z, and the paper's average,
sharpening and distance apply to every target as they stand.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scr.consistency._loss import ConsistencyLoss


class TargetConsistencyLoss(ConsistencyLoss):
    r"""Lambda times the mean distance over nodes, targets and views to the sharpened pseudo label.

    The pseudo label of a target is the mean p of its views, sharpened:
        q = p^(1/T) / (p^(1/T) + (1-p)^(1/T))
    """

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Mean distance to the views' mean; logits have the shape (views, nodes, targets)."""
        return super().term(torch.stack([torch.zeros_like(views), views], dim=-1), None)


def target_confidence(probabilities: Tensor) -> Tensor:
    """Mean over targets of max(p, 1 - p); probabilities have the shape (nodes, targets)."""
    return torch.maximum(probabilities, 1 - probabilities).mean(dim=-1)
