"""Give the nodes of a subgraph numbers of their own, in time that does not grow with the graph.

One array with a slot for each node of the graph serves all subgraphs: a slot holds a base plus the
node's number, and each subgraph has a larger base than the one before. Whatever is below the base
is of an older subgraph, so the array is never cleared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled
from scr.errors import GraphError


class LocalNumbers:
    """Lends slots; as many arrays exist as threads have asked for one at the same time."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._free: deque[tuple[NDArray[np.int64], int]] = deque()

    @contextmanager
    def lend(self) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Slots, all below the base that comes with them."""
        try:
            slots, base = self._free.pop()
        except IndexError:
            slots, base = np.zeros(self._num_nodes, np.int64), 1
        try:
            yield slots, base
        finally:
            # Local numbers are below the number of nodes, so the next base is above them all.
            self._free.append((slots, base + self._num_nodes))


@compiled
def number_nodes(
    found: NDArray[np.int64],
    slots: NDArray[np.int64],
    base: int,
    nodes: NDArray[np.int64],
    count: int,
    local: NDArray[np.int32],
) -> int:
    """Number the nodes that have no number yet, in the order in which they are found.

    Args:
        found: Nodes of the graph, with repetitions.
        slots: As lent, with its `base`.
        base: What is below is of an older subgraph.
        nodes: The nodes by number; extended in place.
        count: How many have a number already.
        local: The number of each found node. Written in place.

    Returns:
        How many have a number now.
    """
    for place in range(len(found)):
        node = found[place]
        slot = slots[node]
        if slot < base:
            slot = base + count
            slots[node] = slot
            nodes[count] = node
            count += 1
        local[place] = slot - base
    return count


def mark_nodes(nodes: NDArray[np.int64], slots: NDArray[np.int64], base: int) -> None:
    """Number all nodes in their order.

    Raises:
        GraphError: A node is named twice.
    """
    repeated = _mark(nodes, slots, base)
    if repeated >= 0:
        raise GraphError(
            f"Node {nodes[repeated]} is named more than once; expected each node once",
            hint="`numpy.unique` makes them distinct",
        )


@compiled
def _mark(nodes: NDArray[np.int64], slots: NDArray[np.int64], base: int) -> int:
    """Returns the place of the first repetition, or -1."""
    for place in range(len(nodes)):
        if slots[nodes[place]] >= base:
            return place
        slots[nodes[place]] = base + place
    return -1
