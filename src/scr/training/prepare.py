"""From a graph to the rows that are trained on: features prepared, propagated, mixed, once.

Nothing here reads a label, except `label_rows`, which reads those of training nodes only; so hops
are shared by all seeds, splits and regularizers of a comparison.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.config import build
from scr.encoders import encoder_class
from scr.errors import GraphError
from scr.graph import Graph
from scr.graph.features import FittedFeatures, fit_features
from scr.propagation import label_hops, propagate, propagate_mixture
from scr.propagation.engine import unit_rows
from scr.training.recipe import Recipe


@dataclass(frozen=True)
class PreparedHops:
    """Hops of all nodes, with the way they were made."""

    array: NDArray[np.floating[Any]]
    """Shape (nodes, hops, features)."""
    features: FittedFeatures
    """The fitted preparation, to be applied to new nodes later."""
    seconds: float
    steps: tuple[str, ...]


def prepare_hops(
    graph: Graph, recipe: Recipe, *, fitted: FittedFeatures | None = None
) -> PreparedHops:
    """Scale and reduce features, then propagate them.

    Args:
        graph: Its features are used, its labels are not.
        recipe: Sections `data`, `propagation` and `encoder` matter.
        fitted: The preparation of an earlier run, for prediction on a new graph.
    """
    if graph.features is None:
        raise GraphError(
            f"The graph `{graph.name}` has no node features; encoders need a features matrix",
            hint="pass features=..., or a features file at ingest",
        )
    started = time.perf_counter()
    fitted = fitted or fit_features(graph.features, recipe.data)
    matrix = fitted.transform(graph.features)
    config = recipe.propagation
    encoder = encoder_class(recipe.encoder)
    settings = build(encoder.config_class, recipe.encoder_settings, section="encoder")
    count = config.hops * (2 if config.direction == "separate" else 1) + 1
    mixture = encoder.fixed_mixture(settings, count)
    shared: dict[str, Any] = {
        "norm": config.norm,
        "self_loops": config.self_loops,
        "direction": config.direction,
        "features": matrix,
    }
    if mixture is not None:
        mixed = propagate_mixture(graph, mixture, **shared)
        if config.hop_scale == "unit":
            unit_rows(mixed)
        array = mixed[:, None, :]
    else:
        shared |= {"dtype": config.dtype, "hop_scale": config.hop_scale}
        array = np.asarray(propagate(graph, hops=config.hops, **shared))
    return PreparedHops(array, fitted, time.perf_counter() - started, fitted.steps)


def label_rows(graph: Graph, recipe: Recipe, *, seed: int) -> NDArray[np.floating[Any]] | None:
    """Propagated training labels, shape (nodes, label hops, classes); none if not asked for."""
    if recipe.propagation.label_hops == 0:
        return None
    return label_hops(graph, recipe.propagation, seed=seed)
