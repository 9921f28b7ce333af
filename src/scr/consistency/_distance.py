"""How far a prediction is from its pseudo label: the three `dist` functions of the paper's loss.

Each takes probabilities as the target and log-probabilities as the prediction, because a logarithm
of a softmax loses digits that a log-softmax keeps, and returns one distance per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

DistanceName = Literal["mse", "kl", "reverse-kl"]
Distance = Callable[[Tensor, Tensor], Tensor]

SMALLEST_PROBABILITY = 1e-8
"""Floor of a pseudo label inside a logarithm, as the published results were tuned with it."""


def squared_distance(pseudo_labels: Tensor, log_predictions: Tensor) -> Tensor:
    r"""Squared Euclidean distance over classes: sum_c (q_c - p_c)^2.

    The paper calls it the mean squared error; summed over classes, averaged over nodes.

    Args:
        pseudo_labels: q, shape (..., classes).
        log_predictions: log p, same shape; the result has the shape (...).
    """
    return (log_predictions.exp() - pseudo_labels).square().sum(dim=-1)


def kl(pseudo_labels: Tensor, log_predictions: Tensor) -> Tensor:
    """Kullback-Leibler divergence KL(q || p): punishes a prediction that misses its target."""
    entropy = torch.xlogy(pseudo_labels, pseudo_labels).sum(dim=-1)
    return entropy - (pseudo_labels * log_predictions).sum(dim=-1)


def reverse_kl(pseudo_labels: Tensor, log_predictions: Tensor) -> Tensor:
    """KL(p || q): punishes a prediction for mass that its target does not have.

    The direction in which the published lambdas were tuned.
    """
    log_targets = pseudo_labels.clamp_min(SMALLEST_PROBABILITY).log()
    return (log_predictions.exp() * (log_predictions - log_targets)).sum(dim=-1)


DISTANCES: dict[str, Distance] = {"mse": squared_distance, "kl": kl, "reverse-kl": reverse_kl}
