"""Edges of several relations as one CSR over all nodes, with the code of each stored edge.

A relation that only says again, backward, what another one says is recognized and left out, since
every relation is stored both ways anyhow: PyG's `rev_*` are such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._arrays import as_edge_index, as_weights
from scr.graph._edges import compress_edges, edge_keys, rows_of_keys
from scr.graph._relations import Relation


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of one relation, as they were given."""

    sources: NDArray[Any]
    """Numbers within the source type."""
    targets: NDArray[Any]
    weights: NDArray[np.float32] | None
    counts: tuple[int, int]
    """The least numbers of nodes that the two types must have."""


def listed_edges(relation: Relation, edges: Any, weights: Any) -> Edges:
    """Edges of shape (2, edges), pairs, or SciPy sparse as arrays; the relation is for messages."""
    try:
        if sp.issparse(edges):
            listed: Any = sp.coo_array(cast("Any", edges))
            sources, targets, counts = listed.row, listed.col, listed.shape
            if weights is None and np.any(listed.data != 1):
                weights = listed.data
        else:
            sources, targets = as_edge_index(edges)
            counts = tuple(int(ends.max()) + 1 if len(ends) else 0 for ends in (sources, targets))
        checked = None if weights is None else as_weights(weights, len(sources))
    except GraphError as error:
        raise GraphError(f"Relation {relation}: {error.message}", hint=error.hint) from None
    return Edges(sources, targets, checked, counts)


def without_ways_back(
    edges: Mapping[Relation, Edges],
) -> tuple[dict[Relation, Edges], tuple[str, ...]]:
    """Leave out relations that are another one's way back, edge by edge, with a note for each."""
    kept: dict[Relation, Edges] = {}
    notes = []
    for relation, listed in edges.items():
        for other, theirs in kept.items():
            turned = (relation.source, relation.target) == (other.target, other.source)
            if turned and _is_way_back(listed, theirs):
                notes.append(f"left out {relation}, which is the way back of {other}")
                break
        else:
            kept[relation] = listed
    return kept, tuple(notes)


def _is_way_back(edges: Edges, other: Edges) -> bool:
    if not 0 < len(edges.sources) == len(other.sources):
        return False
    if (edges.weights is None) != (other.weights is None):
        return False
    ours = [edges.targets, edges.sources]
    theirs = [other.sources, other.targets]
    if edges.weights is not None and other.weights is not None:
        ours.append(edges.weights)
        theirs.append(other.weights)
    # Weights are sorted by as well, so that repeated edges are compared as a set.
    first, second = np.lexsort(ours[::-1]), np.lexsort(theirs[::-1])
    return all(np.array_equal(a[first], b[second]) for a, b in zip(ours, theirs, strict=True))


def compress_relations(
    edges: Mapping[Relation, Edges],
    counts: Mapping[str, int],
    *,
    self_loops: Literal["drop", "keep"] = "drop",
    duplicates: Literal["merge", "count"] = "merge",
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Sort checked edges of all relations, both ways, into rows over all nodes.

    `counts` are the nodes of each type, in the order of their numbers. Returns the arrays of a
    `Graph`, and what was done, in words.
    """
    *starts, total = np.cumsum([0, *counts.values()]).tolist()
    offsets = dict(zip(counts, starts, strict=True))
    is_weighted = duplicates == "count" or any(each.weights is not None for each in edges.values())
    code_type = np.uint8 if 2 * len(edges) <= 256 else np.uint16
    keys, codes, values, steps = [], [], [], []
    for code, (relation, listed) in enumerate(edges.items()):
        rows = compress_edges(
            listed.sources.astype(np.int64) + offsets[relation.source],
            listed.targets.astype(np.int64) + offsets[relation.target],
            total, undirected=False, weights=listed.weights, self_loops=self_loops,
            duplicates=duplicates,
        )  # fmt: skip
        steps += [f"{relation}: {step}" for step in rows.steps]
        sources = np.repeat(np.arange(total, dtype=np.int64), np.diff(rows.indptr))
        keys += [edge_keys(sources, rows.indices), edge_keys(rows.indices, sources)]
        codes += [np.full(len(sources), each, code_type) for each in (code, code + len(edges))]
        if is_weighted:
            weight = np.ones(len(sources), np.float32) if rows.weights is None else rows.weights
            values += [weight, weight]
    every = np.concatenate(keys)
    keys.clear()
    # Stable: parallel edges of several relations lie in the order of the relations.
    order = np.argsort(every, kind="stable")
    indptr, indices = rows_of_keys(every[order], total)
    arrays = {
        "indptr": indptr,
        "indices": indices,
        "edge_types": np.concatenate(codes)[order],
        "weights": np.concatenate(values)[order] if is_weighted else None,
    }
    steps.append(
        f"stored {len(every) // 2:,} edges of {len(edges)} relations in both directions"
        if len(edges) > 1
        else f"stored {len(every) // 2:,} edges in both directions"
    )
    return arrays, tuple(steps)
