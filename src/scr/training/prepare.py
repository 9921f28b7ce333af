"""From a graph to the rows that are trained on: features prepared, propagated, mixed, once.

Nothing here reads a label, except `label_rows`, which reads those of training nodes only; so hops
are shared by all seeds, splits and regularizers of a comparison.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.config import build
from scr.encoders import encoder_class
from scr.errors import GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.graph.features import FeatureConfig, FittedFeatures, fit_features
from scr.propagation import PropagationConfig, label_hops, propagate, propagate_mixture
from scr.propagation.cache import load_cached_hops
from scr.propagation.config import HopScale
from scr.propagation.engine import unit_rows
from scr.propagation.hops import Hops
from scr.propagation.plan import plan_propagation
from scr.training.recipe import Recipe
from scr.training.stages import Handover


@dataclass(frozen=True)
class PreparedHops:
    """Hops of all nodes, or of those kept, with the way they were made."""

    array: NDArray[np.floating[Any]]
    """Shape (rows, hops, features)."""
    features: FittedFeatures
    """The fitted preparation, to be applied to new nodes later."""
    seconds: float
    steps: tuple[str, ...]
    kept: NDArray[np.int64] | None = None
    """The node of each row, ascending; none: row i is node i."""


def prepare_hops(
    graph: Graph,
    recipe: Recipe,
    *,
    fitted: FittedFeatures | None = None,
    nodes: NDArray[np.int64] | None = None,
) -> PreparedHops:
    """Scale and reduce features, then propagate them.

    Args:
        graph: Its features are used, its labels are not.
        recipe: Sections `data`, `propagation` and `encoder` matter.
        fitted: The preparation of an earlier run, for prediction on a new graph.
        nodes: The nodes that hops are needed of: hops beside the store that were kept for these
            nodes, and maybe others, will do. None: the nodes of the graph's splits.
    """
    if graph.features is None:
        raise GraphError(
            f"The graph `{graph.name}` has no node features; encoders need a features matrix",
            hint="pass features=..., or a features file at ingest",
        )
    started = time.perf_counter()
    fitted = fitted or fit_features(graph.features, recipe.data)
    mixture = fixed_mixture(recipe)
    kept = None
    if mixture is None:
        hops = _separate_hops(graph, recipe, fitted, nodes)
        array = np.asarray(hops)
        kept = getattr(hops, "nodes_kept", None)
    else:
        array = _mixed_hops(graph, recipe.propagation, fitted, mixture)
    return PreparedHops(array, fitted, time.perf_counter() - started, fitted.steps, kept)


def fixed_mixture(recipe: Recipe) -> NDArray[np.float32] | None:
    """Weights of the hops that are mixed before training, or none if they stay apart."""
    encoder = encoder_class(recipe.encoder)
    settings = build(encoder.config_class, recipe.encoder_settings, section="encoder")
    return encoder.fixed_mixture(settings, recipe.propagation.matrices)


def _separate_hops(
    graph: Graph,
    recipe: Recipe,
    fitted: FittedFeatures,
    nodes: NDArray[np.int64] | None,
) -> Hops:
    """Every hop for itself, from beside the store if `scr propagate` left it there."""
    config = recipe.propagation
    scale: HopScale = "unit" if "unit" in (config.hop_scale, config.row_scale) else "none"
    wanted = dataclasses.replace(config, hop_scale=scale, row_scale="none")
    needed: dict[str, Any] = {} if nodes is None else {"nodes": np.unique(nodes)}
    hops = load_cached_hops(graph, wanted, fitted.identity, **needed)
    if hops is None:
        _check_memory(graph, wanted, recipe.data, fitted, needed)
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
    return hops


def _check_memory(
    graph: Graph,
    config: PropagationConfig,
    data: FeatureConfig,
    fitted: FittedFeatures,
    needed: Mapping[str, Any],
) -> None:
    """Refuse what does not fit before features are copied, with a way that does."""
    columns = fitted.columns if fitted.projection is None else fitted.projection.shape[1]
    try:
        plan_propagation(graph, config, columns)
    except MemoryBudgetError as error:
        if graph.path is None:
            raise
        asked = needed.get("nodes", ())
        rows = "all" if len(asked) == graph.num_nodes else "NODES.npy" if needed else "labelled"
        command = propagate_command(graph, config, data, rows=rows)
        hint = f"first `{command}`, which works on disk; what it leaves is found"
        raise MemoryBudgetError(error.message, hint=hint) from None


def propagate_command(
    graph: Graph, config: PropagationConfig, data: FeatureConfig, *, rows: str = "labelled"
) -> str:
    """The command that leaves hops of some nodes beside a store, as training wants them.

    Args:
        graph: From a store.
        config: How features are propagated.
        data: How features are prepared.
        rows: Of which nodes: `labelled`, or a file.
    """
    options = {
        "rows": rows, "hops": config.hops, "norm": config.norm, "dtype": config.dtype,
        "direction": config.direction, "hop-scale": config.hop_scale, "scale": data.scale,
        "reduce": data.reduce, "reduce-to": data.reduce_to,
    }  # fmt: skip
    usual = {"direction": "both", "hop-scale": "none", "scale": "auto", "reduce": "auto",
             "reduce-to": FeatureConfig().reduce_to}  # fmt: skip
    words = [f"--{name} {value}" for name, value in options.items() if usual.get(name) != value] + [
        "--self-loops"
    ] * config.self_loops
    if graph.features_file is not None:
        words.append(f"--features {graph.features_file}")
    return " ".join(["scr propagate", str(graph.path), *words])


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
    graph: Graph,
    recipe: Recipe,
    *,
    seed: int,
    handover: Handover | None = None,
    kept: NDArray[np.int64] | None = None,
) -> NDArray[np.floating[Any]] | None:
    """Propagated training labels, shape (rows, label hops, classes); none if not asked for.

    Args:
        graph: Only labels of its training nodes are read.
        recipe: The section `propagation` matters.
        seed: Decides the folds of the guard.
        handover: Reliable nodes of an earlier stage, whose labels are propagated too.
        kept: Nodes of the rows, as in `PreparedHops`; none: all nodes.
    """
    if recipe.propagation.label_matrices == 0:
        return None
    some: dict[str, Any] = {} if kept is None else {"rows": kept}
    if handover is None or len(handover.nodes) == 0:
        return label_hops(graph, recipe.propagation, seed=seed, **some)
    known = np.eye(graph.num_classes, dtype=np.float32)[graph.labels[graph.train]]
    return label_hops(
        graph,
        recipe.propagation,
        train=np.concatenate([graph.train, handover.nodes.numpy()]),
        targets=np.concatenate([known, handover.soft_labels.numpy()]),
        seed=seed,
        **some,
    )
