"""Hops of a graph with all of them in memory, or one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import aligned_empty
from scr.graph import GraphPart
from scr.propagation._config import PropagationConfig
from scr.propagation._plan import fast_block, keeps_some_rows, padded
from scr.propagation._steps import advance, copy_rows, fill_block, unit_rows, walk
from scr.propagation._walks import Subsets, adjacency_of, matrices_of, ways_of
from scr.storage import ranges

if TYPE_CHECKING:
    from scr.graph import Graph


def hops_in_memory(
    graph: Graph,
    config: PropagationConfig,
    source: Any,
    *,
    kept: NDArray[np.int64] | None,
    subsets: Subsets,
    width: int,
    apart: bool,
    threads: int | None,
    on_hop: Callable[[], None] = lambda: None,
) -> NDArray[Any]:
    """All hops of the rows that are kept, shape (rows, matrices, columns).

    Args:
        graph: As for `propagate`, like all that is not named here.
        source: X, as `check_features` returns it.
        width: Most columns that are multiplied together.
        apart: Whether hops of all rows are computed apart from the result as well.
        on_hop: Called after each product.
    """
    rows = graph.num_targets if kept is None else len(kept)
    if apart or keeps_some_rows(graph, subsets, rows):
        width = min(width, fast_block(width, config.dtype))
        array = aligned_empty((rows, matrices_of(config, subsets), source.shape[1]), config.dtype)
        for place, block, hop in each_hop(graph, config, width, source, subsets, threads):
            part = hop[:rows] if kept is None else hop[kept]
            copy_rows(array[:, place, block], part, threads=threads)
            if place:
                on_hop()
    else:
        array = _all_rows(graph, config, width, source, threads, on_hop)
    if config.hop_scale == "unit":
        for place in range(array.shape[1]):
            unit_rows(array[:, place], threads=threads)
    return array


def _all_rows(
    graph: Graph,
    config: PropagationConfig,
    width: int,
    source: Any,
    threads: int | None,
    on_hop: Callable[[], None],
) -> NDArray[Any]:
    """Every hop straight into its place; one block of columns serves as spare."""
    array = aligned_empty((graph.num_nodes, config.matrices, source.shape[1]), config.dtype)
    fill_block(array[:, 0], source, slice(None), threads=threads)
    for way in ways_of(config):
        adjacency = adjacency_of(graph, config, way)
        spare = None
        if adjacency.column_scale is not None:
            spare = aligned_empty((graph.num_nodes, width), config.dtype)
        for block in _blocks(width, array.shape[2]):
            current = array[:, 0, block]
            for place in way.places:
                target = array[:, place, block]
                room = None if spare is None else spare[:, : target.shape[1]]
                advance(adjacency, current, target, room, threads=threads)
                current = target
                on_hop()
    return array


def each_hop(
    graph: Graph,
    config: PropagationConfig,
    width: int,
    source: Any,
    subsets: Subsets,
    threads: int | None,
) -> Iterator[tuple[int, slice, NDArray[Any]]]:
    """Yield every hop of every block of columns, with its place; two matrices take turns.

    Each must be read before the next one is asked for. Of the last hop of a walk, rows of nodes
    that are not of the target type hold anything; of a part of a graph, those that are not needed.
    """
    columns, ways = int(source.shape[1]), ways_of(config, subsets)
    flat = [aligned_empty((graph.num_nodes * padded(width),), config.dtype) for _ in range(2)]

    def filled(block: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        width = block.stop - block.start
        shape = (graph.num_nodes, padded(width))
        current, spare = (each[: math.prod(shape)].reshape(shape) for each in flat)
        fill_block(current[:, :width], source, block, threads=threads)
        current[:, width:] = 0
        return current, spare

    if not ways:
        for block in _blocks(width, columns):
            yield 0, block, filled(block)[0][:, : block.stop - block.start]
    for number, way in enumerate(ways):
        adjacency = adjacency_of(graph, config, way)
        for block in _blocks(width, columns):
            wanted = slice(0, block.stop - block.start)
            current, spare = filled(block)
            if number == 0:
                yield 0, block, current[:, wanted]
            rows = _needed_rows(graph, config.hops)
            hops = walk(adjacency, current, spare, config.hops, threads=threads, rows=rows)
            for place, hop in zip(way.places, hops, strict=True):
                yield place, block, hop[:, wanted]


def _needed_rows(graph: Graph, hops: int) -> list[int]:
    if isinstance(graph, GraphPart):
        return graph.needed_rows(hops)
    return [graph.num_nodes] * (hops - 1) + [graph.num_targets]


def _blocks(width: int, columns: int) -> list[slice]:
    return [slice(*part) for part in ranges(columns, max(width, 1))]
