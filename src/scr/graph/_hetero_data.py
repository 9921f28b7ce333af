"""Make a graph from a PyG `HeteroData`, or anything with the same attributes.

PyG is not imported: what is read is `node_types`, `edge_types`, and for each of them the object
that `data[...]` gives, with `x`, `y`, `num_nodes`, masks, `edge_index` and `edge_weight`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from scr.errors import GraphError
from scr.graph._arrays import as_numpy, own_names, split_masks
from scr.graph._relations import Relation

if TYPE_CHECKING:
    from scr.graph._graph import Graph


def from_hetero_data(
    cls: type[Graph], data: Any, *, split: int = 0, target: str | None = None, **settings: Any
) -> Graph:
    """Make a graph of several types; arguments are those of `from_pyg`.

    Relations that are another one's way back, as `ToUndirected` makes them (`rev_*`), are left out
    with a note: every relation is stored both ways anyhow. Without a target, it is the only type
    with ``y``.
    """
    relations = [Relation(*each) for each in data.edge_types]
    if not relations:
        raise GraphError("The `HeteroData` has no edges; expected at least one relation")
    # Types that only edges name have no attributes at all, and PyG does not list them.
    ends = (kind for each in relations for kind in (each.source, each.target))
    types = list(dict.fromkeys([*data.node_types, *ends]))
    chosen = _target(target, types, data)
    edges = {each: _edge_index(data, each) for each in relations}
    weights = {each: getattr(data[tuple(each)], "edge_weight", None) for each in relations}
    listed = set(data.node_types)
    features = {kind: getattr(data[kind], "x", None) for kind in types if kind in listed}
    fields: dict[str, Any] = {
        "features": {kind: matrix for kind, matrix in features.items() if matrix is not None},
        "labels": getattr(data[chosen], "y", None),
        "num_nodes": {
            kind: _count(data[kind] if kind in listed else None, kind, edges) for kind in types
        },
        "weights": {each: values for each, values in weights.items() if values is not None},
        **split_masks(data[chosen], split),
        **own_names(data[chosen]),
    }
    return cls.from_relations(edges, target=chosen, **(fields | settings))


def _target(target: str | None, types: list[str], data: Any) -> str:
    if target is not None:
        if target not in data.node_types:
            known = ", ".join(types)
            raise GraphError(f"The target type is `{target}`; expected one of the types {known}")
        return target
    labeled = [kind for kind in data.node_types if getattr(data[kind], "y", None) is not None]
    if len(labeled) == 1:
        return str(labeled[0])
    subject = f"The types {' and '.join(labeled)} have" if labeled else "No type has"
    raise GraphError(
        f"{subject} labels `y`; expected one type with labels, or the name of the target type",
        hint=f"say which nodes are classified: `Graph.from_pyg(data, target={types[0]!r})`",
    )


def _edge_index(data: Any, relation: Relation) -> Any:
    edges = getattr(data[tuple(relation)], "edge_index", None)
    if edges is None:
        raise GraphError(
            f"The relation {relation} has no `edge_index`; expected node numbers of shape "
            "(2, edges)",
            hint="PyG's `ToSparseTensor` removes them: leave it out",
        )
    return as_numpy(edges)


def _count(store: Any, kind: str, edges: dict[Relation, Any]) -> int:
    """Nodes of a type, as it says itself, else as its features, labels and edges say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG's, about types of which it cannot tell
        said = getattr(store, "num_nodes", None)
    if said is not None:
        return int(said)
    for name in ("x", "y", "train_mask"):
        values = getattr(store, name, None)
        if values is not None:
            return len(values)
    largest = [
        int(ends.max()) + 1
        for each, index in edges.items()
        if index.ndim == 2 and len(index) == 2  # other shapes are refused later
        for end, ends in zip((each.source, each.target), index, strict=True)
        if end == kind and ends.size
    ]
    return max(largest, default=0)
