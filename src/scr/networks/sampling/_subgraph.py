"""The subgraph that some nodes induce, and numbers of its own for the nodes of any subgraph.

One array with a slot for each node of the graph serves all subgraphs: a slot holds a base plus the
node's number, and each subgraph has a larger base than the one before. Whatever is below the base
is of an older subgraph, so the array is never cleared, and a subgraph takes time that does not grow
with the graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled, ends_of, read_only, run_ranges
from scr.errors import GraphError
from scr.graph import Graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_nodes


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
    found: NDArray[np.int64], slots: NDArray[np.int64], base: int, nodes: NDArray[np.int64],
    count: int, local: NDArray[np.int32],
) -> int:  # fmt: skip
    """Number the nodes that have no number yet, in the order in which they are found.

    Found nodes may repeat; slots are as lent, with their base. `nodes`, by number, `count` of them
    so far, are extended in place, and the number of each found node is written to `local`. Returns
    how many nodes have a number now.
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
    """Number all nodes in their order; a node that is named twice is refused."""
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


def induced_subgraph(
    graph: Graph, nodes: Any, *, threads: int | None = None, numbers: LocalNumbers | None = None
) -> SubgraphBatch:
    """Some nodes, in the order in which they are given, and the edges between them.

    Args:
        graph: Read by row: row i lists the nodes that node i receives from.
        nodes: Distinct node numbers; all of them count as seeds.
        threads: Cores to use; none: as many as numba may use.
        numbers: Scratch of an earlier call on the same graph; without it one array with a number
            for each node of the graph is made and forgotten.

    Raises:
        GraphError: A node is not in the graph, or is named twice.
    """
    chosen = check_nodes(nodes, graph.num_nodes)
    indptr, indices = read_only(graph.indptr), read_only(graph.indices)
    numbers = LocalNumbers(graph.num_nodes) if numbers is None else numbers
    work = ends_of(indptr[chosen + 1] - indptr[chosen])
    with numbers.lend() as (slots, base):
        mark_nodes(chosen, slots, base)
        counts = np.empty(len(chosen), np.int64)
        read = (indptr, indices, chosen, slots, base)
        run_ranges(_count_edges, work, *read, counts, threads=threads)
        ends = ends_of(counts)
        local, edges = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.int64)
        run_ranges(_fill_edges, work, *read, ends, local, edges, threads=threads)
    return SubgraphBatch(
        nodes=chosen, indptr=ends, indices=local, edges=edges, num_seeds=len(chosen)
    )


@compiled
def _count_edges(
    indptr: NDArray[np.int64], indices: NDArray[Any], nodes: NDArray[np.int64],
    slots: NDArray[np.int64], base: int, counts: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    for place in range(start, stop):
        node, count = nodes[place], 0
        for edge in range(indptr[node], indptr[node + 1]):
            count += slots[indices[edge]] >= base
        counts[place] = count


@compiled
def _fill_edges(
    indptr: NDArray[np.int64], indices: NDArray[Any], nodes: NDArray[np.int64],
    slots: NDArray[np.int64], base: int, ends: NDArray[np.int64], local: NDArray[np.int32],
    edges: NDArray[np.int64], start: int, stop: int,
) -> None:  # fmt: skip
    for place in range(start, stop):
        node, out = nodes[place], ends[place]
        for edge in range(indptr[node], indptr[node + 1]):
            slot = slots[indices[edge]]
            if slot >= base:
                local[out] = slot - base
                edges[out] = edge
                out += 1
