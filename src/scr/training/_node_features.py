"""Features of all nodes, whatever types there are, prepared as a recipe's section `data` says.

A graph of one type with features of its own is prepared from those alone, and only once they are
needed: hops beside its store may make that unnecessary. On other graphs, `scr.typed_features` gives
every node of every type a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.features import FeatureConfig, FittedFeatures, fit_features
from scr.graph import Graph
from scr.typed_features import FittedCompletion, complete_features, is_plain

Preparation = FittedFeatures | FittedCompletion
"""How features were prepared, to be stored with a run and applied to new nodes."""
Progress = Callable[[str, int, int], None]


class NodeFeatures(NamedTuple):
    """A fitted preparation, and what it makes of a graph."""

    fitted: Preparation
    matrix: Callable[[], NDArray[Any]]
    """Computes the features of all nodes, shape (nodes, columns)."""


def node_features(
    graph: Graph,
    config: FeatureConfig,
    fitted: Preparation | None = None,
    *,
    device: str = "cpu",
    on_progress: Progress | None = None,
) -> NodeFeatures:
    """Prepare the features of a graph; arguments as of `scr.typed_features.complete_features`."""
    if graph.features is None and not graph.is_typed and config.missing == "average":
        raise GraphError(
            f"The graph `{graph.name}` has no node features; encoders need a features matrix",
            hint="pass features=..., or a features file at ingest",
        )
    if not isinstance(fitted, FittedCompletion) and is_plain(graph, config):
        ready = fitted or fit_features(graph.features, config)
        return NodeFeatures(ready, lambda: ready.transform(graph.features))
    completed = complete_features(graph, config, fitted, device=device, on_progress=on_progress)
    return NodeFeatures(completed.fitted, lambda: np.asarray(completed.matrix))
