"""Scores on validation nodes: the only place in training where their labels are held.

The loop asks for numbers and gets numbers. It uses them to keep the best weights and to stop, never
for a gradient, a weight or a choice of rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from scr.consistency import confidence_mask
from scr.selection import Score


class ValidationNodes:
    """Validation nodes and their labels."""

    def __init__(self, nodes: Tensor, labels: Tensor) -> None:
        self.nodes = nodes
        self._labels = labels

    def score(self, logits: Tensor) -> Score:
        """Accuracy and cross-entropy of logits for `nodes`, in their order."""
        accuracy = (logits.argmax(dim=-1) == self._labels).float().mean().item()
        return Score(accuracy, F.cross_entropy(logits, self._labels).item())

    def confident_accuracy(self, probabilities: Tensor, threshold: float) -> float | None:
        """Accuracy on those nodes that the confident set would take; none if it takes none.

        Recorded in the history, so that a person can see whether pseudo labels deserve trust.
        """
        mask = confidence_mask(probabilities, threshold)
        if not bool(mask.any()):
            return None
        right = probabilities[mask].argmax(dim=-1) == self._labels[mask]
        return right.float().mean().item()


NO_VALIDATION = ValidationNodes(
    torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
)
