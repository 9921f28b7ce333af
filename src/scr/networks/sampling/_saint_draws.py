"""Which nodes a GraphSAINT subgraph has: the compiled draws of its three samplers.

Every draw is a function of a key and of its own number, so threads share the draws in any way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import below, compiled, derived_key, uniform


@compiled
def node_probabilities(
    indptr: NDArray[np.int64], indices: NDArray[Any], received: NDArray[np.int64],
    weights: NDArray[np.float64], start: int, stop: int,
) -> None:  # fmt: skip
    """Write the squared norm of each column of (D + I)^-1 (A + I), which is the node sampler's P.

    The paper leaves open whether its matrix has self-loops; with them nodes without neighbors are
    drawn too.

    Args:
        indptr: Row offsets of the nodes that receive from each node.
        indices: These nodes.
        received: Row offsets of A itself, whose differences are D.
        weights: Written in place.
        start: First node.
        stop: Node after the last.
    """
    for node in range(start, stop):
        total = 1.0 / (received[node + 1] - received[node] + 1.0) ** 2
        for edge in range(indptr[node], indptr[node + 1]):
            other = indices[edge]
            total += 1.0 / (received[other + 1] - received[other] + 1.0) ** 2
        weights[node] = total


@compiled
def draw_nodes(
    cumulative: NDArray[np.float64], key: np.uint64, drawn: NDArray[np.int64],
    start: int, stop: int,
) -> None:  # fmt: skip
    """Nodes with replacement, each with the chance that it has in the running sum."""
    nodes = len(cumulative)
    for place in range(start, stop):
        target = uniform(key, place) * cumulative[nodes - 1]
        found = np.searchsorted(cumulative, target, side="right")
        drawn[place] = min(found, nodes - 1)  # rounding may reach the end


@compiled
def draw_edges(
    indptr: NDArray[np.int64], indices: NDArray[Any], connected: NDArray[np.int64],
    key: np.uint64, drawn: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    """Ends of edges with replacement, each edge {u, v} with a chance in 1/deg(u) + 1/deg(v).

    That is the chance to come from a uniform node to a uniform neighbor, in either direction; so
    no table of edges is needed. Of a directed edge, only the end that receives is begun from.
    """
    for place in range(start, stop):
        node = connected[below(key, 2 * place, len(connected))]
        degree = indptr[node + 1] - indptr[node]
        drawn[2 * place] = node
        drawn[2 * place + 1] = indices[indptr[node] + below(key, 2 * place + 1, degree)]


@compiled
def draw_walks(
    indptr: NDArray[np.int64], indices: NDArray[Any], length: int, key: np.uint64,
    drawn: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    """Nodes of walks from uniform roots; a walk that cannot go on stays where it is."""
    for place in range(start, stop):
        walk = derived_key(key, place)
        node = np.int64(below(walk, 0, len(indptr) - 1))
        drawn[place * (length + 1)] = node
        for turn in range(1, length + 1):
            degree = indptr[node + 1] - indptr[node]
            if degree > 0:
                node = np.int64(indices[indptr[node] + below(walk, turn, degree)])
            drawn[place * (length + 1) + turn] = node
