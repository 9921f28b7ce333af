"""Correct & Smooth for a graph's predictions, with settings chosen on validation nodes.

`_correct_and_smooth.py` has the equations. Here it is decided whose labels they may read
(`PostprocessConfig.labels`):

    train         training labels are spread; all validation nodes are scored.
    train+valid   while settings are chosen, one random half of the validation nodes is spread with
                  the training labels and the other half is scored. The accuracy on that half is
                  the one reported. Then all labels are spread, for the final result.

Test labels are read once, after everything, to say how accurate the result is.

The search tries a grid of each step alone; then the best correction of each norm with the whole
grid of the second step. "Nothing at all" is a candidate too. Of settings with equal accuracy the
plainer one wins: fewer hops, so nothing before any step and one step before both, then the earlier
one in the grid.

In a graph of several types, predictions are of the target nodes. They spread over all nodes and
edges alike; nodes of other types begin with zeros, and their rows are left out in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import memory_budget, readable_bytes
from scr.errors import GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.prediction.smoothing._correct_and_smooth import (
    BLOCK_CLASSES,
    Matrix,
    as_probabilities,
    correct,
    row_parts,
    smooth,
    spread_errors,
)
from scr.propagation import NormalizedAdjacency, normalize, turned_bytes
from scr.training import Norm, PostprocessConfig, nodes_with_labels

Nodes = NDArray[np.int64]
ALPHAS = (0.2, 0.5, 0.8, 0.9, 0.95)
NORMS: tuple[Norm, ...] = ("sym", "row", "col")
SCALES = (0.5, 1.0, 2.0, 5.0)
"""Fixed scales tried beside `auto`; the errors are spread once for all of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothed:
    """Predictions after Correct & Smooth, and how its settings were chosen."""

    probabilities: Matrix
    """Shape (target nodes, classes)."""
    config: PostprocessConfig
    """The settings used, with `search` off; `method` is `none` if nothing did better."""
    trials: list[dict[str, Any]]
    """What was tried, in turn: `steps`, the settings of these steps, and `valid_accuracy`."""
    valid_nodes: int
    """Validation nodes that were scored: all, or half of them if the others' labels were spread."""
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
        probabilities: One distribution per target node. Shape (target nodes, classes).
        config: Whether to search, whose labels to spread, and settings that are not searched.
        seed: Decides which half of the validation nodes is scored, with labels `train+valid`.

    Raises:
        MemoryBudgetError: It does not fit into the memory that is free.
    """
    if graph.is_multilabel:
        raise GraphError(
            "Correct and Smooth spreads classes along the edges, and nodes have several targets; "
            "expected one class per node"
        )
    probabilities = _checked(graph, probabilities)
    _check_memory(graph, config)
    roles = _share_roles(graph, config, seed)
    count = graph.num_targets
    rows = probabilities
    if config.method != "none" and graph.num_nodes > count:  # zeros for nodes of other types
        rows = np.zeros((graph.num_nodes, probabilities.shape[1]), np.float32)
        rows[:count] = probabilities
    steps = _Steps(graph, rows)
    trials: list[dict[str, Any]] = []
    if config.method != "none" and config.search:
        config, trials = _search(steps, config, roles)
    final = steps.take(config, roles.spread)[:count]
    valid_accuracy = _accuracy(graph, final, roles.scored)
    if config.method != "none" and len(roles.spread_in_the_end) > len(roles.spread):
        del final  # free its memory before the final result needs as much
        final = steps.take(config, roles.spread_in_the_end)[:count]
    test = nodes_with_labels(graph, "test")
    return Smoothed(
        probabilities=final if config.method == "none" else as_probabilities(final),
        config=replace(config, search=False),
        trials=trials,
        valid_nodes=len(roles.scored),
        valid_accuracy=valid_accuracy,
        valid_accuracy_before=_accuracy(graph, probabilities, roles.scored),
        test_accuracy=_accuracy(graph, final, test),
        test_accuracy_before=_accuracy(graph, probabilities, test),
    )


def needed_bytes(graph: Graph, config: PostprocessConfig) -> int:
    """Memory that `smooth_predictions` takes at its peak, beside the predictions it is given."""
    if config.method == "none":
        return 0
    classes = graph.num_classes
    # While columns spread: two copies of a block, beside one result or, in a search, two.
    spreading = (2 if config.search else 1) * classes + 2 * min(classes, BLOCK_CLASSES)
    # Other types than the target need a copy of the predictions with rows for their nodes.
    copied = classes if graph.num_nodes > graph.num_targets else 0
    arrays = 4 * graph.num_nodes * (max(spreading, 2 * classes) + copied)
    turned = turned_bytes(graph, "both")
    return max(turned, turned // 2 + arrays)  # half of it is gone when the arrays come


def _check_memory(graph: Graph, config: PostprocessConfig) -> None:
    needed, budget = needed_bytes(graph, config), memory_budget("auto")
    if needed <= budget:
        return
    plain = needed_bytes(graph, replace(config, search=False))
    hint = "free memory, or use a machine with more"
    if plain < needed:
        hint += f"; with your own settings, without a search, {readable_bytes(plain)} are enough"
    raise MemoryBudgetError(
        f"Correct & Smooth of {graph.num_nodes:,} nodes and {graph.num_classes:,} classes needs "
        f"{readable_bytes(needed)} of memory; {readable_bytes(budget)} can be used",
        hint=hint,
    )


class _Roles(NamedTuple):
    """Node numbers, all of nodes with labels."""

    spread: Nodes
    """Their labels are spread while settings are scored."""
    scored: Nodes
    """Their labels only tell right from wrong; none of them is in `spread`."""
    spread_in_the_end: Nodes
    """Their labels are spread for the final result."""


def _share_roles(graph: Graph, config: PostprocessConfig, seed: int) -> _Roles:
    train, valid = nodes_with_labels(graph, "train"), nodes_with_labels(graph, "valid")
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
    if config.search and len(roles.scored) == 0:
        raise GraphError(
            "No validation node has a label; the search for settings needs at least one",
            hint="give the settings yourself and switch `postprocess.search` off",
        )
    return roles


def _checked(graph: Graph, probabilities: Matrix) -> Matrix:
    probabilities = np.asarray(probabilities, dtype=np.float32)
    expected = (graph.num_targets, graph.num_classes)
    if probabilities.shape != expected:
        raise GraphError(
            f"The probabilities have the shape {probabilities.shape}; expected {expected}, one "
            "row for each node to be classified and one column for each class"
        )
    if not np.isfinite(probabilities.sum(dtype=np.float64)):
        raise GraphError("A probability is not finite; expected one distribution for each node")
    return probabilities


def _accuracy(graph: Graph, predictions: Matrix, nodes: Nodes) -> float | None:
    if len(nodes) == 0:
        return None
    labels = np.asarray(graph.labels)
    right = 0
    for part in row_parts(len(nodes)):
        chosen = nodes[part]
        right += int(np.count_nonzero(predictions[chosen].argmax(axis=1) == labels[chosen]))
    return right / len(nodes)


class _Steps:
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
            predictions = self.correct(config, nodes)
        if config.method != "none" and config.steps != "correct":
            reuse = predictions is not self.probabilities
            predictions = self.smooth(predictions, config, nodes, reuse=reuse)
        return predictions

    def correct(self, config: PostprocessConfig, nodes: Nodes) -> Matrix:
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

    def smooth(
        self, predictions: Matrix, config: PostprocessConfig, nodes: Nodes, *, reuse: bool = False
    ) -> Matrix:
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


def _search(
    steps: _Steps, config: PostprocessConfig, roles: _Roles
) -> tuple[PostprocessConfig, list[dict[str, Any]]]:
    """Settings with the most scored nodes right, and all that was tried.

    Of `config`, what is not searched stays, such as the number of hops.
    """
    spread, scored, before = roles.spread, roles.scored, steps.probabilities
    truth = steps.labels[scored]

    def trial(tried: PostprocessConfig, rows: Matrix) -> _Trial:
        return _Trial(tried, int(np.count_nonzero(rows.argmax(axis=1) == truth)))

    def smoothings(predictions: Matrix, base: PostprocessConfig) -> Iterator[_Trial]:
        for norm, alpha in product(NORMS, ALPHAS):
            tried = replace(base, smooth_norm=norm, smooth_alpha=alpha)
            yield trial(tried, steps.smooth(predictions, tried, spread)[scored])

    def corrections(norm: Norm) -> Iterator[_Trial]:
        for alpha in ALPHAS:
            tried = replace(
                config, steps="correct", correct_norm=norm, correct_alpha=alpha, scale="auto"
            )
            yield trial(tried, steps.correct(tried, spread)[scored])
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
        trials += smoothings(steps.correct(best, spread), replace(best, steps="both"))
    records = [
        {**steps_taken(each.config), "valid_accuracy": each.right / len(scored)} for each in trials
    ]
    return min(trials, key=_Trial.rank).config, records
