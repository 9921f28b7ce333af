"""What a model reads of a graph, be it the one of its training or another.

Other graphs may number classes and relations differently, or have other ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from scr import training
from scr.errors import GraphError
from scr.graph import Graph
from scr.networks import GraphEncoder
from scr.prediction._stored_model import TrainedModel
from scr.propagation import rows_hash

Nodes = NDArray[np.int64]


def node_numbers(nodes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Numbers of some of so many nodes, as a user gives them, also by a mask."""
    index = np.atleast_1d(np.array(nodes))  # a copy: torch wants to be able to write
    if index.ndim > 1 or (index.size and index.dtype.kind not in "biu"):
        raise GraphError(
            f"The nodes are {index.dtype} of shape {index.shape}; expected a list of whole numbers"
        )
    if index.dtype == bool:
        if len(index) != count:
            raise GraphError(
                f"The mask of nodes has {len(index):,} entries; expected {count:,}, one per node"
            )
        index = np.flatnonzero(index)
    index = index.astype(np.int64)
    wrong = index[(index < 0) | (index >= count)]
    if len(wrong):
        raise GraphError(f"There is no node {wrong[0]}; expected numbers from 0 to {count - 1:,}")
    return index


def model_graph(graph: Graph, model: TrainedModel) -> Graph:
    """The graph under the names of a model's classes or targets.

    Labels of targets are not translated: their names must be those of the model.
    """
    has_labels = bool(graph.class_names)
    if has_labels and (graph.is_multilabel or model.multilabel):
        same = graph.is_multilabel == model.multilabel and graph.class_names == model.class_names
        if not same:
            raise GraphError(
                f"The labels of the graph `{graph.name}` are not of the targets that the model was "
                "trained on; expected the same targets in the same order, or no labels"
            )
    return with_classes(graph, model.class_names)


def with_classes(graph: Graph, class_names: tuple[str, ...]) -> Graph:
    """The graph under the class names of a model.

    Labels are translated by name. Those of classes that the model does not know are dropped, and
    nodes with such labels leave the training nodes.
    """
    if graph.class_names == class_names:
        return graph
    position = {name: number for number, name in enumerate(class_names)}
    # The last entry is for the label -1.
    translation = np.array([position.get(name, -1) for name in graph.class_names] + [-1], np.int64)
    labels = translation[np.asarray(graph.labels)]
    train = np.asarray(graph.train)
    return dataclasses.replace(
        graph, class_names=class_names, labels=labels, train=train[labels[train] >= 0]
    )


def with_relations(graph: Graph, relations: tuple[str, ...]) -> Graph:
    """The graph with its relations in the order of a model, whose weights go by their numbers.

    A model without full names of relations knows a single one.
    """
    own = tuple(str(relation) for relation in graph.relations)
    if own == relations or (not relations and not graph.is_typed):
        return graph
    if graph.edge_types is None or sorted(own) != sorted(relations):
        expected = ", ".join(relations) or "a single one"
        raise GraphError(
            f"The graph `{graph.name}` has the relations {', '.join(own)}; expected {expected}, "
            "as in training",
            hint="a relation may be without edges",
        )
    position = np.array([relations.index(name) for name in own])
    codes = np.concatenate([position, position + len(position)]).astype(graph.edge_types.dtype)
    ordered = tuple(graph.relations[own.index(name)] for name in relations)
    return dataclasses.replace(
        graph, relations=ordered, edge_types=codes[np.asarray(graph.edge_types)], path=None,
        source=None,
    )  # fmt: skip


def rows_of_other_graph(
    graph: Graph,
    model: TrainedModel,
    *,
    device: str = "cpu",
    nodes: Nodes | None = None,
    shared: dict[str, training.Prepared] | None = None,
) -> training.RowSource:
    """What an encoder reads of a graph that it was not trained on.

    The graph may number its classes differently, have classes that the model does not know, or no
    labels at all. Label hops have one column per class of the model, so labels are translated by
    the names of classes before anything is propagated.

    After training in stages, label hops hold predictions of the stage before, whose encoder is not
    kept. Here the encoder takes its place once: it predicts with hops of the known labels, hands
    its predictions over to itself, and the hops are built again.

    Labels of the graph's training nodes are read if the encoder reads label hops. Rows are needed
    of some nodes; none: of those of the graph's splits.
    """
    encoder, recipe = model.encoder, model.recipe
    graph = training.with_known_labels(model_graph(graph, model), recipe)
    if isinstance(encoder, GraphEncoder) and encoder.aggregation == "relations":
        graph = with_relations(graph, model.relations)
    rows_with = rows_maker(graph, model, device, nodes, shared)
    rows = rows_with(handover=None)
    if not training.rebuilds_label_hops(recipe):
        return rows
    others = torch.from_numpy(np.setdiff1d(rows.nodes(), graph.train, assume_unique=True))
    count = training.stage_count(recipe)
    handover = training.handed_over(encoder, rows, others, recipe.stages, count, None)
    return rows_with(handover=handover)


def rows_maker(
    graph: Graph,
    model: TrainedModel,
    device: str,
    nodes: Nodes | None,
    shared: dict[str, training.Prepared] | None,
) -> Callable[..., training.RowSource]:
    """Prepares a graph as the model's was; returns what makes rows of it from a `handover`."""
    recipe, subsets = model.recipe, model.subsets
    given: dict[str, Any] = {"fitted": model.features, "nodes": nodes, "subsets": subsets}
    if shared is None:
        prepared = training.prepare(graph, recipe, **given)
    else:
        needed = [training.what_is_prepared(graph, recipe), subsets]
        asked = None if nodes is None else rows_hash(nodes)
        key = json.dumps([*needed, graph.fingerprint("edges", "features"), asked], default=str)
        if key not in shared:
            shared.clear()  # models that read the same come one after the other
            shared[key] = training.prepare(graph, recipe, **given)
        prepared = shared[key]
    return partial(
        training.make_rows, prepared, graph, recipe, torch.device(device), seed=model.seed
    )
