"""Nodes without features get the mean of the neighbors that have some, type after type.

In the first round every type with an edge to a type with features is filled, in the next one every
type with an edge to those, and so on: authors from their papers, then institutions from authors.
A neighbor that got nothing in its own round does not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, check_memory, process_budget, readable_bytes, resident_bytes
from scr.graph import Graph, select_edges
from scr.propagation import normalize
from scr.propagation.kernel import product
from scr.storage import ranges
from scr.typed_features._fitted import rows_of

_FEWEST_COLUMNS = 8
"""Fewer at once would read every edge for a fraction of a cache line."""


def fill_by_averages(
    graph: Graph,
    matrix: NDArray[np.float32],
    known: Collection[str],
    *,
    memory: str | int = "auto",
    on_progress: OnProgress | None = None,
) -> dict[str, int]:
    """Write the rows of types without features, from the rows of `known` types.

    Equation: x_i = sum_j w_ij x_j / sum_j w_ij, over neighbors j that have features.

    Edges of any relation count, in both directions. Rows that are written must be zero before.

    Returns:
        For each type that was filled, how many of its nodes stay zero.
    """
    width = matrix.shape[1]
    left: dict[str, int] = {}
    has_features = np.zeros((graph.num_nodes, 1), np.float32)
    for kind in known:
        has_features[rows_of(graph, kind)] = 1
    for number, (filled, codes) in enumerate(rounds(graph, known)):
        adjacency = normalize(select_edges(graph, codes), norm="row", direction="out")
        totals = np.zeros_like(has_features)
        product(dataclasses.replace(adjacency, row_scale=None), has_features, totals)
        sums = totals[:, 0]
        inverse = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
        mean = dataclasses.replace(adjacency, row_scale=inverse)
        for first, last in _column_blocks(graph, width, memory):
            block = matrix[:, first:last]
            averages = np.empty(block.shape, np.float32)
            product(mean, block, averages)
            for kind in filled:
                block[rows_of(graph, kind)] = averages[rows_of(graph, kind)]
            if on_progress is not None:
                on_progress(f"Averaging features, round {number + 1}", last, width)
        for kind in filled:
            rows = rows_of(graph, kind)
            has_features[rows] = totals[rows] > 0
            left[kind] = int(np.count_nonzero(totals[rows] == 0))
    unreached = [kind for kind in graph.node_types if kind not in known and kind not in left]
    return left | {kind: graph.node_types[kind] for kind in unreached}


def rounds(graph: Graph, known: Collection[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Types that are filled in each round, and the codes of the edges that bring features."""
    count, done = len(graph.relations), set(known)
    while True:
        # The row of a code is its relation's source, or the target on the way back.
        ends = [(each.source, each.target) for each in graph.relations]
        ends += [(target, source) for source, target in ends]
        codes = [code for code in range(2 * count) if ends[code][0] not in done]
        codes = [code for code in codes if ends[code][1] in done]
        filled = [kind for kind in graph.node_types if kind in {ends[code][0] for code in codes}]
        if not filled:
            return
        yield filled, codes
        done.update(filled)


def _column_blocks(graph: Graph, width: int, memory: str | int) -> list[tuple[int, int]]:
    """Ranges of columns whose averages, for all nodes, fit the memory that is left."""
    budget, resident, per_column = process_budget(memory), resident_bytes(), 4 * graph.num_nodes
    needed = resident + min(width, _FEWEST_COLUMNS) * per_column
    what = f"Averaging features of {graph.num_nodes:,} nodes needs"
    hint = f"use `memory={readable_bytes(needed)}` or more"
    check_memory(what, needed, budget, hint=hint)
    return ranges(width, min(width, (budget - resident) // per_column))
