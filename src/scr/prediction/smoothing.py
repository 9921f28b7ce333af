"""Correct & Smooth for a graph's predictions, with settings chosen on validation nodes.

The search takes a grid of each step alone; then the best correction of each norm goes through the
whole grid of the second step. "Nothing at all" is a candidate too. Of settings with equal accuracy
on validation nodes the plainer one wins: fewer hops, so nothing before any step and one step
before both, then the earlier one in the grid.

Which labels are read (`PostprocessConfig.labels`):

    train         training labels are spread; all validation nodes judge.
    train+valid   while settings are chosen, one random half of the validation nodes is spread with
                  the training labels and the other half judges. The accuracy on that half is the
                  one reported. Then all labels are spread, for the final result.

Test labels are read once, after everything, to say how accurate the result is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph import Graph
from scr.prediction.correct_and_smooth import (
    Matrix,
    as_probabilities,
    correct,
    smooth,
    spread_errors,
)  # fmt: skip
from scr.propagation.normalization import NormalizedAdjacency, normalize
from scr.training.postprocess import Norm, PostprocessConfig

ALPHAS = (0.2, 0.5, 0.8, 0.9, 0.95)
NORMS: tuple[Norm, ...] = ("sym", "row", "col")
SCALES = (0.5, 1.0, 2.0, 5.0)
"""Fixed scales tried beside `auto`; the errors are spread once for all of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothed:
    """Predictions after Correct & Smooth, and how its settings were found."""

    probabilities: Matrix
    """Shape (nodes, classes)."""
    config: PostprocessConfig
    """The settings used, with `search` off; `method` is `none` if nothing did better."""
    trials: list[dict[str, Any]]
    """What was tried, in turn: `steps`, the settings of these steps, and `valid_accuracy`."""
    valid_nodes: int
    """Validation nodes that judged: all, or half of them if the others' labels were spread."""
    valid_accuracy: float | None
    """Accuracy on those nodes while their labels were not spread."""
    valid_accuracy_before: float | None
    """The same of the predictions as they came."""
    test_accuracy: float | None
    """Accuracy on test nodes; none where their labels are not known."""
    test_accuracy_before: float | None


def smooth_predictions(
    graph: Graph, probabilities: Matrix, config: PostprocessConfig, *, seed: int = 0
) -> Smoothed:
    """Correct and smooth predictions along the edges; directed edges count both ways.

    Args:
        graph: With labels and splits; it needs no features.
        probabilities: One distribution per node. Shape (nodes, classes).
        config: Whether to search, whose labels to spread, and settings that are not searched.
        seed: Decides which half of the validation nodes judges, with labels `train+valid`.
    """
    probabilities = _checked(graph, probabilities)
    roles = _share_roles(graph, config, seed)
    steps = _Steps(graph, probabilities)
    trials: list[dict[str, Any]] = []
    if config.method != "none" and config.search:
        config, trials = _search(steps, roles, config)
    judged = final = steps.take(config, roles.spread)
    if config.method != "none" and len(roles.spread_at_last) > len(roles.spread):
        final = steps.take(config, roles.spread_at_last)
    test = _labelled(graph, "test")
    return Smoothed(
        probabilities=final if config.method == "none" else as_probabilities(final),
        config=dataclasses.replace(config, search=False),
        trials=trials,
        valid_nodes=len(roles.judges),
        valid_accuracy=_accuracy(graph, judged, roles.judges),
        valid_accuracy_before=_accuracy(graph, probabilities, roles.judges),
        test_accuracy=_accuracy(graph, final, test),
        test_accuracy_before=_accuracy(graph, probabilities, test),
    )


class _Roles(NamedTuple):
    """Node numbers, all of nodes with labels."""

    spread: NDArray[np.int64]
    """Their labels are spread while settings are judged."""
    judges: NDArray[np.int64]
    spread_at_last: NDArray[np.int64]
    """Their labels are spread for the final result."""


