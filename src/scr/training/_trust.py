"""How far pseudo labels are trusted: measured before training, compared after it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.consistency import (
    FEW_ROWS,
    MOST_ROWS,
    USUAL_AGREEMENT,
    ConsistencyConfig,
    agreement_beyond_chance,
    neighbor_agreement,
    trusted_share,
    usual_agreement,
)
from scr.graph import Graph
from scr.metrics import ACCURACY, Metric
from scr.training._prepare import Prepared
from scr.training._recipe import Recipe
from scr.training._records import TrainingOutcome
from scr.training._rows import positions_of

COMPARED_NOISE = 1.5
"""Standard errors of the validation accuracy by which a baseline must be better to be kept."""


@dataclass(frozen=True)
class TermGain:
    """What the term on unlabeled nodes gains, by accuracy on the same held-out labels."""

    with_term: float
    without_term: float
    error: float
    """Standard error of the difference."""

    @classmethod
    def of(
        cls,
        labels: NDArray[np.integer[Any]],
        with_term: NDArray[np.integer[Any]],
        without_term: NDArray[np.integer[Any]],
    ) -> TermGain:
        """Compare the predictions of two models for the same nodes."""
        right, before = with_term == labels, without_term == labels
        error = (right.astype(np.float64) - before).std() / math.sqrt(len(labels))
        return cls(float(right.mean()), float(before.mean()), float(error))

    def table(self) -> dict[str, float]:
        """For `metrics.json`."""
        return {
            "baseline_valid_accuracy": self.without_term,
            "gain": self.with_term - self.without_term,
            "gain_error": self.error,
        }


def compares(
    consistency: ConsistencyConfig | None, outcome: TrainingOutcome, recipe: Recipe
) -> bool:
    """Whether the baseline is to be trained beside a finished run."""
    is_asked = consistency is not None and consistency.trust == "compared" and consistency.weight
    is_whole = outcome.stopped != "interrupted" and not recipe.stages.active
    return bool(is_asked and is_whole and outcome.valid_accuracy is not None)


def baseline_note(
    outcome: TrainingOutcome,
    alone: TrainingOutcome,
    valid: int,
    *,
    metric: Metric = ACCURACY,
    noise: Callable[[float], float] | None = None,
) -> str | None:
    """Why the baseline is kept; none: it is not better beyond the noise of the validation nodes.

    Args:
        outcome: With the term on unlabeled nodes.
        alone: Without it.
        valid: How many validation nodes there are.
        metric: What counts.
        noise: The standard error of the baseline's metric; none: that of an accuracy.
    """
    is_accuracy = metric is ACCURACY
    best = alone.valid_accuracy if is_accuracy else alone.valid_metric
    reached = outcome.valid_accuracy if is_accuracy else outcome.valid_metric
    if best is None or reached is None or alone.stopped == "interrupted":
        return None
    error = math.sqrt(best * (1 - best) / valid) if noise is None else noise(best)
    if metric.sign * (best - reached) <= COMPARED_NOISE * error:
        return None
    said = "The term on unlabeled nodes was left out: with it"
    if is_accuracy:
        return f"{said} {reached:.1%} of the validation nodes are right, without it {best:.1%}"
    return (
        f"{said} {metric.title} on validation nodes is {metric.shown(reached)}, without it "
        f"{metric.shown(best)}"
    )


def judge_trust(
    consistency: ConsistencyConfig | None, prepared: Prepared, graph: Graph
) -> tuple[ConsistencyConfig | None, list[str]]:
    """Turn the consistency weight down where pseudo labels would mislead; and say so in notes.

    Held-out training labels are predicted from averages of the prepared rows; neighbors in the
    graph are asked, too, where labels are few.
    """
    if consistency is None or consistency.trust == "full" or consistency.weight == 0:
        return consistency, []
    if graph.is_multilabel:
        return consistency, []  # the linear model predicts one class per node
    chosen = np.random.default_rng(0).permutation(len(graph.train))[:MOST_ROWS]
    train = np.asarray(graph.train)[chosen]
    rows = train if prepared.kept is None else positions_of(train, prepared.kept)
    usual = USUAL_AGREEMENT
    if len(chosen) < FEW_ROWS:
        usual = usual_agreement(_neighbor_agreement(graph))
    labels = np.asarray(graph.labels[train])
    agreement = agreement_beyond_chance(prepared.averages(rows), labels, usual=usual)
    share = trusted_share(agreement)
    if share == 1:
        return consistency, []
    weight = consistency.weight * share
    note = (
        f"Consistency weight turned down from {consistency.weight:g} to {weight:.3g}: held-out "
        f"training labels{' and neighbors' if len(chosen) < FEW_ROWS else ''} agree with a linear "
        f"model {agreement:.0%} of the way from chance to certainty, so pseudo labels deserve "
        "little trust here"
        + (", and the term on unlabeled nodes did not act" if share == 0 else "")
    )
    return dataclasses.replace(consistency, weight=weight), [note]


def _neighbor_agreement(graph: Graph) -> float | None:
    """Whether neighbors agree by their own features; none of a graph that cannot be asked."""
    if graph.features is None or graph.is_typed:
        return None
    labels = np.asarray(graph.labels[graph.train])
    own = graph.features[np.asarray(graph.train)]
    by_class = sp.csr_array(
        (np.ones(len(labels), np.float32), (labels, np.arange(len(labels)))),
        shape=(graph.num_classes, len(labels)),
    )
    examples = by_class @ own
    dense = examples.toarray() if sp.issparse(examples) else np.asarray(examples, np.float32)
    return neighbor_agreement(graph.features, graph.indptr, graph.indices, dense)
