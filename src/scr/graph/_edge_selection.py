"""Cut a graph by the kinds of its edges, for subsets of relations and steps of metapaths."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled
from scr.graph._relations import ONE_RELATION

if TYPE_CHECKING:
    from scr.graph._graph import Graph


def select_edges(graph: Graph, codes: Iterable[int]) -> Graph:
    """The graph of all nodes with the edges of some codes only.

    Args:
        graph: A graph with edge codes; one without them has a single relation.
        codes: Relation numbers, plus the number of relations for the way back.

    Returns:
        A graph of the same nodes, whose edges count as alike; directed where some code is there
        without its way back.
    """
    count = len(graph.relations)
    wanted = sorted(set(codes))
    both = all((code + count) % (2 * count) in wanted for code in wanted)
    if graph.edge_types is None:
        return graph
    allowed = np.zeros(2 * count, dtype=np.bool_)
    allowed[wanted] = True
    indptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    rows = np.asarray(graph.indptr), np.asarray(graph.edge_types)
    _count_selected(*rows, allowed, indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(int(indptr[-1]), dtype=graph.indices.dtype)
    _take_selected(*rows, allowed, np.asarray(graph.indices), indptr, indices)
    weights = None
    if graph.weights is not None:
        weights = np.empty(len(indices), dtype=np.float32)
        _take_selected(*rows, allowed, np.asarray(graph.weights), indptr, weights)
    return dataclasses.replace(
        graph, indptr=indptr, indices=indices, weights=weights, edge_types=None,
        relations=ONE_RELATION, directed=not both, path=None, source=None,
    )  # fmt: skip


@compiled
def _count_selected(
    indptr: NDArray[np.int64],
    codes: NDArray[Any],
    allowed: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    """counts[i + 1] becomes the number of selected edges of row i."""
    for row in range(len(indptr) - 1):
        selected = 0
        for edge in range(indptr[row], indptr[row + 1]):
            if allowed[codes[edge]]:
                selected += 1
        counts[row + 1] = selected


@compiled
def _take_selected(
    indptr: NDArray[np.int64],
    codes: NDArray[Any],
    allowed: NDArray[np.bool_],
    values: NDArray[Any],
    starts: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Copy the values of selected edges, row by row."""
    for row in range(len(indptr) - 1):
        position = starts[row]
        for edge in range(indptr[row], indptr[row + 1]):
            if allowed[codes[edge]]:
                out[position] = values[edge]
                position += 1
