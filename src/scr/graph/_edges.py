"""From a list of edges to compressed sparse rows (CSR), the form that every later step reads.

An edge (i, j) becomes one 64-bit key with i in the high half and j in the low half. Sorting the
keys sorts the edges by row and then by column, equal neighbors are duplicates, and NumPy's
vectorised sort of plain integers is several times faster than sorting pairs.

Reads edge lists, writes `CompressedEdges`: offsets, targets, weights and a text for each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError

_KEY_BITS = 32
"""Bits of a key for the target; node numbers therefore stay below 2^31."""


@dataclass(frozen=True)
class CompressedEdges:
    """Edges by row: the targets of node i are ``indices[indptr[i]:indptr[i + 1]]``, ascending."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    steps: tuple[str, ...]


def compress_edges(
    sources: NDArray[Any],
    targets: NDArray[Any],
    num_nodes: int,
    *,
    weights: NDArray[np.float32] | None = None,
    undirected: bool = True,
    self_loops: Literal["drop", "keep"] = "drop",
    duplicates: Literal["merge", "count"] = "merge",
) -> CompressedEdges:
    """Sort edges into rows, with duplicates merged and, if asked, both directions stored.

    Weights of duplicates in one direction are summed; ``count`` makes how often an unweighted edge
    was listed its weight. Where both directions of an undirected edge are listed with weights, the
    larger one counts, so that a list which already holds both directions comes out unchanged.

    Raises:
        GraphError: An edge points outside the graph, or the graph has too many nodes.
    """
    check_edges(sources, targets, num_nodes)
    loops = 0
    if weights is None and duplicates == "count":
        weights = np.ones(len(sources), np.float32)
    if self_loops == "drop":
        kept = sources != targets
        loops = len(kept) - int(np.count_nonzero(kept))
        if loops:
            sources, targets = sources[kept], targets[kept]
            weights = None if weights is None else weights[kept]
    listed = len(sources)
    keys, weights = _merge(edge_keys(sources, targets), weights, "sum")
    distinct = len(keys)
    if undirected:
        both = np.concatenate([keys, edge_keys(keys & (2**_KEY_BITS - 1), keys >> _KEY_BITS)])
        doubled = None if weights is None else np.concatenate([weights, weights])
        keys, weights = _merge(both, doubled, "max")
    steps = edge_steps(loops, listed, distinct, len(keys), is_weighted=weights is not None)
    return CompressedEdges(*rows_of_keys(keys, num_nodes), weights, steps)


def edge_steps(
    loops: int, listed: int, distinct: int, stored: int, *, is_weighted: bool = False
) -> tuple[str, ...]:
    """What was done to a list of edges, in words.

    Of those `listed` beside the dropped loops, so many were `distinct`, and so many directions are
    `stored`.
    """
    steps = [f"dropped {loops:,} self-loops"] if loops else []
    if distinct < listed:
        how = "summed the weights of" if is_weighted else "merged"
        steps.append(f"{how} {listed - distinct:,} duplicate edges")
    if stored > distinct:
        steps.append(f"symmetrized: {distinct:,} edges became {stored:,} stored directions")
    return tuple(steps)


def check_edges(sources: NDArray[Any], targets: NDArray[Any], num_nodes: int) -> None:
    """Raise a `GraphError` that names the first edge which points outside the graph."""
    check_node_count(num_nodes)
    for ends in (sources, targets):
        if len(ends) == 0 or (ends.min() >= 0 and ends.max() < num_nodes):
            continue
        first = int(np.flatnonzero((ends < 0) | (ends >= num_nodes))[0])
        raise outside_the_graph(first, int(sources[first]), int(targets[first]), num_nodes)


def check_node_count(num_nodes: int) -> None:
    """Raise a `GraphError` if there are more nodes than 31 bits can number."""
    if num_nodes > np.iinfo(np.int32).max:
        raise GraphError(f"The graph has {num_nodes:,} nodes; expected at most 2,147,483,647")


def outside_the_graph(edge: int, source: int, target: int, num_nodes: int) -> GraphError:
    """The error that names an edge which points outside the graph."""
    return GraphError(
        f"Edge {edge:,} goes from node {source} to node {target}, outside the graph; expected "
        f"node numbers from 0 to {num_nodes - 1}",
        hint="check that features and labels have a row for every node, and that edges count "
        "nodes from 0",
    )


def edge_keys(sources: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.int64]:
    """One number per edge, which sorts by source and then by target."""
    keys = sources.astype(np.int64)
    keys <<= _KEY_BITS
    keys |= targets.astype(np.int64, copy=False)  # NumPy has no common type with uint64
    return keys


def _merge(
    keys: NDArray[np.int64], weights: NDArray[np.float32] | None, rule: Literal["sum", "max"]
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Sort keys and keep one of each; their weights are combined by the rule."""
    if weights is None:
        keys = np.sort(keys)
    else:
        # Stable, so that equal edges are summed in the order listed: the same list, the same bits.
        order = np.argsort(keys, kind="stable")
        keys, weights = keys[order], weights[order]
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    if is_first.all():
        return keys, weights
    if weights is not None:
        combine = np.add if rule == "sum" else np.maximum
        weights = combine.reduceat(weights, np.flatnonzero(is_first))
    return keys[is_first], weights


def rows_of_keys(
    keys: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and targets of the rows of sorted keys."""
    indptr = np.zeros(num_nodes + 1, np.int64)
    if len(keys) == 0:
        return indptr, np.zeros(0, np.int32)  # untouched zeros take no memory
    rows = keys >> _KEY_BITS
    np.cumsum(np.bincount(rows, minlength=num_nodes), out=indptr[1:])
    return indptr, (keys & (2**_KEY_BITS - 1)).astype(np.int32)
