"""From a graph to the rows that are trained on: features prepared, propagated, mixed, once.

Nothing here reads a label, except `label_rows`, which reads those of training nodes only; so hops
are shared by all seeds, splits and regularizers of a comparison.
"""

from __future__ import annotations

import dataclasses
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
from scr.propagation import PropagationConfig, label_hops, propagate, propagate_mixture
from scr.propagation.cache import load_cached_hops
from scr.propagation.config import HopScale
from scr.propagation.engine import unit_rows
from scr.training.recipe import Recipe
from scr.training.stages import Handover


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
    encoder = encoder_class(recipe.encoder)
    settings = build(encoder.config_class, recipe.encoder_settings, section="encoder")
    mixture = encoder.fixed_mixture(settings, recipe.propagation.matrices)
    if mixture is None:
        array = _separate_hops(graph, recipe.propagation, fitted)
    else:
        array = _mixed_hops(graph, recipe.propagation, fitted, mixture)
    return PreparedHops(array, fitted, time.perf_counter() - started, fitted.steps)


def _separate_hops(
    graph: Graph, config: PropagationConfig, fitted: FittedFeatures
) -> NDArray[np.floating[Any]]:
    """Every hop for itself, from beside the store if `scr propagate` left it there."""
    scale: HopScale = "unit" if "unit" in (config.hop_scale, config.row_scale) else "none"
    wanted = dataclasses.replace(config, hop_scale=scale, row_scale="none")
    hops = load_cached_hops(graph, wanted, fitted.steps)
    if hops is None:
        hops = propagate(
            graph,
            config.hops,
            config.norm,
            config.self_loops,
            config.direction,
            config.dtype,
            features=fitted.transform(graph.features),
            hop_scale=scale,
        )
    return np.asarray(hops)


def _mixed_hops(
    graph: Graph,
    config: PropagationConfig,
    fitted: FittedFeatures,
    mixture: NDArray[np.float32],
) -> NDArray[np.floating[Any]]:
    """The fixed mixture that the encoder reads, as its only hop."""
    mixed = propagate_mixture(
        graph,
        mixture,
        config.norm,
        config.self_loops,
        config.direction,
        features=fitted.transform(graph.features),
        hop_scale=config.hop_scale,
    )
    if config.row_scale == "unit":
        unit_rows(mixed)
    return mixed[:, None, :]


def label_rows(
    graph: Graph, recipe: Recipe, *, seed: int, handover: Handover | None = None
) -> NDArray[np.floating[Any]] | None:
    """Propagated training labels, shape (nodes, label hops, classes); none if not asked for.

    Args:
        graph: Only labels of its training nodes are read.
        recipe: The section `propagation` matters.
        seed: Decides the folds of the guard.
        handover: Reliable nodes of an earlier stage, whose labels are propagated too.
    """
    if recipe.propagation.label_hops == 0:
        return None
    if handover is None or len(handover.nodes) == 0:
        return label_hops(graph, recipe.propagation, seed=seed)
    known = np.eye(graph.num_classes, dtype=np.float32)[graph.labels[graph.train]]
    return label_hops(
        graph,
        recipe.propagation,
        train=np.concatenate([graph.train, handover.nodes.numpy()]),
        targets=np.concatenate([known, handover.soft_labels.numpy()]),
        seed=seed,
    )
