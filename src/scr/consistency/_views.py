"""Noisy predictions of the same rows, and the average that SCR takes as their pseudo label.

The noise is the model's own dropout: nothing is augmented on the graph, so a view costs one more
forward pass over rows that are already in memory. GRAND does augment: its batches have noise of
their own, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Batch = TypeVar("Batch")


def noisy_views(model: Callable[[Batch], Tensor], batch: Batch, views: int) -> Tensor:
    """Logits of the same rows, run several times: shape (views, nodes, classes).

    Args:
        model: Anything that maps a batch to logits, with dropout switched on.
        batch: Whatever the model takes; where it has a method `noisy_view`, the model takes a
            fresh one of these each time.
        views: S, how many times.
    """
    view: Callable[[], Batch] = getattr(batch, "noisy_view", lambda: batch)
    return torch.stack([model(view()) for _ in range(views)])


def average_views(logits: Tensor) -> Tensor:
    r"""Average the class probabilities of all views: the pseudo label of SCR.

    Equation: SCR, average pseudo label (docs/equations.md#average)
        ybar_i = 1/S sum_s yhat_i^(s)

    Probabilities are averaged, not logits, as the paper has it.

    Args:
        logits: Shape (views, nodes, classes), from which probabilities (nodes, classes) are made.
    """
    return torch.softmax(logits, dim=-1).mean(dim=0)


def single_precision(numbers: Tensor) -> Tensor:
    """Half precision, such as under autocast, as float32; anything else as it is."""
    return numbers.float() if numbers.dtype in (torch.float16, torch.bfloat16) else numbers


@torch.no_grad()
def weak_view(
    model: nn.Module,
    *inputs: Any,
    dropout: bool = False,
    batch_statistics: bool = False,
    **named: Any,
) -> Tensor:
    """Class probabilities with less noise than a view has, without gradient.

    The model is left as it was.

    Args:
        model: Maps a batch to logits.
        *inputs: Whatever the model takes, such as a batch, or `x` and `edge_index`.
        dropout: Leave dropout on.
        batch_statistics: Let BatchNorm normalize by the statistics of these rows, not by the
            running ones.
        **named: The same, by name.
    """
    modes = [(module, module.training) for module in model.modules()]
    norms = [
        (module, module.track_running_stats)
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
    ]
    model.train(dropout)
    for norm, _ in norms:
        norm.train(batch_statistics)
        # Statistics of these rows must not seep into the running ones.
        norm.track_running_stats = norm.track_running_stats and not batch_statistics
    try:
        return torch.softmax(single_precision(model(*inputs, **named)), dim=-1)
    finally:
        for module, mode in modes:
            module.training = mode
        for norm, tracked in norms:
            norm.track_running_stats = tracked
