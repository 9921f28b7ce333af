"""Make a graph from what people already hold in Python: arrays, SciPy, NetworkX, PyG, or no graph.

Each function turns its input into an edge list and hands over to `from_edges`, where everything is
converted and checked once. They are reached as class methods of `Graph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import scipy.sparse as sp

from scr.errors import ConfigError, GraphError
from scr.graph._arrays import (
    as_edge_index,
    as_features,
    as_ids,
    as_numpy,
    as_split,
    as_weights,
    own_names,
    split_masks,
)
from scr.graph._edges import compress_edges
from scr.graph._hetero_data import from_hetero_data
from scr.graph._labels import as_labels
from scr.graph._validation import check_features, check_splits, warn_missing_classes

if TYPE_CHECKING:
    import networkx as nx

    from scr.graph._graph import Graph


def from_edges(
    cls: type[Graph],
    edge_index: Any,
    *,
    features: Any = None,
    labels: Any = None,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    undirected: bool = True,
    weights: Any = None,
    num_nodes: int | None = None,
    ids: Any = None,
    class_names: Iterable[str] | None = None,
    name: str = "graph",
    self_loops: Literal["drop", "keep"] = "drop",
    duplicates: Literal["merge", "count"] = "merge",
    steps: tuple[str, ...] = (),
) -> Graph:
    """Make a graph from a list of edges.

    Args:
        cls: `Graph`.
        edge_index: Node numbers of shape (2, edges), or pairs; NumPy, torch, pandas or lists.
        features: Numbers of shape (nodes, features), dense or SciPy sparse.
        labels: Class numbers or names, one per node; -1, NaN, none or empty text where unknown. Or
            0 and 1 of shape (nodes, targets), for several yes-or-no targets per node.
        train: Training nodes, as a mask or node numbers.
        valid: Validation nodes.
        test: Test nodes.
        undirected: Store each edge in both directions.
        weights: One positive number per edge; those of duplicates are summed.
        num_nodes: How many nodes there are; otherwise the rows of features, labels or ids say it,
            or the largest node number.
        ids: The user's own names of the nodes, distinct.
        class_names: The names of the classes 0, 1, 2..., or of the targets.
        name: What to call the graph in tables.
        self_loops: What to do with edges from a node to itself.
        duplicates: What to do with repeated unweighted edges: forget or count them.
        steps: What was done to the data before, in words.

    Raises:
        GraphError: Something does not fit together.
    """
    sources, targets = as_edge_index(edge_index)
    features = as_features(features)
    if num_nodes is None:
        num_nodes = _infer_num_nodes(sources, targets, features, labels, ids)
    if weights is not None:
        weights = as_weights(weights, len(sources))
    edges = compress_edges(
        sources, targets, num_nodes, weights=weights, undirected=undirected,
        self_loops=self_loops, duplicates=duplicates,
    )  # fmt: skip
    check_features(features, num_nodes)
    return with_labels(
        cls, num_nodes, labels, class_names, {"train": train, "valid": valid, "test": test}, ids,
        indptr=edges.indptr, indices=edges.indices, weights=edges.weights, features=features,
        name=name, directed=not undirected, steps=(*steps, *edges.steps),
    )  # fmt: skip


def refuse_directed(settings: Mapping[str, Any]) -> None:
    """What makes a graph takes the opposite of what a graph then has."""
    if "directed" in settings:
        value = settings["directed"]
        raise ConfigError(
            "directed", value, "the setting `undirected`", hint=f"give `undirected={not value}`"
        )


def with_labels(
    cls: type[Graph],
    num_nodes: int,
    labels: Any,
    class_names: Iterable[str] | None,
    splits: Mapping[str, Any],
    ids: Any,
    **arrays: Any,
) -> Graph:
    """A graph from checked `arrays`, and from labels, splits and ids of the classified nodes.

    The latter are as in `from_edges` and are checked here; `arrays` are all other fields.
    """
    names = None if class_names is None else tuple(str(each) for each in class_names)
    numbers, names = as_labels(labels, num_nodes, names)
    checked: Any = check_splits(
        {split: as_split(nodes, num_nodes, split) for split, nodes in splits.items()}, numbers
    )
    graph = cls(**arrays, labels=numbers, class_names=names, ids=as_ids(ids, num_nodes), **checked)
    warn_missing_classes(graph)
    return graph


def _infer_num_nodes(sources: Any, targets: Any, *per_node: Any) -> int:
    for values in per_node:
        if values is not None:
            return int(values.shape[0]) if hasattr(values, "shape") else len(values)
    if len(sources) == 0:
        raise GraphError("There are no edges and no features; expected a graph of some nodes")
    return int(max(sources.max(), targets.max())) + 1


def from_scipy(cls: type[Graph], /, adjacency: Any, **settings: Any) -> Graph:
    """Make a graph from a square SciPy sparse matrix; A[i, j] is the edge i -> j.

    Args:
        adjacency: Any SciPy sparse format. Values other than 1 become weights.
        **settings: As in `from_edges`.
    """
    if not sp.issparse(adjacency):
        raise GraphError(f"The adjacency is a {type(adjacency).__name__}; expected SciPy sparse")
    listed: Any = sp.coo_array(cast("Any", adjacency))
    if listed.ndim != 2 or listed.shape[0] != listed.shape[1]:
        raise GraphError(f"The adjacency has the shape {listed.shape}; expected a square matrix")
    if "weights" not in settings and np.any(listed.data != 1):
        settings["weights"] = listed.data
    settings.setdefault("num_nodes", listed.shape[0])
    return cls.from_edges(np.stack([listed.row, listed.col]), **settings)


def from_networkx(
    cls: type[Graph],
    /,
    network: nx.Graph[Any],
    *,
    features: Any = None,
    labels: Any = None,
    split: str | None = None,
    weight: str | None = None,
    **settings: Any,
) -> Graph:
    """Make a graph from NetworkX; its node names become the ids.

    Args:
        network: A NetworkX graph; nodes are numbered in its own order.
        features: A node attribute that holds a vector, or an array in the order of the nodes.
        labels: A node attribute, or an array in the order of the nodes. Of an attribute, classes
            are numbered by the network's own attribute `class_names`, if it has one.
        split: A node attribute that says ``train``, ``valid`` or ``test``.
        weight: An edge attribute; edges without it weigh 1.
        **settings: As in `from_edges`.
    """
    nodes = list(network.nodes)
    number_of = {node: number for number, node in enumerate(nodes)}
    pairs = [(number_of[i], number_of[j]) for i, j in network.edges()]
    edge_index = np.array(pairs, np.int64).reshape(-1, 2).T

    def attribute(key: str) -> list[Any]:
        return [network.nodes[node].get(key) for node in nodes]

    if isinstance(features, str):
        rows = attribute(features)
        lengths = {None if row is None else np.size(row) for row in rows}
        if len(lengths) != 1 or None in lengths:
            raise GraphError(
                f"The node attribute {features!r} is missing or has different lengths; "
                "expected a vector of one length for every node"
            )
        features = np.array([np.ravel(row) for row in rows])
    if isinstance(labels, str):
        labels = np.array(attribute(labels), object)
        if labels.ndim == 2:  # several targets
            labels = labels.astype(np.float32)
        settings.setdefault("class_names", network.graph.get("class_names"))
    if split is not None:
        said = np.array(attribute(split), object)
        for name in ("train", "valid", "test"):
            mask = said == name
            settings.setdefault(name, mask if mask.any() else None)
    if weight is not None:
        settings["weights"] = [value for _, _, value in network.edges.data(weight, default=1.0)]
    is_numbered = all(isinstance(node, (int, np.integer)) for node in nodes)
    settings.setdefault("ids", nodes if is_numbered else [str(node) for node in nodes])
    return cls.from_edges(
        edge_index, features=features, labels=labels, num_nodes=len(nodes), **settings
    )


def from_pyg(
    cls: type[Graph], /, data: Any, *, split: int = 0, target: str | None = None, **settings: Any
) -> Graph:
    """Make a graph from a PyG ``Data`` or ``HeteroData``, or anything with the same attributes.

    Args:
        data: Has ``edge_index`` and perhaps ``x``, ``y``, ``edge_weight`` and masks, and
            ``node_ids`` and ``class_names`` if it is from `to_pyg`; of several types, see
            `scr.graph._hetero_data.from_hetero_data`.
        split: Which column to take where the masks are two-dimensional.
        target: The type whose nodes are classified, where there are several types.
        **settings: As in `from_edges` or `from_relations`; they win over what ``data`` says.
    """
    refuse_directed(settings)
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        return from_hetero_data(cls, data, split=split, target=target, **settings)
    if target is not None:
        raise GraphError(
            f"The target type `{target}` was named, but the {type(data).__name__} has one type of "
            "nodes; expected a PyG HeteroData"
        )
    fields: dict[str, Any] = {
        "features": getattr(data, "x", None),
        "labels": getattr(data, "y", None),
        "weights": getattr(data, "edge_weight", None),
        "num_nodes": getattr(data, "num_nodes", None),
    }
    fields |= split_masks(data, split) | own_names(data)
    if getattr(data, "edge_index", None) is None:
        raise GraphError(f"The {type(data).__name__} has no `edge_index`; expected a PyG Data")
    return cls.from_edges(as_numpy(data.edge_index), **(fields | settings))


def from_features(
    cls: type[Graph],
    /,
    features: Any,
    k: int = 10,
    *,
    metric: Literal["cosine", "euclidean"] = "cosine",
    **settings: Any,
) -> Graph:
    """Link each row to its k nearest rows, for people who have no graph.

    The graph is undirected unless settings say otherwise: two rows are linked if one is among the
    nearest of the other.

    Args:
        features: Numbers of shape (nodes, features), dense or SciPy sparse.
        k: Neighbors of each row, itself not counted.
        metric: What near means.
        **settings: As in `from_edges`.
    """
    from sklearn.neighbors import NearestNeighbors

    matrix = as_features(features)
    if matrix is None:
        raise GraphError("There are no features; expected numbers of shape (nodes, features)")
    num_nodes = matrix.shape[0]
    check_features(matrix, num_nodes)
    if not 1 <= k < num_nodes:
        raise GraphError(f"k is {k}; expected 1 to {num_nodes - 1} neighbors among {num_nodes}")
    nearest = NearestNeighbors(n_neighbors=k, metric=metric).fit(matrix)
    targets = nearest.kneighbors(return_distance=False)
    edge_index = np.stack([np.repeat(np.arange(num_nodes), k), targets.ravel()])
    step = f"linked each node to its {k} nearest by {metric} distance"
    settings["steps"] = (*settings.get("steps", ()), step)
    return cls.from_edges(edge_index, features=matrix, **settings)
