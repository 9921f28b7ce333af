"""Measures of several yes-or-no targets per node, over the entries whose labels are known.

Labels are 0, 1 or -1 (unknown), probabilities those of 1; both have the shape (nodes, targets). A
measure over targets is their mean; targets that it has no meaning for are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import GraphError
from scr.metrics._calibration import reliability_curve
from scr.metrics._ranking import area_under_curve

_SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)


def target_metrics(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float | None]:
    """Measure predicted probabilities of targets against known labels.

    Args:
        labels: 0, 1, or -1 where unknown. Shape (nodes, targets).
        probabilities: Of the label 1. The same shape.

    Returns:
        The keys of `classification_metrics`, and `roc_auc`. `accuracy`, `log_loss` and
        `calibration_error` are over all known entries; `balanced_accuracy` (mean recall of 0 and
        1), `macro_f1` (F1 of 1) and `roc_auc` are means over targets.
    """
    truth, predicted = np.asarray(labels), np.asarray(probabilities)
    if truth.ndim != 2 or truth.shape != predicted.shape:
        raise GraphError(
            f"Labels have the shape {truth.shape} and probabilities {predicted.shape}; expected "
            "(nodes, targets) for both"
        )
    known = truth >= 0
    values, likely = truth[known] == 1, predicted[known]
    if not np.isfinite(likely).all():
        raise GraphError("Some predicted probabilities are not finite; expected numbers in [0, 1]")
    entries: dict[str, float | None] = dict.fromkeys(("accuracy", "log_loss", "calibration_error"))
    if len(values):
        right = (likely > 0.5) == values
        likelihood = np.where(values, likely, 1 - likely.astype(np.float64))
        entries = {
            "accuracy": float(right.mean()),
            "log_loss": float(-np.log(np.clip(likelihood, _SMALLEST_PROBABILITY, 1)).mean()),
            "calibration_error": reliability_curve(
                np.maximum(likely, 1 - likely), right
            ).calibration_error,
        }
    columns = [
        _target(truth[known[:, each], each] == 1, predicted[known[:, each], each])
        for each in range(truth.shape[1])
    ]
    means = {key: _mean([column[key] for column in columns]) for key in _OVER_TARGETS}
    order = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "calibration_error")
    return {key: {**entries, **means}[key] for key in (*order, "roc_auc")}


_OVER_TARGETS = ("balanced_accuracy", "macro_f1", "roc_auc")


def _target(positive: NDArray[np.bool_], scores: NDArray[Any]) -> dict[str, float | None]:
    """Measures of one target; none where they have no meaning."""
    guessed = scores > 0.5
    both = int(np.count_nonzero(positive & guessed))
    ones, guesses = int(positive.sum()), int(guessed.sum())
    zeros = len(positive) - ones
    balanced = None
    if ones and zeros:
        balanced = (both / ones + (zeros - (guesses - both)) / zeros) / 2
    return {
        "balanced_accuracy": balanced,
        "macro_f1": 2 * both / (ones + guesses) if ones + guesses else None,
        "roc_auc": area_under_curve(positive, scores),
    }


def _mean(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None


def rarer_counts(labels: NDArray[Any]) -> NDArray[np.int64]:
    """How often each target has its rarer label, of those that have both."""
    counts = np.minimum((labels == 1).sum(axis=0), (labels == 0).sum(axis=0))
    return np.asarray(counts[counts > 0], np.int64)
