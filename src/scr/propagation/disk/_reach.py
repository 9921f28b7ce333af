"""Which rows of the last hops are needed where few rows are kept, and along which edges.

Kept rows of the last hop are sums of rows of the hop before; all others of that hop need not be
computed, and so on backwards. As long as the rows of a hop have few edges, these are held in
memory, with neighbors numbered by their places among the rows of the hop before: such a hop takes
no pass over the edges on disk. The first hop of which some rows are left out still takes one, and
the hops before it are computed of all rows.

Where 3% of the rows are kept and have ten edges each, a third of the rows of the hop before that
are needed at most: less is computed, and its matrix takes less memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.propagation._normalization import CHUNK_ROWS, NormalizedAdjacency
from scr.propagation.disk._edge_chunks import edge_chunks, streamed_edges
from scr.propagation.kernel import _rows
from scr.propagation.kernel._chosen_rows import copy_edges
from scr.propagation.kernel._row_sets import Rows, RowSet
from scr.propagation.kernel._rows import RowArrays, scale_rows, sum_ranges
from scr.storage import ReadBuffers, ranges, stream_rows

NODES_PER_EDGE = 2
"""Edges of all hops together are held up to one for so many nodes: 2 bytes for each node, where a
column of both matrices in float16 takes 4."""
EDGES_PER_ROW = 3
"""As many edges take as much memory as the bounds and scale of a row."""


class ReachedHop(NamedTuple):
    """A hop of which some rows are computed."""

    rows: Rows
    kept: NDArray[np.int64] | None
    """Places of the kept rows among these; none: they are the same."""
    edges: NormalizedAdjacency | None = None
    """To these from the rows of the hop before, without scales of columns; none: they are too many
    to be held, and all rows of the hop before are needed."""
    before: RowSet | None = None
    """Rows of the hop before; none: it has all."""


def reached_hops(
    adjacency: NormalizedAdjacency,
    kept: NDArray[np.int64],
    hops: int,
    *,
    chunk_edges: int | None = None,
    threads: int | None = None,
    memory: ReadBuffers | None = None,
) -> Mapping[int, ReachedHop]:
    """What is needed of each hop of a walk, so that the kept rows of all of them can be computed.

    Hops are numbered from 1 on. Of a hop that is not named, all rows are needed.

    Args:
        adjacency: Along which the walk goes; its edges may be a memory map.
        kept: Numbers of the rows, sorted.
        hops: Of the walk.
        chunk_edges: Most edges that are read at once.
        threads: Cores to use.
        memory: For what is read.
    """
    nodes, found = adjacency.num_nodes, dict[int, ReachedHop]()
    rows, places, left = RowSet(nodes, kept), None, nodes // NODES_PER_EDGE
    for hop in range(hops, 0, -1):
        cost = _cost(adjacency.indptr, rows, left, self_loops=adjacency.self_loops)
        if cost is None:
            found[hop] = ReachedHop(rows, places)
            break
        left -= cost
        edges = _edges_of(adjacency, rows, chunk_edges, threads, memory)
        if hop == 1:
            found[hop] = ReachedHop(rows, places, edges)
            break
        before = RowSet(nodes, kept, edges.indices)
        before.places(edges.indices, threads, out=edges.indices)
        found[hop] = ReachedHop(rows, places, edges, before)
        rows, places = before, before.places(kept, threads)
    return found


def most_rows(
    indptr: NDArray[np.int64], kept: NDArray[np.int64], *, self_loops: bool
) -> int | None:
    """Rows that the kept ones are computed from in one hop, at most; none: all of them.

    `indptr` may be a memory map.
    """
    nodes = len(indptr) - 1
    cost = _cost(indptr, RowSet(nodes, kept), nodes // NODES_PER_EDGE, self_loops=self_loops)
    more = (EDGES_PER_ROW + self_loops - 1) * len(kept)
    return None if cost is None else min(cost - more, nodes)


def _cost(indptr: NDArray[np.int64], rows: RowSet, most: int, *, self_loops: bool) -> int | None:
    """What holding the edges of some rows takes, counted in edges; none if they are not held."""
    cost, longest, at = (EDGES_PER_ROW + self_loops) * len(rows), 0, 0
    if cost > most:
        return None
    parts = [(first, last + 1) for first, last in ranges(rows.count, CHUNK_ROWS)]
    for (bounds,) in stream_rows([indptr], parts):
        some = rows.between(at, at + len(bounds) - 1) - at
        lengths = bounds[some + 1] - bounds[some]
        cost, longest = cost + int(lengths.sum()), max(longest, int(lengths.max(initial=0)))
        at += len(bounds) - 1
    # A row that is cut into pieces is added to itself after all of them, not with the last.
    is_cut = self_loops and longest > _rows.HUB_EDGES
    return None if is_cut or cost > most else cost


def reach_bytes(nodes: int, kept: int, hops: int, edge_bytes: int) -> int:
    """Most memory of `reached_hops`, with so many bytes for each edge."""
    return nodes // NODES_PER_EDGE * edge_bytes + hops * (RowSet.bytes(nodes) + 8 * kept)


def product_along_held(
    edges: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """As `kernel.product`, for edges that are held.

    Never by tiles: a row's edge to itself is its last one, and sorting would move it.
    """
    arrays = RowArrays(edges.indices, edges.weights, scaled, out, row_scale=edges.row_scale)
    return sum_ranges(edges.indptr, arrays, threads)


def scale_reached(
    hop: NDArray[Any], scale: NDArray[np.float32] | None, rows: RowSet | None, threads: int | None
) -> None:
    """Multiply the rows of a hop, which are those of a set or all, by their scales, in place."""
    if scale is None:
        return
    if rows is None:
        scale_rows(hop, scale, hop, threads=threads)
        return
    begin = 0
    for part in ranges(rows.count, CHUNK_ROWS):
        some = rows.between(*part)
        here = hop[begin : begin + len(some)]
        scale_rows(here, scale[some], here, threads=threads)
        begin += len(some)


def _edges_of(
    adjacency: NormalizedAdjacency,
    rows: RowSet,
    chunk_edges: int | None,
    threads: int | None,
    memory: ReadBuffers | None,
) -> NormalizedAdjacency:
    """The edges of some rows; an edge of each row to itself is its last one."""
    indptr, own = adjacency.indptr, adjacency.self_loops
    bounds = np.zeros(len(rows) + 1, np.int64)
    at = 1
    for part in ranges(rows.count, CHUNK_ROWS):
        some = rows.between(*part)
        bounds[at : at + len(some)] = indptr[some + 1] - indptr[some] + own
        at += len(some)
    np.cumsum(bounds, out=bounds)
    neighbors = np.empty(int(bounds[-1]), adjacency.indices.dtype)
    weights = None if adjacency.weights is None else np.ones(len(neighbors), np.float32)
    chunks = edge_chunks(indptr, chunk_edges, rows)
    with closing(streamed_edges(adjacency, chunks, memory)) as stream:
        for chunk, indices, values in stream:
            some = rows.between(chunk.first, chunk.last)
            first, last = rows.places(np.array(chunk[:2]), threads=1)
            near = bounds[first : last + 1]
            copy_edges(indptr, chunk, some, near, indices, neighbors, threads)
            if values is not None and weights is not None:
                copy_edges(indptr, chunk, some, near, values, weights, threads)
            if own:
                neighbors[near[1:] - 1] = some
    scale = None if adjacency.row_scale is None else rows.take(adjacency.row_scale, threads)
    return replace(
        adjacency, indptr=bounds, indices=neighbors, weights=weights, row_scale=scale,
        column_scale=None, self_loops=False,
    )  # fmt: skip
