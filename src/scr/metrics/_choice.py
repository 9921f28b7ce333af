"""The metric that counts: it decides which weights are kept, and it heads the report.

    accuracy   balanced   macro-f1   roc-auc   log-loss

These are the values of `training.metric`; in files each has the key of `classification_metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.metrics._classification import MetricsInParts
from scr.metrics._targets import rarer_counts, target_metrics

MetricName = Literal["accuracy", "balanced", "macro-f1", "roc-auc", "log-loss"]


@dataclass(frozen=True)
class Metric:
    """How a metric is called, and which way is better."""

    name: MetricName
    key: str
    """In `metrics.json`, as of `classification_metrics`."""
    title: str
    """In sentences."""
    higher_is_better: bool = True
    """Such a metric is a share, shown in percent; the other one is in nats."""

    @property
    def heading(self) -> str:
        """At the beginning of a line."""
        return self.title[0].upper() + self.title[1:]

    @property
    def sign(self) -> int:
        """Factor that makes more of it better."""
        return 1 if self.higher_is_better else -1

    def shown(self, value: float) -> str:
        """A value as a line of text has it.

        >>> METRICS["macro-f1"].shown(0.7134), METRICS["log-loss"].shown(0.7134)
        ('71.3%', '0.713')
        """
        return f"{value:.1%}" if self.higher_is_better else f"{value:.3f}"

    def measure(self, labels: ArrayLike, probabilities: ArrayLike) -> float | None:
        """Its value; arguments as of `classification_metrics`, or of `target_metrics`.

        None where it has no meaning: without labels, and the ROC AUC of a single class.
        """
        if np.ndim(labels) == 2:
            return target_metrics(labels, probabilities)[self.key]
        measured = MetricsInParts(ranked=self.key == "roc_auc")
        measured.add(labels, probabilities)
        return measured.measures(self.key)[self.key]


METRICS: dict[str, Metric] = {
    each.name: each
    for each in (
        Metric("accuracy", "accuracy", "accuracy"),
        Metric("balanced", "balanced_accuracy", "balanced accuracy"),
        Metric("macro-f1", "macro_f1", "macro F1"),
        Metric("roc-auc", "roc_auc", "ROC AUC"),
        Metric("log-loss", "log_loss", "log-loss", higher_is_better=False),
    )
}
ACCURACY = METRICS["accuracy"]


def metric_of(record: Mapping[str, Any]) -> Metric:
    """The metric of a record of a run, such as `metrics.json`; by default accuracy."""
    return METRICS.get(str(record.get("metric")), ACCURACY)


def effective_nodes(labels: NDArray[Any], metric: Metric) -> int:
    """Nodes of which accuracy would be as uncertain as the metric of these nodes is.

    A mean over classes is as uncertain as its rarest classes are: of counts n_c of C classes, it is
    C^2 / sum_c 1/n_c. For the ROC AUC, n_c is at most the number of nodes outside of the class
    (van Dantzig's bound on its variance). Of several targets per node (2-D labels), n_c is the
    count of a target's rarer label, and all nodes are the most, since targets may go together.
    """
    if metric.key not in ("balanced_accuracy", "macro_f1", "roc_auc") or len(labels) == 0:
        return len(labels)
    if labels.ndim == 2:
        rarer = rarer_counts(labels).astype(np.float64)
        return min(int(len(rarer) ** 2 / (1 / rarer).sum()), len(labels)) if len(rarer) else 0
    counts = np.unique(labels, return_counts=True)[1].astype(np.float64)
    if metric.key == "roc_auc":
        counts = np.maximum(np.minimum(counts, len(labels) - counts), 1)
    return int(len(counts) ** 2 / (1 / counts).sum())
