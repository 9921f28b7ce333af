"""GRAND: views under random propagation agree with their sharpened average.

Paper: Feng et al. 2020, "Graph Random Neural Networks for Semi-Supervised Learning on Graphs",
arXiv:2005.11079.

The term is the one of SCR, which was made from it, without a choice of confident nodes. What sets
GRAND apart is the noise: each view drops the features of some nodes before they are propagated
(`scr.propagation._random_propagation`), beside the dropout that all views have.
"""

from __future__ import annotations

from typing import ClassVar

from scr.consistency._loss import ConsistencyLoss
from scr.consistency._unlabeled import UnlabeledLoss


class GrandLoss(ConsistencyLoss):
    r"""Weight times the mean squared distance of views to their average, over all rows.

    Equation: GRAND, consistency regularization loss (docs/equations.md#grand)
        lambda / S sum_s 1/n sum_i || sharpen(mean_t p_i^(t)) - p_i^(s) ||^2
    """

    settings = UnlabeledLoss.settings | {"temperature", "drop_node"}
    # As the paper has them for Cora.
    defaults: ClassVar = {
        "weight": 1.0, "temperature": 0.5, "views": 4, "threshold": 0.0, "warmup": 0
    }  # fmt: skip
    drops_nodes = True
    takes_labeled = True

    def __init__(self, weight: float = 1.0, temperature: float = 0.5) -> None:
        """Weight is lambda, the temperature, in (0, 1], that of the sharpening."""
        super().__init__(weight, temperature, "mse")
