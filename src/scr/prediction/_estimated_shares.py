"""Shares of the classes among the unlabeled nodes of a graph, estimated by a trained model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scr import training
from scr.graph import Graph
from scr.prediction._class_shares import ClassShares, label_shares
from scr.prediction._other_graphs import Nodes

MOST_NODES, MOST_NUMBERS = 200_000, 4_000_000
"""Nodes, and nodes times classes, that are looked at: shares are then known to 0.1 points with 20
classes and to 0.3 points with 200, in seconds."""


def estimate_class_shares(
    own: Graph,
    graph: Graph,
    index: Nodes | None,
    predict: Callable[[Nodes], NDArray[np.float32]],
    held_out: Nodes,
    judged: Callable[[Nodes], NDArray[np.float32]],
    *,
    check: bool = False,
) -> ClassShares | None:
    """Shares among nodes that neither train nor validate; none where there are no such nodes.

    Args:
        own: The graph of the training; gives labels.
        graph: The graph whose shares are estimated, the same or another.
        index: Nodes of it that can be predicted; none: all.
        predict: Probabilities of some of them, which mean what they say.
        held_out: Labeled nodes of `own` that were not trained on.
        judged: Probabilities of some of those.
        check: Also say on held-out nodes whether a correction would help.
    """
    labeled = np.concatenate([graph.train, graph.valid])
    others = training.all_but(labeled, graph.num_targets, index).numpy()
    if len(others) == 0:
        return None
    classes = own.num_classes
    most = min(MOST_NODES, MOST_NUMBERS // classes)
    valid = _sampled(held_out, most)
    return ClassShares.estimated(
        label_shares(own.labels[own.train], classes),
        predict(_sampled(others, most)),
        judged(valid) if len(valid) else np.empty((0, classes)),
        np.asarray(own.labels[valid]),
        check=check,
    )


def _sampled(nodes: Nodes, most: int) -> Nodes:
    """All of some nodes, or so many drawn ones, ascending; the same in every run."""
    if len(nodes) <= most:
        return nodes
    drawn = np.random.default_rng(0).choice(len(nodes), most, replace=False, shuffle=False)
    return nodes[np.sort(drawn)]
