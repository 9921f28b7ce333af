"""The steps of Correct & Smooth on one graph, as settings ask for them.

Reads a graph, predictions for all its nodes and a `PostprocessConfig`; the equations themselves are
in `_correct_and_smooth.py`. What is the same for many settings is made once, since a search tries
over a hundred of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.graph import Graph
from scr.prediction.smoothing._correct_and_smooth import Matrix, correct, smooth, spread_errors
from scr.propagation import NormalizedAdjacency, normalize
from scr.training import Norm, PostprocessConfig


class Steps:
    """Both steps on one graph and one prediction, with each norm's adjacency made once.

    Predictions have a row for every node, of all types; labels are those of the target nodes, which
    are numbered first.
    """

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
            reuse = predictions is not self.probabilities
            predictions = self.smoothed(predictions, config, nodes, reuse=reuse)
        return predictions

    def corrected(self, config: PostprocessConfig, nodes: NDArray[np.int64]) -> Matrix:
        """The first step alone."""
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
        self,
        predictions: Matrix,
        config: PostprocessConfig,
        nodes: NDArray[np.int64],
        *,
        reuse: bool = False,
    ) -> Matrix:
        """The second step alone, in the memory of `predictions` with `reuse`."""
        return smooth(
            self._adjacency(config.smooth_norm), predictions, self.labels[nodes], nodes,
            hops=config.smooth_hops, alpha=config.smooth_alpha, reuse=reuse,
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
