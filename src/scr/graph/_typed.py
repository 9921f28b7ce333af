"""Make a graph of several types of nodes and edges from the relations between them.

Everything that is given is counted and checked here; `_typed_edges.py` makes one CSR of the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scr.errors import GraphError
from scr.graph._arrays import as_features, as_numpy
from scr.graph._construct import with_labels
from scr.graph._edges import check_node_count
from scr.graph._relations import Relation
from scr.graph._typed_edges import Edges, compress_relations, listed_edges, without_ways_back
from scr.graph._validation import check_features

if TYPE_CHECKING:
    from scr.graph._graph import Graph


def from_relations(
    cls: type[Graph],
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
    undirected: bool = True,
    self_loops: Literal["drop", "keep"] = "drop",
    duplicates: Literal["merge", "count"] = "merge",
    steps: tuple[str, ...] = (),
) -> Graph:
    """Make a graph from relations; the way back of each relation is always included.

    Splits, ids and whatever is not listed here are as in `from_edges`, of the target nodes.

    Args:
        cls: `Graph`.
        relations: For each ``(source type, name, target type)`` the edges: numbers within the two
            types, of shape (2, edges), or a SciPy sparse matrix (source nodes, target nodes), whose
            values other than 1 become weights. A relation that is the way back of another, edge by
            edge, is left out.
        features: Numbers of shape (nodes of the type, columns), dense or sparse, of some types.
        labels: Classes of the target nodes; as in `from_edges`.
        target: The type whose nodes are classified; may be left out where there is one type.
        num_nodes: Nodes of each type; otherwise features, labels and edges say it.
        weights: One positive number per edge for some relations; edges of the others weigh 1.
        undirected: Store each edge in both directions; anything else is only possible with a
            single type and relation.

    Raises:
        GraphError: Something does not fit together.
    """
    edges = _edges(relations, weights or {})
    given = {kind: as_features(matrix) for kind, matrix in (features or {}).items()}
    known = {kind: matrix for kind, matrix in given.items() if matrix is not None}
    target = _target(target, edges, num_nodes)
    counts = _count_nodes(edges, known, labels, target, num_nodes)
    _check_types(edges, known, counts)
    for kind, matrix in known.items():
        _check_features_of(kind, matrix, counts)
    edges, left_out = without_ways_back(edges)
    steps = (*steps, *left_out)
    if len(edges) == 1 and len(counts) == 1:
        ((relation, listed),) = edges.items()
        graph = cls.from_edges(
            np.stack([listed.sources, listed.targets]), weights=listed.weights,
            features=known.get(target), labels=labels, train=train, valid=valid,
            test=test, num_nodes=counts[target], ids=ids, class_names=class_names, name=name,
            undirected=undirected, self_loops=self_loops, duplicates=duplicates, steps=steps,
        )  # fmt: skip
        return graph.renamed(relation)
    if not undirected:
        raise GraphError(
            f"Directed edges were asked for, of {len(edges)} relations between {len(counts)} types "
            "of nodes; expected a single relation, since each of several is stored both ways"
        )
    arrays, done = compress_relations(edges, counts, self_loops=self_loops, duplicates=duplicates)
    splits = {"train": train, "valid": valid, "test": test}
    return with_labels(
        cls, counts[target], labels, class_names, splits, ids,
        **arrays, relations=tuple(edges), node_types=counts, features=known.pop(target, None),
        other_features=known, name=name, steps=(*steps, *done),
    )  # fmt: skip


def _edges(relations: Mapping[Any, Any], weights: Mapping[Any, Any]) -> dict[Relation, Edges]:
    """The edges of each relation as arrays, with their weights."""
    weighted = {_relation(key): value for key, value in weights.items()}
    edges: dict[Relation, Edges] = {}
    for key, value in relations.items():
        relation = _relation(key)
        if relation in edges:
            raise GraphError(f"The relation {relation} is given twice; expected each once")
        edges[relation] = listed_edges(relation, value, weighted.pop(relation, None))
    if not edges:
        raise GraphError("There are no relations; expected at least one, with its edges")
    if weighted:
        known = ", ".join(str(each) for each in edges)
        raise GraphError(
            f"There are weights of an unknown relation {next(iter(weighted))}; "
            f"expected relations among {known}"
        )
    return edges


def _relation(key: Any) -> Relation:
    parts = tuple(key.split(":")) if isinstance(key, str) else tuple(key)
    if len(parts) != 3 or not all(isinstance(part, str) and part for part in parts):
        raise GraphError(
            f"A relation is named {key!r}; expected (source type, name, target type), all text"
        )
    return Relation(*parts)


def _types(edges: Iterable[Relation]) -> list[str]:
    """The types that relations are between, each once, in their order."""
    return list(dict.fromkeys(kind for each in edges for kind in (each.source, each.target)))


def _target(
    target: str | None, edges: Mapping[Relation, Edges], num_nodes: Mapping[str, int] | None
) -> str:
    types = _types(edges) if num_nodes is None else list(num_nodes)
    if target is None and len(types) == 1:
        return types[0]
    if target not in types:
        given_target = "not named" if target is None else f"`{target}`"
        raise GraphError(
            f"The target type is {given_target}; expected one of the types {', '.join(types)}"
        )
    return target


def _count_nodes(
    edges: Mapping[Relation, Edges],
    features: Mapping[str, Any],
    labels: Any,
    target: str,
    num_nodes: Mapping[str, int] | None,
) -> dict[str, int]:
    """Nodes of each type, the target type first."""
    if num_nodes is not None:
        counts = {kind: int(count) for kind, count in num_nodes.items()}
        for kind, count in counts.items():
            if count < 0:
                raise GraphError(f"The type `{kind}` has {count} nodes; expected 0 or more")
        return {target: counts[target]} | counts
    types = [target, *(kind for kind in _types(edges) if kind != target)]
    counts = dict.fromkeys(types, 0)
    fixed = {kind: int(matrix.shape[0]) for kind, matrix in features.items() if kind in counts}
    if labels is not None:
        fixed[target] = len(as_numpy(labels))
    for relation, listed in edges.items():
        for kind, count in zip((relation.source, relation.target), listed.counts, strict=True):
            counts[kind] = max(counts[kind], count)
    return counts | fixed


def _check_types(
    edges: Mapping[Relation, Edges], features: Mapping[str, Any], counts: Mapping[str, int]
) -> None:
    known = ", ".join(counts)
    check_node_count(sum(counts.values()))
    for relation, listed in edges.items():
        for kind, numbers in zip(
            (relation.source, relation.target), (listed.sources, listed.targets), strict=True
        ):
            if kind not in counts:
                raise GraphError(
                    f"The relation {relation} is between unknown types: there is no type "
                    f"`{kind}`; expected types among {known}"
                )
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= counts[kind]):
                edge = int(np.flatnonzero((numbers < 0) | (numbers >= counts[kind]))[0])
                raise GraphError(
                    f"Edge {edge:,} of the relation {relation} names {kind} {numbers[edge]}; "
                    f"expected numbers from 0 to {counts[kind] - 1}"
                )
    for kind in features:
        if kind not in counts:
            raise GraphError(
                f"There are features of an unknown type `{kind}`; expected types among {known}"
            )
    touched = set(_types(each for each, listed in edges.items() if len(listed.sources)))
    for kind in counts:
        if kind not in touched and kind not in features:
            raise GraphError(
                f"The type `{kind}` has neither features nor edges, so nothing is known of its "
                "nodes; expected one of them",
                hint="leave the type out",
            )


def _check_features_of(kind: str, matrix: Any, counts: Mapping[str, int]) -> None:
    """`check_features` whose message names the type, where there are several."""
    try:
        check_features(matrix, counts[kind])
    except GraphError as error:
        if len(counts) == 1:
            raise
        raise GraphError(f"Type `{kind}`: {error.message}", hint=error.hint) from None
