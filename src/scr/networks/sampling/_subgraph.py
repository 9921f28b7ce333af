"""The subgraph that some nodes induce: all edges of the graph between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled, ends_of, read_only, run_ranges
from scr.graph import Graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_nodes
from scr.networks.sampling._local_numbers import LocalNumbers, mark_nodes


def induced_subgraph(
    graph: Graph,
    nodes: Any,
    *,
    threads: int | None = None,
    numbers: LocalNumbers | None = None,
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
