"""Confidence-based masking: only nodes that the model is sure of take part in the consistency term.

The confident set is drawn from all rows that are not training nodes, refreshed every few epochs by
one pass without dropout, and the bar that a node must clear may be lowered as training goes on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scr.errors import ConfigError


def confidence_mask(probabilities: Tensor, threshold: float) -> Tensor:
    r"""Which rows have a class that is at least as likely as the threshold.

    Equation: SCR, confident node set (docs/equations.md#confident-set)
        V_C = { i in V_U : max_c ybar_i[c] >= eta }

    Args:
        probabilities: Unsharpened pseudo labels, shape (nodes, classes).
        threshold: eta in [0, 1].

    Returns:
        Booleans, shape (nodes,).
    """
    return probabilities.amax(dim=-1) >= threshold


def threshold_at(epoch: int, epochs: int, start: float, end: float | None = None) -> float:
    """The threshold of one epoch: constant, or a straight line from `start` to `end`.

    Args:
        epoch: Counted from 0.
        epochs: How many there are in all.
        start: eta of the first epoch.
        end: eta of the last epoch; none keeps `start`.

    >>> [round(threshold_at(epoch, 3, 0.9, 0.8), 2) for epoch in range(3)]
    [0.9, 0.85, 0.8]
    """
    if end is None or epochs <= 1:
        return start
    return start + (end - start) * min(epoch / (epochs - 1), 1.0)


class ConfidentSet:
    """The unlabelled nodes that are confident enough, kept up to date through training.

    Usable in anybody's loop:

        confident = ConfidentSet(unlabelled, threshold=0.9, threshold_end=0.8, refresh=20)
        for epoch in range(epochs):
            if confident.due(epoch):
                confident.update(predict_proba(unlabelled), epoch, epochs)
            rows = confident.nodes
    """

    def __init__(
        self,
        candidates: Tensor,
        *,
        threshold: float = 0.0,
        threshold_end: float | None = None,
        refresh: int = 20,
    ) -> None:
        """Start with every candidate in the set.

        Args:
            candidates: Indices of the unlabelled nodes, shape (nodes,).
            threshold: eta, or its first value.
            threshold_end: Last value of eta; none keeps it constant.
            refresh: beta, epochs between two updates.
        """
        if refresh < 1:
            raise ConfigError("consistency.refresh", refresh, "a whole number of at least 1")
        self.candidates = candidates
        self.nodes = candidates
        self.start = threshold
        self.end = threshold_end
        self.refresh = refresh
        self.threshold = threshold

    @property
    def selective(self) -> bool:
        """Whether any threshold can leave a node out; if not, no scoring pass is needed."""
        return self.start > 0 or (self.end or 0) > 0

    def due(self, epoch: int, *, first: int = 0) -> bool:
        """Whether the set should be refreshed before this epoch.

        Args:
            epoch: Counted from 0.
            first: The first epoch in which the set is used (after warm-up).
        """
        return self.selective and epoch >= first and (epoch - first) % self.refresh == 0

    def update(self, probabilities: Tensor, epoch: int, epochs: int) -> None:
        """Choose the confident nodes by fresh predictions for all candidates, without dropout."""
        if len(probabilities) != len(self.candidates):
            raise ConfigError(
                "probabilities",
                len(probabilities),
                f"one row per candidate, {len(self.candidates)}",
            )
        self.threshold = threshold_at(epoch, epochs, self.start, self.end)
        mask = confidence_mask(probabilities, self.threshold)
        self.nodes = self.candidates[mask.to(self.candidates.device)]

    def restore(self, nodes: Tensor, threshold: float) -> None:
        """Put back a set that was saved in the middle of training."""
        self.nodes = nodes.to(torch.int64)
        self.threshold = threshold
