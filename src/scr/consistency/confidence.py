"""Confidence-based masking: only nodes that the model is sure of take part in the consistency term.

The confident set is drawn from all rows that are not training nodes, refreshed every few epochs by
one pass without dropout, and the bar that a node must clear may be lowered as training goes on.

Of a graph with very many nodes, that pass would take longer than the epochs between two of them. So
it can be made over a sample of the rows, a fresh one each time, and the set is drawn from that.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
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
        sample: int | None = None,
        seed: int = 0,
    ) -> None:
        """Start with every candidate in the set.

        Args:
            candidates: Indices of the unlabelled nodes, shape (nodes,).
            threshold: eta, or its first value.
            threshold_end: Last value of eta; none keeps it constant.
            refresh: beta, epochs between two updates.
            sample: Candidates that are scored at each update; none: all.
            seed: Decides, with the epoch, which those are.
        """
        for name, value in (("refresh", refresh), ("refresh_sample", sample)):
            if value is not None and value < 1:
                raise ConfigError(f"consistency.{name}", value, "a whole number of at least 1")
        self.candidates = candidates
        self.nodes = candidates
        self.start = threshold
        self.end = threshold_end
        self.refresh = refresh
        self.sample = sample
        self.seed = seed
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

    def to_score(self, epoch: int) -> Tensor:
        """The candidates that an update before this epoch is about, in their order.

        All of them, or a sample that depends on the seed and the epoch alone: a run that was
        stopped and goes on draws the same, and no other draw of the run changes.
        """
        if self.sample is None or self.sample >= len(self.candidates):
            return self.candidates
        generator = np.random.default_rng([self.seed, epoch])
        drawn = generator.choice(len(self.candidates), self.sample, replace=False, shuffle=False)
        return self.candidates[torch.from_numpy(np.sort(drawn)).to(self.candidates.device)]

    def update(self, probabilities: Tensor, epoch: int, epochs: int) -> None:
        """Choose the confident nodes by fresh predictions for `to_score`, without dropout."""
        self.update_by_parts([probabilities], epoch, epochs)

    def update_by_parts(self, parts: Iterable[Tensor], epoch: int, epochs: int) -> None:
        """The same, by predictions that come part by part and need not be held together.

        Args:
            parts: Probabilities of shape (nodes, classes), of all nodes of `to_score`, in order.
            epoch: Counted from 0.
            epochs: How many there are in all.
        """
        scored = self.to_score(epoch)
        threshold = threshold_at(epoch, epochs, self.start, self.end)
        masks = [confidence_mask(part, threshold).to(scored.device) for part in parts]
        mask = torch.cat(masks) if masks else torch.zeros(0, dtype=torch.bool)
        if len(mask) != len(scored):
            raise ConfigError("probabilities", len(mask), f"one row per candidate, {len(scored)}")
        self.threshold = threshold
        self.nodes = scored[mask]

    def restore(self, nodes: Tensor, threshold: float) -> None:
        """Put back a set that was saved in the middle of training."""
        self.nodes = nodes.to(torch.int64)
        self.threshold = threshold