def _share_roles(graph: Graph, config: PostprocessConfig, seed: int) -> _Roles:
    train, valid = _labelled(graph, "train"), _labelled(graph, "valid")
    roles = _Roles(train, valid, train)
    if config.method == "none":
        return roles
    if config.labels == "train+valid":
        shuffled = np.random.default_rng(seed).permutation(valid)
        shown, held_back = np.sort(shuffled[: len(valid) // 2]), shuffled[len(valid) // 2 :]
        every = np.concatenate([train, valid])
        roles = _Roles(np.concatenate([train, shown]), np.sort(held_back), every)
    if len(roles.spread) == 0:
        raise GraphError("No training node has a label; Correct & Smooth needs at least one")
    if config.search and len(roles.judges) == 0:
        raise GraphError(
            "No validation node has a label; the search for settings needs at least one",
            hint="give the settings yourself and switch `postprocess.search` off",
        )
    return roles


class _Steps:
    """Both steps on one graph and one prediction, with each norm's adjacency made once."""

    def __init__(self, graph: Graph, probabilities: Matrix) -> None:
        self.labels = np.asarray(graph.labels)
        self.probabilities = probabilities
        self._graph = graph
        self._adjacencies: dict[Norm, NormalizedAdjacency] = {}

    def take(self, config: PostprocessConfig, nodes: NDArray[np.int64]) -> Matrix:
        """The steps that the settings ask for, with the labels of these nodes."""
        predictions = self.probabilities
        if config.method != "none" and config.steps != "smooth":
            predictions = self.corrected(config, nodes)
        if config.method != "none" and config.steps != "correct":
            predictions = self.smoothed(predictions, config, nodes)
        return predictions

    def corrected(self, config: PostprocessConfig, nodes: NDArray[np.int64]) -> Matrix:
        return correct(
            self._adjacency(config.correct_norm), self.probabilities, self.labels[nodes], nodes,
            hops=config.correct_hops, alpha=config.correct_alpha, scale=config.scale,
        )  # fmt: skip

    def held_errors(self, config: PostprocessConfig, nodes: NDArray[np.int64]) -> Matrix:
        """What a fixed scale multiplies: the same for all of them."""
        return spread_errors(
            self._adjacency(config.correct_norm), self.probabilities, self.labels[nodes], nodes,
            hops=config.correct_hops, alpha=config.correct_alpha, hold=True,
        )  # fmt: skip

    def smoothed(
        self, predictions: Matrix, config: PostprocessConfig, nodes: NDArray[np.int64]
    ) -> Matrix:
        return smooth(
            self._adjacency(config.smooth_norm), predictions, self.labels[nodes], nodes,
            hops=config.smooth_hops, alpha=config.smooth_alpha,
        )  # fmt: skip

    def _adjacency(self, norm: Norm) -> NormalizedAdjacency:
        if norm not in self._adjacencies:
            made = normalize(self._graph, norm=norm)
            if self._graph.directed:
                # The edges both ways are the same for all norms: turned once, then shared.
                self._graph = dataclasses.replace(
                    self._graph, indptr=made.indptr, indices=made.indices, weights=made.weights,
                    directed=False,
                )  # fmt: skip
            self._adjacencies[norm] = made
        return self._adjacencies[norm]


class _Trial(NamedTuple):
    config: PostprocessConfig
    right: int
    """How many judges are predicted right."""

    @property
    def hops(self) -> int:
        if self.config.method == "none":
            return 0
        correct_hops = self.config.correct_hops if self.config.steps != "smooth" else 0
        return correct_hops + (self.config.smooth_hops if self.config.steps != "correct" else 0)


def _search(
    steps: _Steps, roles: _Roles, config: PostprocessConfig
) -> tuple[PostprocessConfig, list[dict[str, Any]]]:
    """Settings with the most judges right, and all that was tried."""
    spread, judges = roles.spread, roles.judges
    truth, before = steps.labels[judges], steps.probabilities

    def judge(tried: PostprocessConfig, rows: Matrix) -> _Trial:
        return _Trial(tried, int(np.count_nonzero(rows.argmax(axis=1) == truth)))

    trials = [judge(dataclasses.replace(config, method="none"), before[judges])]
    trials += [
        judge(tried, steps.smoothed(before, tried, spread)[judges])
        for tried in _smoothings(dataclasses.replace(config, steps="smooth"))
    ]
    for norm in NORMS:
        corrections = []
        for alpha in ALPHAS:
            tried = dataclasses.replace(
                config, steps="correct", correct_norm=norm, correct_alpha=alpha, scale="auto"
            )
            corrections.append(judge(tried, steps.corrected(tried, spread)[judges]))
            errors = steps.held_errors(tried, spread)[judges]
            for scale in SCALES:
                scaled = dataclasses.replace(tried, scale=scale)
                corrections.append(judge(scaled, before[judges] + np.float32(scale) * errors))
        trials += corrections
        best = min(corrections, key=_rank).config
        corrected = steps.corrected(best, spread)
        trials += [
            judge(tried, steps.smoothed(corrected, tried, spread)[judges])
            for tried in _smoothings(dataclasses.replace(best, steps="both"))
        ]
    records = [
        {**steps_taken(trial.config), "valid_accuracy": trial.right / len(judges)}
        for trial in trials
    ]
    return min(trials, key=_rank).config, records


def _smoothings(config: PostprocessConfig) -> Iterator[PostprocessConfig]:
    for norm, alpha in product(NORMS, ALPHAS):
        yield dataclasses.replace(config, smooth_norm=norm, smooth_alpha=alpha)


def _rank(trial: _Trial) -> tuple[int, int]:
    """Most judges right first, then fewest hops; `min` keeps the first of equals."""
    return -trial.right, trial.hops


def steps_taken(config: PostprocessConfig) -> dict[str, Any]:
    """The steps and only those settings that they read, as plain values."""
    if config.method == "none":
        return {"steps": "none"}
    names = ["steps"]
    if config.steps != "smooth":
        names += ["correct_hops", "correct_alpha", "correct_norm", "scale"]
    if config.steps != "correct":
        names += ["smooth_hops", "smooth_alpha", "smooth_norm"]
    return {name: getattr(config, name) for name in names}


def _checked(graph: Graph, probabilities: Matrix) -> Matrix:
    probabilities = np.asarray(probabilities, dtype=np.float32)
    expected = (graph.num_nodes, graph.num_classes)
    if probabilities.shape != expected:
        raise GraphError(
            f"The probabilities have the shape {probabilities.shape}; expected {expected}, one "
            "row for each node and one column for each class"
        )
    if not np.isfinite(probabilities.sum(dtype=np.float64)):
        raise GraphError("A probability is not finite; expected one distribution for each node")
    return probabilities


def _labelled(graph: Graph, split: str) -> NDArray[np.int64]:
    nodes = np.asarray(getattr(graph, split))
    return np.asarray(nodes[np.asarray(graph.labels)[nodes] >= 0], dtype=np.int64)


def _accuracy(graph: Graph, predictions: Matrix, nodes: NDArray[np.int64]) -> float | None:
    if len(nodes) == 0:
        return None
    right = predictions[nodes].argmax(axis=1) == np.asarray(graph.labels)[nodes]
    return float(right.mean())
