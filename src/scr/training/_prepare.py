"""From a graph to the rows that are trained on: features prepared, propagated, mixed, once.

Nothing here reads a label, except `label_rows`, which reads those of training nodes only; so hops
are shared by all seeds, splits and regularizers of a comparison.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from scr.compute import OnProgress
from scr.consistency import drops_nodes
from scr.errors import GraphError, MemoryBudgetError
from scr.features import FeatureConfig, fit_features
from scr.graph import Graph, GraphPart, induced
from scr.networks import GraphBatch, encoder_class
from scr.propagation import (
    Hops,
    HopScale,
    PropagationConfig,
    RandomPropagation,
    Subset,
    as_subsets,
    choose_subsets,
    label_hops,
    load_cached_hops,
    plan_propagation,
    propagate,
    propagate_mixture,
    rows_hash,
    top_nodes,
    unit_rows,
)
from scr.storage import take_rows
from scr.training._dropped_nodes import NodeDropper, TopNodeDropper
from scr.training._inductive import (
    InductivePrepared,
    InductiveRows,
    graph_to_select_on,
    seen_nodes,
)
from scr.training._prepare_graph import Preparation, PreparedGraph, prepare_graph
from scr.training._recipe import Recipe
from scr.training._records import Handover
from scr.training._rows import LabelHops, Rows, RowSource
from scr.typed_features import FittedCompletion, complete_features, is_plain


@dataclass(frozen=True)
class HopsRequest:
    """Hops that are wanted beside a store."""

    store: str
    features_file: str | None
    """Features instead of the store's."""
    rows: str
    """Of which nodes: `labeled`, `all`, or a file with numbers."""
    propagation: PropagationConfig
    data: FeatureConfig
    walks_subsets: bool
    """Whether subsets of relations are walked apart."""


class HopsBudgetError(MemoryBudgetError):
    """Hops of a stored graph do not fit the memory; they can be propagated to disk before."""

    def __init__(self, message: str, request: HopsRequest) -> None:
        self.request = request
        super().__init__(
            message,
            hint="first run `scr propagate` on the store with the same settings and these rows: "
            f"{request.rows}; it works on disk, and what it leaves is found",
        )


SubsetNames = tuple[tuple[str, ...], ...]
"""Subsets of relations by the relations' full names."""


