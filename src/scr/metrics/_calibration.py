"""Whether confidence can be believed: accuracy against confidence, in bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 15
"""Confidence bins of the calibration error, as in Guo et al. 2017, arXiv:1706.04599."""


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Accuracy against confidence, in `BINS` equal bins (low, high]; curves of parts add up."""

    nodes: NDArray[np.int64]
    """Per bin, as the other two."""
    summed_confidence: NDArray[np.float64]
    right: NDArray[np.float64]

    edges: ClassVar[NDArray[np.float64]] = np.linspace(0.0, 1.0, BINS + 1)

    def __add__(self, other: ReliabilityCurve) -> ReliabilityCurve:
        return ReliabilityCurve(
            self.nodes + other.nodes,
            self.summed_confidence + other.summed_confidence,
            self.right + other.right,
        )

    @property
    def confidence(self) -> NDArray[np.float64]:
        """Mean confidence per bin, nan where the bin is empty."""
        with np.errstate(invalid="ignore"):
            return self.summed_confidence / self.nodes

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of right predictions per bin, nan where the bin is empty."""
        with np.errstate(invalid="ignore"):
            return self.right / self.nodes

    @property
    def calibration_error(self) -> float | None:
        """Mean of |accuracy - confidence| over the bins, weighted by their nodes (ECE)."""
        filled = self.nodes > 0
        if not filled.any():
            return None
        gaps = np.abs(self.accuracy[filled] - self.confidence[filled])
        return float(np.average(gaps, weights=self.nodes[filled]))


def reliability_curve(confidence: ArrayLike, correct: ArrayLike) -> ReliabilityCurve:
    """Group predictions by confidence and compare each group's confidence with its accuracy.

    Both arrays have shape (nodes,); confidence is the largest class probability of a node.
    """
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    # A bin is (low, high], so that a confidence of exactly 1 belongs to the last one.
    position = np.clip(np.ceil(sure * BINS).astype(np.int64) - 1, 0, BINS - 1)
    nodes, *sums = (np.bincount(position, each, BINS) for each in (None, sure, right))
    return ReliabilityCurve(nodes.astype(np.int64), *(each.astype(np.float64) for each in sums))
