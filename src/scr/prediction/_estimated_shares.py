"""Shares of the classes among the unlabeled nodes of a graph, estimated by a trained model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from scr import training
from scr.graph import Graph
from scr.prediction._class_shares import ClassShares, label_shares
from scr.prediction._stored_model import TrainedModel

MOST_NODES, MOST_NUMBERS = 200_000, 4_000_000
"""Nodes, and nodes times classes, that are looked at: shares are then known to 0.1 points with 20
classes and to 0.3 points with 200, in seconds."""

Nodes = NDArray[np.int64]


def estimate_class_shares(
    model: TrainedModel,
    own: Graph,
    valid_rows: Callable[[Nodes], training.RowSource],
    rows: training.RowSource,
    graph: Graph,
    *,
    check: bool = False,
) -> ClassShares | None:
    """Shares among nodes that neither train nor validate; none where there are no such nodes.

    Args:
        model: Trained on `own`.
        own: Gives training labels and validation labels.
        valid_rows: Rows of its validation nodes.
        rows: Of the graph whose shares are estimated.
        graph: The same graph or another.
        check: Also say on validation nodes whether a correction would help.
    """
    labeled = np.concatenate([graph.train, graph.valid])
    others = training.all_but(labeled, graph.num_targets, rows.kept).numpy()
    if len(others) == 0:
        return None
    classes = len(model.class_names)
    most = min(MOST_NODES, MOST_NUMBERS // classes)
    valid = _sampled(training.nodes_with_labels(own, "valid"), most)
    found = _predicted(model, valid_rows(valid), valid) if len(valid) else np.empty((0, classes))
    return ClassShares.estimated(
        label_shares(own.labels[own.train], classes),
        _predicted(model, rows, _sampled(others, most)),
        found,
        np.asarray(own.labels[valid]),
        check=check,
    )


def _predicted(model: TrainedModel, rows: training.RowSource, nodes: Nodes) -> NDArray[np.floating]:
    return training.predict_probabilities(model.encoder, rows, torch.from_numpy(nodes)).numpy()


def _sampled(nodes: Nodes, most: int) -> Nodes:
    """All of some nodes, or so many drawn ones, ascending; the same in every run."""
    if len(nodes) <= most:
        return nodes
    drawn = np.random.default_rng(0).choice(len(nodes), most, replace=False, shuffle=False)
    return nodes[np.sort(drawn)]