@dataclass(frozen=True)
class PreparedHops:
    """Hops of all target nodes, or of those kept, and how they were computed."""

    array: NDArray[np.floating[Any]]
    """Shape (rows, hops, features); with subsets, all hops of a subset lie together."""
    features: Preparation
    """The fitted preparation, to be applied to new nodes later."""
    seconds: float
    kept: NDArray[np.int64] | None = None
    """The node of each row, ascending; none: row i is node i."""
    subsets: SubsetNames | None = None
    """Subsets of relations that hops were computed over, each apart; none: over all edges alike."""

    def averages(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The mean of the hops of some rows, to estimate trust from. Shape (rows, features)."""
        taken = take_rows(self.array, rows).astype(np.float32)
        return np.asarray(taken.mean(axis=1))

    def rows(self, classes: int, labels: LabelHops, device: torch.device, *, seed: int = 0) -> Rows:
        """What an encoder is trained on; no seed decides anything about hops."""
        subsets = 1 if self.subsets is None else len(self.subsets)
        return Rows(self.array, classes, labels, device, self.kept, subsets)


Prepared = PreparedHops | PreparedGraph | InductivePrepared
"""What an encoder is trained on, decoupled or coupled."""


def prepare(
    graph: Graph,
    recipe: Recipe,
    *,
    fitted: Preparation | None = None,
    nodes: NDArray[np.int64] | None = None,
    subsets: SubsetNames | None = None,
    device: str = "cpu",
    on_progress: OnProgress | None = None,
) -> Prepared:
    """Prepare what the encoder of a recipe reads: hops, or features and edges.

    Args:
        graph: Its features are used, its labels are not.
        recipe: Sections `data`, `propagation` and `encoder` matter.
        fitted: The preparation of an earlier run, for prediction on a new graph.
        nodes: The nodes that hops are needed of: hops beside the store that were kept for these
            nodes, and maybe others, will do. None: the nodes of the graph's splits.
        subsets: Subsets of relations of an earlier run; none: those that the recipe asks for.
        device: Where embeddings of nodes without features are trained, if they are.
        on_progress: Called with what is done about features, how much of it, and how much there is.
    """
    means: dict[str, Any] = {"device": device, "on_progress": on_progress}
    if recipe.training.inductive and fitted is None:
        return _prepare_parts(graph, recipe, subsets, **means)
    if encoder_class(recipe.encoder).batch_kind is GraphBatch:
        return prepare_graph(graph, recipe, fitted, **means)
    started = time.perf_counter()
    features = node_features(graph, recipe.data, fitted, **means)
    mixture = fixed_mixture(recipe)
    kept = names = None
    if mixture is None:
        names = chosen_subsets(graph, recipe) if subsets is None else subsets
        walked = None if names is None else as_subsets(graph, names)
        hops = _separate_hops(graph, recipe, features, nodes, walked)
        array = np.asarray(hops)
        kept = getattr(hops, "nodes_kept", None)
    else:
        config = recipe.propagation
        mixed = propagate_mixture(
            graph, mixture, config.norm, config.self_loops, config.direction,
            features=features.matrix(), hop_scale=config.hop_scale,
        )  # fmt: skip
        if config.row_scale == "unit":
            unit_rows(mixed)
        array = mixed[:, None, :]
        kept = np.arange(len(array)) if isinstance(graph, GraphPart) else None
    return PreparedHops(array, features.fitted, time.perf_counter() - started, kept, names)


def _prepare_parts(
    graph: Graph, recipe: Recipe, subsets: SubsetNames | None, **means: Any
) -> InductivePrepared:
    """Prepare what is trained on, and with it what validation nodes are scored on."""
    training = dataclasses.replace(recipe.training, inductive=False)
    plain = dataclasses.replace(recipe, training=training)
    known = graph_to_select_on(graph)
    seen = induced(known, seen_nodes(known))
    trained = prepare(seen, plain, subsets=subsets, **means)
    scored = prepare(
        known, plain, fitted=trained.features, subsets=trained.subsets, nodes=known.valid, **means
    )
    assert not isinstance(trained, InductivePrepared)
    assert not isinstance(scored, InductivePrepared)
    return InductivePrepared(seen, known, trained, scored)


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
    on_progress: OnProgress | None = None,
) -> NodeFeatures:
    """Features of all nodes, whatever types there are; arguments as of `complete_features`.

    A graph of one type with features of its own is prepared from those alone, and only once they
    are needed: hops beside its store may make that unnecessary.
    """
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


def chosen_subsets(graph: Graph, recipe: Recipe) -> SubsetNames | None:
    """Subsets of relations that a run would walk apart; none: all edges are alike to it."""
    if len(graph.relations) == 1 or not encoder_class(recipe.encoder).mixes_subsets:
        return None
    subsets = choose_subsets(graph, recipe.propagation)
    return tuple(tuple(str(relation) for relation in subset) for subset in subsets)


def what_is_prepared(graph: Graph, recipe: Recipe) -> list[Any]:
    """All that decides the hops of a graph, as plain values: runs with the same can share them."""
    tables = recipe.tables()
    split = [rows_hash(graph.valid), rows_hash(graph.test)] if recipe.training.inductive else []
    if encoder_class(recipe.encoder).batch_kind is GraphBatch:
        return [tables["data"], tables["propagation"], tables["encoder"], *split]
    mixture = fixed_mixture(recipe)
    mixed = None if mixture is None else mixture.tolist()
    return [tables["data"], tables["propagation"], mixed, chosen_subsets(graph, recipe), *split]


def fixed_mixture(recipe: Recipe) -> NDArray[np.float32] | None:
    """Weights of the hops that are mixed before training, or none if they stay apart."""
    encoder, matrices = encoder_class(recipe.encoder), recipe.propagation.matrices
    return encoder.fixed_mixture(recipe.encoder_config, matrices)


def _separate_hops(
    graph: Graph,
    recipe: Recipe,
    features: NodeFeatures,
    nodes: NDArray[np.int64] | None,
    subsets: tuple[Subset, ...] | None,
) -> Hops:
    """Every hop for itself, from beside the store if `scr propagate` left it there."""
    config = recipe.propagation
    scale: HopScale = "unit" if "unit" in (config.hop_scale, config.row_scale) else "none"
    wanted = dataclasses.replace(config, hop_scale=scale, row_scale="none")
    needed: dict[str, Any] = {} if nodes is None else {"nodes": np.unique(nodes)}
    if graph.path is not None:
        steps = features.fitted.identity
        hops = load_cached_hops(graph, wanted, steps, subsets=subsets, **needed)
        if hops is not None:
            return hops
    try:  # before features are copied
        plan_propagation(
            graph, wanted, features.fitted.width, subsets=subsets,
            rows=graph.reach[0] if isinstance(graph, GraphPart) else None,
        )  # fmt: skip
    except MemoryBudgetError as error:
        if graph.path is None:
            raise
        asked = needed.get("nodes", ())
        rows = "all" if len(asked) == graph.num_targets else "NODES.npy" if needed else "labeled"
        file = None if graph.features_file is None else str(graph.features_file)
        walks = subsets is not None
        request = HopsRequest(str(graph.path), file, rows, wanted, recipe.data, walks)
        raise HopsBudgetError(error.message, request) from None
    return propagate(
        graph, config.hops, config.norm, config.self_loops, config.direction, config.dtype,
        features=features.matrix(), hop_scale=scale, subsets=subsets,
        rows=np.arange(graph.reach[0]) if isinstance(graph, GraphPart) else "all",
    )  # fmt: skip


def make_rows(
    prepared: Prepared,
    graph: Graph,
    recipe: Recipe,
    device: torch.device,
    *,
    seed: int,
    handover: Handover | None = None,
) -> RowSource:
    """What an encoder reads of a prepared graph, with label hops where it reads them.

    Args:
        prepared: From `prepare`.
        graph: The same; only labels of its training nodes are read.
        recipe: The section `propagation` matters.
        device: Where torch computes.
        seed: Decides the folds of the label guard, and which neighbors are drawn.
        handover: Reliable nodes of an earlier stage, whose labels are propagated too.
    """
    if isinstance(prepared, InductivePrepared):
        given: dict[str, Any] = {"seed": seed, "handover": handover}
        return InductiveRows(
            make_rows(prepared.trained, prepared.seen, recipe, device, **given),
            make_rows(prepared.scored, prepared.known, recipe, device, **given),
        )
    labels = label_rows(graph, recipe, seed=seed, handover=handover, kept=prepared.kept)
    return prepared.rows(graph.num_classes, labels, device, seed=seed)


def label_rows(
    graph: Graph,
    recipe: Recipe,
    *,
    seed: int,
    handover: Handover | None,
    kept: NDArray[np.int64] | None,
) -> LabelHops:
    """Propagated labels of training nodes and of a handover, for the nodes with rows."""
    if recipe.propagation.label_matrices == 0:
        return None
    some: dict[str, Any] = {} if kept is None else {"rows": kept}
    if handover is not None and len(handover.nodes):
        known = np.eye(graph.num_classes, dtype=np.float32)[graph.labels[graph.train]]
        some["train"] = np.concatenate([graph.train, handover.nodes.numpy()])
        some["targets"] = np.concatenate([known, handover.soft_labels.numpy()])
    return label_hops(graph, recipe.propagation, seed=seed, **some)


def node_dropper(
    graph: Graph, recipe: Recipe, prepared: Prepared
) -> NodeDropper | TopNodeDropper | None:
    """What a recipe's views drop nodes by, from features prepared as the rows; or none."""
    mixture, consistency = fixed_mixture(recipe), recipe.consistency
    if consistency is None or mixture is None or not recipe.drops_nodes:
        return None
    features: Any = node_features(graph, recipe.data, prepared.features).matrix()
    if drops_nodes(recipe.regularizer):
        propagation = RandomPropagation(graph, recipe.propagation, mixture, features)
        return NodeDropper(propagation, consistency.drop_node)
    top = top_nodes(graph, recipe.propagation, mixture, consistency.top_nodes)
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    return TopNodeDropper(
        torch.from_numpy(np.array(dense, np.float32)), top, consistency.drop_node,
        unit=recipe.propagation.row_scale == "unit",
    )  # fmt: skip
