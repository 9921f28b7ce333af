"""Both steps of Correct & Smooth on one graph, and the search for their settings.

The search tries a grid of each step alone; then the best correction of each norm with the whole
grid of the second step. "Nothing at all" is a candidate too. Of settings with equal accuracy the
plainer one wins: fewer hops, so nothing before any step and one step before both, then the earlier
one in the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.graph import Graph
from scr.prediction.smoothing._correct_and_smooth import Matrix, correct, smooth, spread_errors
from scr.propagation import NormalizedAdjacency, normalize
from scr.training import Norm, PostprocessConfig

Nodes = NDArray[np.int64]
ALPHAS = (0.2, 0.5, 0.8, 0.9, 0.95)
NORMS: tuple[Norm, ...] = ("sym", "row", "col")
SCALES = (0.5, 1.0, 2.0, 5.0)
"""Fixed scales tried beside `auto`; the errors are spread once for all of them."""


class Steps:
    """Both steps on one graph and one prediction, as settings ask for them.

    Predictions have a row for every node, of all types; labels are those of the target nodes, which
    are numbered first. The adjacency of each norm is computed once, since a search tries over a
    hundred settings.
    """

    def __init__(self, graph: Graph, probabilities: Matrix) -> None:
        self.labels = np.asarray(graph.labels)
        self.probabilities = probabilities
        self._graph = graph
        self._adjacencies: dict[Norm, NormalizedAdjacency] = {}

    def take(self, config: PostprocessConfig, nodes: Nodes) -> Matrix:
        """The steps that the settings ask for, with the labels of these nodes."""
        predictions = self.probabilities
        if config.method != "none" and config.steps != "smooth":
            predictions = self.corrected(config, nodes)
        if config.method != "none" and config.steps != "correct":
            reuse = predictions is not self.probabilities
            predictions = self.smoothed(predictions, config, nodes, reuse=reuse)
        return predictions

    def corrected(self, config: PostprocessConfig, nodes: Nodes) -> Matrix:
        """The first step alone."""
        return correct(
            self._adjacency(config.correct_norm), self.probabilities, self.labels[nodes], nodes,
            hops=config.correct_hops, alpha=config.correct_alpha, scale=config.scale,
        )  # fmt: skip

    def held_errors(self, config: PostprocessConfig, nodes: Nodes) -> Matrix:
        """What a fixed scale multiplies: the same for all of them."""
        return spread_errors(
            self._adjacency(config.correct_norm), self.probabilities, self.labels[nodes], nodes,
            hops=config.correct_hops, alpha=config.correct_alpha, hold=True,
        )  # fmt: skip

    def smoothed(
        self, predictions: Matrix, config: PostprocessConfig, nodes: Nodes, *, reuse: bool = False
    ) -> Matrix:
        """The second step alone, in the memory of `predictions` with `reuse`."""
        return smooth(
            self._adjacency(config.smooth_norm), predictions, self.labels[nodes], nodes,
            hops=config.smooth_hops, alpha=config.smooth_alpha, reuse=reuse,
        )  # fmt: skip

    def _adjacency(self, norm: Norm) -> NormalizedAdjacency:
        if norm not in self._adjacencies:
            adjacency = normalize(self._graph, norm=norm)
            if self._graph.directed:
                # The edges both ways are the same for all norms: turned once, then shared.
                self._graph = replace(
                    self._graph, indptr=adjacency.indptr, indices=adjacency.indices,
                    weights=adjacency.weights, directed=False,
                )  # fmt: skip
            self._adjacencies[norm] = adjacency
        return self._adjacencies[norm]


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


class _Trial(NamedTuple):
    config: PostprocessConfig
    right: int
    """How many scored nodes are predicted right."""

    def rank(self) -> tuple[int, int]:
        """Most nodes right first, then fewest hops; `min` keeps the first of equals."""
        steps = steps_taken(self.config)
        return -self.right, steps.get("correct_hops", 0) + steps.get("smooth_hops", 0)


def search_settings(
    steps: Steps, config: PostprocessConfig, *, spread: Nodes, scored: Nodes
) -> tuple[PostprocessConfig, list[dict[str, Any]]]:
    """Settings with the most scored nodes right, and all that was tried.

    Args:
        steps: The graph and its predictions.
        config: Settings that are not searched, such as the number of hops.
        spread: Nodes whose labels are spread.
        scored: Nodes whose labels only tell right from wrong; none of them is in `spread`.
    """
    truth, before = steps.labels[scored], steps.probabilities

    def trial(tried: PostprocessConfig, rows: Matrix) -> _Trial:
        return _Trial(tried, int(np.count_nonzero(rows.argmax(axis=1) == truth)))

    def smoothings(predictions: Matrix, base: PostprocessConfig) -> Iterator[_Trial]:
        for norm, alpha in product(NORMS, ALPHAS):
            tried = replace(base, smooth_norm=norm, smooth_alpha=alpha)
            yield trial(tried, steps.smoothed(predictions, tried, spread)[scored])

    def corrections(norm: Norm) -> Iterator[_Trial]:
        for alpha in ALPHAS:
            tried = replace(
                config, steps="correct", correct_norm=norm, correct_alpha=alpha, scale="auto"
            )
            yield trial(tried, steps.corrected(tried, spread)[scored])
            errors = steps.held_errors(tried, spread)[scored]
            for scale in SCALES:
                scaled = before[scored] + np.float32(scale) * errors
                yield trial(replace(tried, scale=scale), scaled)

    trials = [trial(replace(config, method="none"), before[scored])]
    trials += smoothings(before, replace(config, steps="smooth"))
    for norm in NORMS:
        tried = list(corrections(norm))
        best = min(tried, key=_Trial.rank).config
        trials += tried
        trials += smoothings(steps.corrected(best, spread), replace(best, steps="both"))
    records = [
        {**steps_taken(each.config), "valid_accuracy": each.right / len(scored)} for each in trials
    ]
    return min(trials, key=_Trial.rank).config, records
