"""A graph as other libraries hold it: PyG, NetworkX.

What comes out is read back by `Graph.from_pyg` and `Graph.from_networkx`. The libraries are
imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError, SCRError

if TYPE_CHECKING:
    import networkx as nx

    from scr.graph._graph import Graph

MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
"""PyG's names of the splits."""


def to_networkx(graph: Graph) -> nx.Graph[Any]:
    """The graph as a NetworkX `Graph`, or a `DiGraph` if it is directed.

    Nodes are the ids, or the numbers where there are none. They have the attributes `features` (an
    array), `label` (the name of the class, or a list of 0 and 1 for several targets; none where it
    is unknown) and `split`, as far as the graph has them. Edges have `weight` if there are weights.
    Names of classes and of the graph are attributes of the network.
    """
    try:
        import networkx as nx
    except ImportError:
        raise _missing("networkx") from None
    if graph.is_typed:
        raise GraphError(
            f"The graph has {len(graph.node_types)} types of nodes and {len(graph.relations)} "
            "relations; expected one of each for NetworkX",
            hint="`graph.to_pyg()` keeps types; `graph.only(relation)` has one relation",
        )
    network: nx.Graph[Any] = (nx.DiGraph if graph.directed else nx.Graph)(name=graph.name)
    network.graph["class_names"] = list(graph.class_names)
    names = list(range(graph.num_nodes)) if graph.ids is None else np.asarray(graph.ids).tolist()
    network.add_nodes_from(names)
    columns = {"features": _rows(graph.features), "label": _labels(graph), "split": _splits(graph)}
    for attribute, values in columns.items():
        if values is not None:
            nx.set_node_attributes(network, dict(zip(names, values, strict=True)), attribute)
    sources, targets = _ends(graph)
    pairs = zip((names[i] for i in sources), (names[j] for j in targets), strict=True)
    if graph.weights is None:
        network.add_edges_from(pairs)
    else:
        weights = np.asarray(graph.weights).tolist()
        network.add_weighted_edges_from(
            (i, j, weight) for (i, j), weight in zip(pairs, weights, strict=True)
        )
    return network


def to_pyg(graph: Graph) -> Any:
    """The graph as PyG's `Data`, or as `HeteroData` if it has several types or relations.

    Nodes, of the target type where there are several, have `x`, `y` (-1 where the class is unknown;
    float32 of shape (nodes, targets) for several targets), `train_mask`, `val_mask` and
    `test_mask`, `node_ids` and `class_names`, as far as the graph has them. Sparse features become
    a sparse COO tensor. Relations have the edges along their direction; `edge_weight` is there if
    the graph has weights.
    """
    try:
        from torch_geometric.data import Data, HeteroData
    except ImportError:
        raise _missing("torch-geometric") from None
    if not graph.is_typed:
        data = Data(num_nodes=graph.num_nodes)
        _fill_edges(data, *_ends(graph), graph.weights)
        _fill_nodes(data, graph)
        return data
    typed = HeteroData()
    for kind, count in graph.node_types.items():
        typed[kind].num_nodes = count
        if kind in graph.other_features:
            typed[kind].x = _tensor(graph.other_features[kind])
    _fill_nodes(typed[graph.target], graph)
    sources, targets = _ends(graph)
    for code, relation in enumerate(graph.relations):
        along = slice(None) if graph.edge_types is None else np.asarray(graph.edge_types) == code
        _fill_edges(
            typed[tuple(relation)],
            sources[along] - graph.nodes_of(relation.source).start,
            targets[along] - graph.nodes_of(relation.target).start,
            None if graph.weights is None else np.asarray(graph.weights)[along],
        )
    return typed


def _ends(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    degrees: NDArray[np.int64] = np.diff(graph.indptr)
    sources = np.repeat(np.arange(graph.num_nodes), degrees)
    return sources, np.asarray(graph.indices).astype(np.int64)


def _fill_edges(store: Any, sources: Any, targets: Any, weights: Any) -> None:
    store.edge_index = _tensor(np.stack([sources, targets]))
    if weights is not None:
        store.edge_weight = _tensor(weights)


def _fill_nodes(store: Any, graph: Graph) -> None:
    if graph.features is not None:
        store.x = _tensor(graph.features)
    if graph.class_names:
        kind = np.float32 if graph.is_multilabel else np.int64
        store.y = _tensor(np.asarray(graph.labels).astype(kind))
        store.class_names = list(graph.class_names)
    for split, attribute in MASKS.items():
        nodes = getattr(graph, split)
        if len(nodes):
            mask = np.zeros(graph.num_targets, bool)
            mask[nodes] = True
            setattr(store, attribute, _tensor(mask))
    if graph.ids is not None:
        ids = np.asarray(graph.ids)
        store.node_ids = _tensor(ids) if ids.dtype.kind == "i" else ids.tolist()


def _tensor(array: Any) -> Any:
    """A tensor with memory of its own: a store's arrays cannot be written to."""
    import torch

    if sp.issparse(array):
        listed: Any = sp.coo_array(cast("Any", array))
        positions = torch.from_numpy(np.stack([listed.row, listed.col]).astype(np.int64))
        values = torch.from_numpy(np.array(listed.data))
        return torch.sparse_coo_tensor(positions, values, listed.shape, check_invariants=False)
    return torch.from_numpy(np.array(array))


def _rows(features: Any) -> list[NDArray[Any]] | None:
    if features is None:
        return None
    dense = cast("Any", features).toarray() if sp.issparse(features) else np.array(features)
    return list(dense)


def _labels(graph: Graph) -> list[Any] | None:
    if not graph.class_names:
        return None
    labels: list[Any] = np.asarray(graph.labels).tolist()
    if graph.is_multilabel:
        return labels
    return [None if number < 0 else graph.class_names[number] for number in labels]


def _splits(graph: Graph) -> list[str | None] | None:
    said: list[str | None] = [None] * graph.num_targets
    for split in MASKS:
        for node in getattr(graph, split):
            said[node] = split
    return said if any(said) else None


def _missing(package: str) -> SCRError:
    return SCRError(
        f"The conversion needs {package}, which is not installed",
        hint=f"install it with `pip install {package}`",
    )
