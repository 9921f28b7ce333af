"""From a graph of several types to one matrix of features for all of its nodes.

Types with features are scaled and brought to one width (`_fitted.py`); the others are filled
with averages of their neighbors, embeddings, or random numbers. A graph of one type passes through
as if nothing of this existed.

Reads a graph; the matrix is an artifact beside its store, or in memory where there is no store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress
from scr.errors import GraphError
from scr.features import EMBEDDINGS, FeatureConfig, FittedFeatures, fit_features
from scr.graph import Graph
from scr.storage import ArtifactWriter, Manifest, open_array, read_manifest
from scr.typed_features._cache import cache_path, open_whole
from scr.typed_features._filling import fill
from scr.typed_features._fitted import FittedCompletion, fit_completion

KIND = "features"
SCHEMA = 1
_FITTED = "fitted."


@dataclass(frozen=True, eq=False)
class CompletedFeatures:
    """Features of all nodes, ready to be propagated."""

    matrix: NDArray[np.float32]
    """Shape (nodes, columns), in the graph's numbering; a memory map where it is stored."""
    fitted: FittedFeatures | FittedCompletion
    """The fitted preparation, to be applied to another graph later."""
    steps: tuple[str, ...]
    """What was done, in words."""
    path: Path | None = None
    """Where the matrix is stored, if it is."""


def complete_features(
    graph: Graph,
    config: FeatureConfig | None = None,
    fitted: FittedFeatures | FittedCompletion | None = None,
    *,
    on_progress: OnProgress | None = None,
    memory: str | int = "auto",
    device: str = "cpu",
) -> CompletedFeatures:
    """Give every node of every type a row of features, all of one width.

    `fitted` is the preparation of an earlier run, for prediction on this graph; the config is not
    read then. `memory` is for the process while features are averaged or embedded, and embeddings
    are trained on the `device`.

    Raises:
        GraphError: There is nothing to make features from, widths differ where they may not, or the
            graph is not one that `fitted` can be applied to.
        MemoryBudgetError: The work does not fit the memory.
    """
    config = config or FeatureConfig()
    if isinstance(fitted, FittedFeatures) or (fitted is None and is_plain(graph, config)):
        return _plain(graph, config, fitted)
    if fitted is not None:
        fitted.check_graph(graph)
        config = fitted.config
    path = cache_path(graph, "", _decisive(graph, config, fitted, device))
    manifest = None if path is None else open_whole(path, KIND, SCHEMA)
    if manifest is not None:
        return _stored(manifest)
    fitted = fitted or fit_completion(graph, config)
    limits: dict[str, Any] = {"memory": memory, "on_progress": on_progress}
    embeddings = None
    if config.missing in EMBEDDINGS and fitted.missing:
        # Here, since nothing else needs torch.
        from scr.typed_features._embeddings import embed

        # Before anything is allocated: it may take hours, and be stopped.
        embeddings = embed(graph, config, fitted.width, device=device, **limits)
    shape = graph.num_nodes, fitted.width
    if path is None:
        matrix = np.zeros(shape, np.float32)
        notes = fill(matrix, graph, fitted, embeddings, **limits)
        return CompletedFeatures(matrix, fitted, (*fitted.steps, *notes))
    with ArtifactWriter(path, kind=KIND, schema=SCHEMA, overwrite=True) as writer:
        matrix = writer.create_array("matrix", shape, np.float32)
        notes = fill(matrix, graph, fitted, embeddings, **limits)
        for name, array in fitted.arrays().items():
            writer.write_array(_FITTED + name, array)
        writer.metadata = {"fitted": fitted.settings(), "steps": [*fitted.steps, *notes]}
    return _stored(read_manifest(path, KIND, schema=SCHEMA))


@dataclass(frozen=True)
class PlannedFeatures:
    """What `complete_features` would give, without its numbers."""

    shape: tuple[int, int]
    fitted: FittedCompletion
    dtype: ClassVar[np.dtype[np.float32]] = np.dtype(np.float32)


def planned_features(graph: Graph, config: FeatureConfig) -> PlannedFeatures:
    """The sizes of what `complete_features` would give; nothing is filled, trained or written."""
    fitted = fit_completion(graph, config)
    return PlannedFeatures((graph.num_nodes, fitted.width), fitted)


def restore_fitted(
    settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> FittedFeatures | FittedCompletion:
    """Make a preparation of one type or of several again, from what it was stored as."""
    if "types" in settings:
        return FittedCompletion.restore(settings, arrays)
    return FittedFeatures.restore(settings, arrays)


def is_plain(graph: Graph, config: FeatureConfig) -> bool:
    """Whether a graph's own features are all that there is to prepare."""
    if len(graph.node_types) > 1:
        return False
    if config.missing in EMBEDDINGS and config.embedding_types == "all":
        return False
    return graph.features is not None or config.missing == "average"


def _plain(graph: Graph, config: FeatureConfig, fitted: FittedFeatures | None) -> CompletedFeatures:
    if len(graph.node_types) > 1:
        raise GraphError(
            f"The graph `{graph.name}` has nodes of the types {', '.join(graph.node_types)}; "
            "expected one type, as in training"
        )
    fitted = fitted or fit_features(graph.features, config)
    return CompletedFeatures(fitted.transform(graph.features), fitted, fitted.steps)


def _decisive(
    graph: Graph, config: FeatureConfig, fitted: FittedCompletion | None, device: str
) -> dict[str, Any]:
    """All that decides the numbers of the matrix."""
    read = {"average": (), "random": ("embedding_seed", "embedding_width")}
    settings = {
        name: value
        for name, value in vars(config).items()
        if not name.startswith("embedding_") or name in read.get(config.missing, (name,))
    }
    parts: dict[str, Any] = {
        "schema": SCHEMA,
        "graph": graph.fingerprint("edges", "features"),
        "settings": settings,
        "fitted": None if fitted is None else list(fitted.identity),
    }
    if config.missing in EMBEDDINGS and device != "cpu":
        parts["device"] = device
    return parts


def _stored(manifest: Manifest) -> CompletedFeatures:
    arrays = {
        name.removeprefix(_FITTED): np.array(open_array(manifest, name))
        for name in manifest.arrays
        if name.startswith(_FITTED)
    }
    fitted = FittedCompletion.restore(manifest.metadata["fitted"], arrays)
    matrix = open_array(manifest, "matrix")
    return CompletedFeatures(matrix, fitted, tuple(manifest.metadata["steps"]), manifest.path)
