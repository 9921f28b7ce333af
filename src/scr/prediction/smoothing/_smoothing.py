"""Correct & Smooth for a graph's predictions, with settings chosen on validation nodes.

`_correct_and_smooth.py` has the equations, `_search.py` applies them to one graph and chooses the
settings. Here it is decided whose labels each may read (`PostprocessConfig.labels`):

    train         training labels are spread; all validation nodes are scored.
    train+valid   while settings are chosen, one random half of the validation nodes is spread with
                  the training labels and the other half is scored. The accuracy on that half is
                  the one reported. Then all labels are spread, for the final result.

Test labels are read once, after everything, to say how accurate the result is.

In a graph of several types, predictions are of the target nodes. They spread over all nodes and
edges alike; nodes of other types begin with zeros, and their rows are left out in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from scr.compute import memory_budget, readable_bytes
from scr.errors import GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.prediction.smoothing._correct_and_smooth import (
    BLOCK_CLASSES,
    Matrix,
    as_probabilities,
    row_parts,
)
from scr.prediction.smoothing._search import Nodes, Steps, search_settings
from scr.propagation import turned_bytes
from scr.training import PostprocessConfig


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
    probabilities = _checked(graph, probabilities)
    _check_memory(graph, config)
    roles = _share_roles(graph, config, seed)
    count = graph.num_targets
    steps = Steps(graph, _of_all_nodes(graph, probabilities, config))
    trials: list[dict[str, Any]] = []
    if config.method != "none" and config.search:
        config, trials = search_settings(steps, config, spread=roles.spread, scored=roles.scored)
    final = steps.take(config, roles.spread)[:count]
    valid_accuracy = _accuracy(graph, final, roles.scored)
    if config.method != "none" and len(roles.spread_in_the_end) > len(roles.spread):
        del final  # free its memory before the final result needs as much
        final = steps.take(config, roles.spread_in_the_end)[:count]
    test = _labeled(graph, "test")
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
    spread_in_the_end: Nodes
    """Their labels are spread for the final result."""


def _share_roles(graph: Graph, config: PostprocessConfig, seed: int) -> _Roles:
    train, valid = _labeled(graph, "train"), _labeled(graph, "valid")
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


def _of_all_nodes(graph: Graph, probabilities: Matrix, config: PostprocessConfig) -> Matrix:
    """Predictions with a row for every node; zeros for those of other types than the target."""
    if config.method == "none" or graph.num_nodes == graph.num_targets:
        return probabilities
    rows = np.zeros((graph.num_nodes, probabilities.shape[1]), np.float32)
    rows[: graph.num_targets] = probabilities
    return rows


def _labeled(graph: Graph, split: str) -> Nodes:
    nodes = np.asarray(getattr(graph, split))
    return np.asarray(nodes[np.asarray(graph.labels)[nodes] >= 0], dtype=np.int64)


def _accuracy(graph: Graph, predictions: Matrix, nodes: Nodes) -> float | None:
    if len(nodes) == 0:
        return None
    labels = np.asarray(graph.labels)
    right = 0
    for part in row_parts(len(nodes)):
        chosen = nodes[part]
        right += int(np.count_nonzero(predictions[chosen].argmax(axis=1) == labels[chosen]))
    return right / len(nodes)
