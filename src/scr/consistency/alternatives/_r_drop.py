"""R-Drop: the distributions of two dropout views should not diverge, in either direction.

Paper: Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", arXiv:2106.14448.

The paper uses it on labeled inputs; since the term reads no label, unlabeled rows of the batch
take part here as well.
"""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from scr.consistency._unlabeled import UnlabeledLoss


def symmetric_divergence(log_one: Tensor, log_other: Tensor) -> Tensor:
    r"""Mean of KL(p || q) and KL(q || p), which is 1/2 sum_c (p_c - q_c) (log p_c - log q_c).

    Equation: R-Drop, bidirectional divergence (docs/equations.md#r-drop)

    From log p and log q of shape (..., classes) to (...).
    """
    return 0.5 * ((log_one.exp() - log_other.exp()) * (log_one - log_other)).sum(dim=-1)


class RDropLoss(UnlabeledLoss):
    """Weight times the mean divergence of two views, over labeled and unlabeled rows alike."""

    # The paper adds up the cross-entropies of both views where ours is their mean, so its alpha is
    # twice this weight: alpha = 1, the largest that it uses for classification.
    defaults: ClassVar = {"weight": 0.5, "views": 2, "threshold": 0.0}
    least_views = 2
    takes_labeled = True

    def __init__(self, weight: float = 0.5) -> None:
        """Keep the weight: half of alpha in the paper."""
        super().__init__(weight)

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Mean divergence over all pairs of views."""
        log_predictions = torch.log_softmax(views, dim=-1)
        pairs = [symmetric_divergence(*pair) for pair in combinations(log_predictions, 2)]
        return torch.stack(pairs).mean()
