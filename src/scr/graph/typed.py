"""Make a graph of several types of nodes and edges from the relations between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph.arrays import as_edge_index, as_features, as_ids, as_split
from scr.graph.construct import from_edges
from scr.graph.edges import check_node_count, compress_edges
from scr.graph.graph import Graph
from scr.graph.labels import as_labels
from scr.graph.relations import Relation
from scr.graph.validation import check_features, check_splits, warn_missing_classes

Ends = tuple[NDArray[Any], NDArray[Any]]


def from_relations(
    relations: Mapping[Any, Any],
    features: Mapping[str, Any] | None = None,
    labels: Any = None,
    target: str | None = None,
    *,
    num_nodes: Mapping[str, int] | None = None,
    weights: Mapping[Any, Any] | None = None,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    ids: Any = None,
    class_names: Iterable[str] | None = None,
    name: str = "graph",
    steps: tuple[str, ...] = (),
) -> Graph:
    """Make a graph from relations; the way back of each relation is always included.

    Args:
        relations: For each ``(source type, name, target type)`` the edges: numbers within the two
            types, of shape (2, edges), or a SciPy sparse matrix (source nodes, target nodes).
            Repeated edges of a relation are merged, edges from a node to itself dropped. A relation
            that is the way back of another, edge by edge, is left out.
        features: Numbers of shape (nodes of the type, columns), dense or sparse, of some types.
        labels: Classes of the target nodes; as in `from_edges`.
        target: The type whose nodes are classified; may be left out where there is one type.
        num_nodes: Nodes of each type; otherwise features, labels and edges say it.
        weights: Numbers per edge of some relations; those of the others weigh 1.
        train: Training nodes among the target nodes, as a mask or numbers.
        valid: Validation nodes.
        test: Test nodes.
        ids: The user's own names of the target nodes, distinct.
        class_names: The names of the classes 0, 1, 2...
        name: What to call the graph in tables.
        steps: What was done to the data before, in words.

    Raises:
        GraphError: Something does not fit together.
    """
    edges = {_relation(key): _ends(value) for key, value in relations.items()}
    weighted = {_relation(key): np.asarray(value) for key, value in (weights or {}).items()}
    if not edges:
        raise GraphError("There are no relations; expected at least one, with its edges")
    given = {kind: as_features(matrix) for kind, matrix in (features or {}).items()}
    target = _target(target, edges, num_nodes)
    counts = _count_nodes(edges, given, labels, target, num_nodes)
    _check_types(edges, given, counts)
    known = {kind: matrix for kind, matrix in given.items() if matrix is not None}
    for kind, matrix in known.items():
        check_features(matrix, counts[kind])
    common: dict[str, Any] = {"ids": ids, "class_names": class_names, "name": name}
    if len(edges) == 1 and len(counts) == 1:
        (relation,) = edges
        graph = from_edges(
            edges[relation], features=known.get(target), labels=labels, train=train, valid=valid,
            test=test, num_nodes=counts[target], weights=weighted.get(relation), steps=steps,
            **common,
        )  # fmt: skip
        return graph.renamed(relation)
    edges, dropped = _without_ways_back(edges)
    csr = _compress(edges, weighted, counts)
    names = None if class_names is None else tuple(str(each) for each in class_names)
    numbers, names = as_labels(labels, counts[target], names)
    parts = {"train": train, "valid": valid, "test": test}
    splits = {part: as_split(nodes, counts[target], part) for part, nodes in parts.items()}
    graph = Graph(
        **csr, relations=tuple(edges), node_types=counts, features=known.pop(target, None),
        other_features=known, labels=numbers, class_names=names,
        ids=as_ids(ids, counts[target]), name=name, steps=(*steps, *dropped),
        **check_splits(splits, numbers),  # type: ignore[arg-type]
    )  # fmt: skip
    warn_missing_classes(graph)
    return graph


def _relation(key: Any) -> Relation:
    parts = tuple(key.split(":")) if isinstance(key, str) else tuple(key)
    if len(parts) != 3 or not all(isinstance(part, str) and part for part in parts):
        raise GraphError(
            f"A relation is named {key!r}; expected (source type, name, target type), all text"
        )
    return Relation(*parts)


def _ends(edges: Any) -> Ends:
    if sp.issparse(edges):
        listed: Any = sp.coo_array(cast("Any", edges))
        return listed.row, listed.col
    return as_edge_index(edges)


def _target(
    target: str | None, edges: Mapping[Relation, Ends], num_nodes: Mapping[str, int] | None
) -> str:
    types = list(dict.fromkeys([*(num_nodes or {}), *(end for r in edges for end in (r[0], r[2]))]))
    if target is None and len(types) == 1:
        return types[0]
    if target not in types:
        raise GraphError(
            f"The target type is {target!r}; expected one of the types {', '.join(types)}"
        )
    return target


def _count_nodes(
    edges: Mapping[Relation, Ends],
    features: Mapping[str, Any],
    labels: Any,
    target: str,
    num_nodes: Mapping[str, int] | None,
) -> dict[str, int]:
    """Nodes of each type, the target type first."""
    if num_nodes is not None:
        return {target: int(num_nodes[target])} | {t: int(n) for t, n in num_nodes.items()}
    counts = {target: len(labels)} if labels is not None else {target: 0}
    fixed = set(counts) if labels is not None else set()
    for kind, matrix in features.items():
        if matrix is not None and kind not in fixed:
            counts[kind] = int(matrix.shape[0])
            fixed.add(kind)
    for relation, ends in edges.items():
        for kind, numbers in zip((relation.source, relation.target), ends, strict=True):
            if kind not in fixed:
                largest = int(numbers.max()) + 1 if len(numbers) else 0
                counts[kind] = max(counts.get(kind, 0), largest)
    return counts


def _check_types(
    edges: Mapping[Relation, Ends], features: Mapping[str, Any], counts: Mapping[str, int]
) -> None:
    known = ", ".join(counts)
    check_node_count(sum(counts.values()))
    for relation, ends in edges.items():
        for kind, numbers in zip((relation.source, relation.target), ends, strict=True):
            if kind not in counts:
                raise GraphError(
                    f"The relation {relation} is between unknown types: there is no type "
                    f"`{kind}`; expected types among {known}"
                )
            outside = (numbers < 0) | (numbers >= counts[kind])
            if outside.any():
                edge = int(np.flatnonzero(outside)[0])
                raise GraphError(
                    f"Edge {edge:,} of the relation {relation} names {kind} {numbers[edge]}; "
                    f"expected numbers from 0 to {counts[kind] - 1}"
                )
    touched = {kind for r, ends in edges.items() if len(ends[0]) for kind in (r.source, r.target)}
    for kind in features:
        if kind not in counts:
            raise GraphError(
                f"There are features of an unknown type `{kind}`; expected types among {known}"
            )
    for kind in counts:
        if kind not in touched and features.get(kind) is None:
            raise GraphError(
                f"The type `{kind}` has neither features nor edges, so nothing is known of its "
                "nodes; expected one of them",
                hint="leave the type out",
            )


def _without_ways_back(
    edges: Mapping[Relation, Ends],
) -> tuple[dict[Relation, Ends], tuple[str, ...]]:
    """Leave out relations that only say again, backward, what another one says."""
    kept: dict[Relation, Ends] = {}
    notes = []
    for relation, (sources, targets) in edges.items():
        for other, (their_sources, their_targets) in kept.items():
            turned = (relation.source, relation.target) == (other.target, other.source)
            if turned and _same_edges((targets, sources), (their_sources, their_targets)):
                notes.append(f"left out {relation}, which is the way back of {other}")
                break
        else:
            kept[relation] = sources, targets
    return kept, tuple(notes)


def _same_edges(ours: Ends, theirs: Ends) -> bool:
    if len(ours[0]) != len(theirs[0]):
        return False
    first, second = (np.lexsort((targets, sources)) for sources, targets in (ours, theirs))
    return all(np.array_equal(a[first], b[second]) for a, b in zip(ours, theirs, strict=True))


def _compress(
    edges: Mapping[Relation, Ends],
    weights: Mapping[Relation, NDArray[Any]],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    """One CSR over all nodes, with the code of each stored edge."""
    total, offsets, at = sum(counts.values()), {}, 0
    for kind, count in counts.items():
        offsets[kind] = at
        at += count
    rows, columns, codes, values = [], [], [], []
    dtype = np.uint8 if 2 * len(edges) <= 256 else np.uint16
    for code, (relation, (sources, targets)) in enumerate(edges.items()):
        given = weights.get(relation)
        made = compress_edges(
            sources.astype(np.int64) + offsets[relation.source],
            targets.astype(np.int64) + offsets[relation.target],
            total,
            undirected=False,
            weights=None if given is None else given.astype(np.float32),
        )
        starts = np.repeat(np.arange(total, dtype=np.int32), np.diff(made.indptr))
        value = np.ones(len(starts), np.float32) if made.weights is None else made.weights
        for ends, number in (
            ((starts, made.indices), code),
            ((made.indices, starts), code + len(edges)),
        ):
            rows.append(ends[0])
            columns.append(ends[1])
            codes.append(np.full(len(starts), number, dtype))
            if weights:
                values.append(value)
    sources, targets = np.concatenate(rows), np.concatenate(columns)
    keys = (sources.astype(np.int64) << 32) | targets
    # Stable: parallel edges of several relations lie in the order of their codes' making.
    order = np.argsort(keys, kind="stable")
    indptr = np.zeros(total + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=total), out=indptr[1:])
    return {
        "indptr": indptr,
        "indices": targets[order],
        "edge_types": np.concatenate(codes)[order],
        "weights": np.concatenate(values)[order] if weights else None,
    }
