"""How good predictions are: right or wrong, per class, and whether confidence can be believed.

All measures come from two small summaries, the confusion matrix and the reliability curve, which
can also be added up over parts of a graph that does not fit in memory.

Reads labels (-1 where unknown) and class probabilities, returns plain numbers ready for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import GraphError
from scr.metrics._calibration import reliability_curve
from scr.metrics._ranking import roc_auc

# Predictions are made in float32: a zero there means "below its resolution", not "impossible".
_SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)


def classification_metrics(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float | None]:
    """Measure predicted class probabilities against known labels.

    Balanced accuracy (the mean of the recalls of the classes) stands beside accuracy because
    training sets are often class-balanced where the rest of the graph is not. A method that
    drifts towards the common classes then gains accuracy by learning the class prior alone; its
    balanced accuracy does not rise. A gain that shows in both is more than the prior.

    Classes absent from the labels have no recall and stay out of balanced accuracy. Macro F1 is
    over the classes that are labeled or predicted, so predicting an absent class costs.

    Args:
        labels: Class per node, -1 where unknown; those rows are left out. Shape (nodes,).
        probabilities: One distribution per row. Shape (nodes, classes).

    Returns:
        `accuracy`, `balanced_accuracy`, `macro_f1`, `log_loss` (nats) and `calibration_error`;
        each is None when no row has a label.
    """
    measured = MetricsInParts()
    measured.add(labels, probabilities)
    return measured.measures()


class MetricsInParts:
    """`classification_metrics` of rows that come part by part.

    Of each row with a label it holds four numbers, however many classes there are. With `ranked`
    it holds all probabilities of the row, and measures the ROC AUC (`roc_auc`) too.
    """

    def __init__(self, *, ranked: bool = False) -> None:
        self._ranked = ranked
        self._probabilities: list[NDArray[Any]] = []
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._classes = 0

    def add(self, labels: ArrayLike, probabilities: ArrayLike) -> None:
        """Add some rows; the arguments of `classification_metrics`."""
        known, predicted = _labeled_rows(np.asarray(labels), np.asarray(probabilities))
        of_label = predicted[np.arange(len(known)), known]
        self._classes = predicted.shape[1]
        self._parts.append((known, predicted.argmax(axis=1), predicted.max(axis=1), of_label))
        if self._ranked:
            self._probabilities.append(predicted)

    def measures(self, *keys: str) -> dict[str, float | None]:
        """Measures of all rows so far: those named by `keys`, or every one."""
        chosen = keys or [key for key in MEASURES if self._ranked or key != "roc_auc"]
        if not any(len(part[0]) for part in self._parts):
            return dict.fromkeys(chosen)
        columns = zip(*self._parts, strict=True)
        labels, predicted, confidence, likelihood = (np.concatenate(each) for each in columns)
        whole = np.concatenate(self._probabilities) if self._ranked else None
        rows = Predictions(labels, predicted, confidence, likelihood, self._classes, whole)
        return {key: MEASURES[key](rows) for key in chosen}


@dataclass(frozen=True, eq=False)
class Predictions:
    """Rows with a label, and what was predicted for them; each array has shape (rows,)."""

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    """The likeliest class."""
    confidence: NDArray[Any]
    """Its probability."""
    likelihood: NDArray[Any]
    """The probability of the label."""
    classes: int
    probabilities: NDArray[Any] | None = None
    """All of them, shape (rows, classes), where a measure ranks rows by them."""

    @cached_property
    def confusion(self) -> NDArray[np.int64]:
        """Rows by label and prediction. Shape (classes, classes)."""
        return confusion_matrix(self.labels, self.predicted, classes=self.classes)


def log_loss(rows: Predictions) -> float:
    """Mean of -log p(label), in nats."""
    likelihood = np.clip(rows.likelihood.astype(np.float64), _SMALLEST_PROBABILITY, 1.0)
    return float(-np.log(likelihood).mean())


def calibration_error(rows: Predictions) -> float | None:
    return reliability_curve(rows.confidence, rows.predicted == rows.labels).calibration_error


def ranking(rows: Predictions) -> float | None:
    """The ROC AUC."""
    return None if rows.probabilities is None else roc_auc(rows.labels, rows.probabilities)


MEASURES: dict[str, Callable[[Predictions], float | None]] = {
    "accuracy": lambda rows: confusion_metrics(rows.confusion)["accuracy"],
    "balanced_accuracy": lambda rows: confusion_metrics(rows.confusion)["balanced_accuracy"],
    "macro_f1": lambda rows: confusion_metrics(rows.confusion)["macro_f1"],
    "log_loss": log_loss,
    "calibration_error": calibration_error,
    "roc_auc": ranking,
}
"""What `metrics.json` and the report's page say of every split, by name; `roc_auc` if asked for."""


def confusion_metrics(confusion: NDArray[np.int64]) -> dict[str, float | None]:
    """Accuracy, balanced accuracy and macro F1 from counts of (label, prediction) pairs."""
    right, labeled, predicted = _margins(confusion)
    if not labeled.sum():
        return dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1"))
    present, seen = labeled > 0, labeled + predicted > 0
    return {
        "accuracy": float(right.sum() / labeled.sum()),
        "balanced_accuracy": float((right[present] / labeled[present]).mean()),
        "macro_f1": float((2 * right[seen] / (labeled + predicted)[seen]).mean()),
    }


def confusion_matrix(
    labels: ArrayLike, predictions: ArrayLike, *, classes: int
) -> NDArray[np.int64]:
    """Count nodes by label (rows) and prediction (columns); unknown labels (-1) are left out."""
    truth, guess = np.asarray(labels), np.asarray(predictions)
    kept = truth >= 0
    pairs = truth[kept].astype(np.int64) * classes + guess[kept]
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes).astype(np.int64)


def per_class_table(
    confusion: NDArray[np.int64], class_names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """One row per class: nodes, how often it was predicted, recall, precision, F1.

    A measure is None where it has no meaning: the recall of a class without labels, the
    precision of a class that was never predicted.
    """
    names = class_names or [str(index) for index in range(len(confusion))]
    right, labeled, predicted = (each.tolist() for each in _margins(confusion))
    rows = []
    for name, hits, nodes, guesses in zip(names, right, labeled, predicted, strict=True):
        row: dict[str, Any] = {"class": name, "nodes": nodes, "predicted": guesses}
        row["recall"] = hits / nodes if nodes else None
        row["precision"] = hits / guesses if guesses else None
        row["f1"] = 2 * hits / (nodes + guesses) if nodes + guesses else None
        rows.append(row)
    return rows


def _labeled_rows(
    labels: NDArray[Any], probabilities: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Check the two arrays against each other and keep the rows with a label."""
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise GraphError(
            f"Labels have shape {labels.shape} and probabilities {probabilities.shape}; "
            "expected (nodes,) and (nodes, classes)"
        )
    kept = labels >= 0
    labels, probabilities = labels[kept].astype(np.int64), probabilities[kept]
    if len(labels) and labels.max() >= probabilities.shape[1]:
        raise GraphError(
            f"A label is {labels.max()}, but the probabilities have {probabilities.shape[1]} "
            "classes; labels must be below the number of classes"
        )
    if not np.isfinite(probabilities).all():
        raise GraphError("Some predicted probabilities are not finite; expected numbers in [0, 1]")
    return labels, probabilities


def _margins(confusion: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    return np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
