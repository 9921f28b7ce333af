"""The edges of one subset of relations: how many there are, and a file of nothing but them.

A walk on disk streams its edges once per hop and block of columns. Written out once, those of a
subset are streamed like those of any graph, so no subset has to fit in memory.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.graph import ONE_RELATION, find_relation
from scr.propagation._subsets import Subset
from scr.storage import as_bytes, in_memory, stream_rows

if TYPE_CHECKING:
    from scr.graph import Graph

STEP_EDGES = 1 << 21
"""Edges looked at together."""


def edges_by_code(graph: Graph) -> NDArray[np.int64]:
    """Stored edges of each code (`scr.graph._relations`)."""
    counts = np.zeros(2 * len(graph.relations), dtype=np.int64)
    if graph.edge_types is None:
        counts[0] = graph.num_edges
        return counts
    for (codes,) in stream_rows([np.asarray(graph.edge_types)], _steps(graph)):
        counts += np.bincount(codes, minlength=len(counts))
    return counts


def codes_of(graph: Graph, subset: Subset) -> list[int]:
    """Codes of a subset's edges, both ways."""
    numbers = [find_relation(graph.relations, relation) for relation in subset]
    return [*numbers, *(number + len(graph.relations) for number in numbers)]


def working_bytes(graph: Graph) -> int:
    """Memory that `write_subset` takes: what is read, twice, and what is chosen and counted."""
    if graph.edge_types is None:
        return 0
    item = graph.indices.dtype.itemsize + (0 if graph.weights is None else 4)
    read = 2 * (item + graph.edge_types.dtype.itemsize)
    return int((read + item + 9) * min(STEP_EDGES, graph.num_edges) + 16 * graph.num_nodes)


def subset_bytes(graph: Graph, edges: int) -> int:
    """Disk, or memory, of so many edges."""
    return edges * (graph.indices.dtype.itemsize + (0 if graph.weights is None else 4))


def write_subset(graph: Graph, subset: Subset, folder: Path, name: str) -> Graph:
    """As `graph.only`, with the edges in files of a folder instead of memory.

    Files of the same name are replaced; an earlier graph that reads them must be done with.
    """
    if graph.edge_types is None:
        return graph
    allowed = np.zeros(2 * len(graph.relations), dtype=np.bool_)
    allowed[codes_of(graph, subset)] = True
    arrays: dict[str, NDArray[Any]] = {"indices": np.asarray(graph.indices)}
    if graph.weights is not None:
        arrays["weights"] = np.asarray(graph.weights, dtype=np.float32)
    files = {what: folder / f"{name}-{what}" for what in arrays}
    for file in files.values():
        file.unlink(missing_ok=True)
    bounds = in_memory(np.asarray(graph.indptr))
    indptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    row, taken = 1, 0
    streams = {what: file.open("wb") for what, file in files.items()}
    try:
        steps = _steps(graph)
        read = stream_rows([np.asarray(graph.edge_types), *arrays.values()], steps)
        for (start, stop), (codes, *values) in zip(steps, read, strict=True):
            chosen = allowed[codes]
            # Rows that end within this step: so many chosen edges lie before their end.
            last = int(np.searchsorted(bounds, stop, side="right"))
            before = np.concatenate([[0], np.cumsum(chosen)])
            indptr[row:last] = taken + before[bounds[row:last] - start]
            row, taken = max(row, last), taken + int(before[-1])
            for stream, value in zip(streams.values(), values, strict=True):
                stream.write(as_bytes(value[chosen]))
    finally:
        for stream in streams.values():
            stream.close()
    indptr[row:] = taken
    made = {what: _mapped(files[what], arrays[what].dtype, taken) for what in arrays}
    return dataclasses.replace(
        graph, indptr=indptr, indices=made["indices"], weights=made.get("weights"),
        edge_types=None, relations=ONE_RELATION, directed=False, path=None,
    )  # fmt: skip


def _steps(graph: Graph) -> list[tuple[int, int]]:
    count = graph.num_edges
    return [(at, min(at + STEP_EDGES, count)) for at in range(0, count, STEP_EDGES)]


def _mapped(file: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    if count == 0:  # nothing can be mapped
        return np.zeros(0, dtype)
    return np.memmap(file, dtype=dtype, mode="r", shape=(count,))
