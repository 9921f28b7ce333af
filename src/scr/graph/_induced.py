"""The part of a graph that some of its target nodes and all other nodes span."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.graph._edges import edge_keys, rows_of_keys

if TYPE_CHECKING:
    from scr.graph._graph import Graph


def induced(graph: Graph, targets: NDArray[np.int64]) -> Graph:
    """The graph of some target nodes, in this order, with the edges between nodes that stay.

    Nodes of other types all stay. Splits keep those of their nodes that stay.
    """
    number = np.full(graph.num_nodes, -1, np.int64)
    number[targets] = np.arange(len(targets))
    others = np.arange(graph.num_targets, graph.num_nodes)
    number[others] = others - graph.num_targets + len(targets)
    nodes = len(targets) + len(others)
    degrees: NDArray[np.int64] = np.diff(graph.indptr)
    sources = np.repeat(number, degrees)
    ends = number[np.asarray(graph.indices)]
    edges = np.flatnonzero((sources >= 0) & (ends >= 0))
    keys = edge_keys(sources[edges], ends[edges])
    # Stable: parallel edges of several relations stay in the order of the relations.
    order = np.argsort(keys, kind="stable")
    indptr, indices = rows_of_keys(keys[order], nodes)
    edges = edges[order]
    listed = {"train": graph.train, "valid": graph.valid, "test": graph.test}
    parts: dict[str, Any] = {}
    for name, members in listed.items():
        numbers = np.sort(number[np.asarray(members)])
        parts[name] = numbers[numbers >= 0]
    if graph.edge_types is not None:
        parts["edge_types"] = np.asarray(graph.edge_types)[edges]
    return dataclasses.replace(
        graph, indptr=indptr, indices=indices,
        weights=None if graph.weights is None else np.asarray(graph.weights)[edges],
        features=None if graph.features is None else graph.features[targets],
        labels=np.asarray(graph.labels)[targets],
        ids=None if graph.ids is None else np.asarray(graph.ids)[targets],
        node_types={**graph.node_types, graph.target: len(targets)},
        path=None, source=None, features_file=None,
        **parts,
    )  # fmt: skip
