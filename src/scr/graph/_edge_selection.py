"""Cut a graph by the kinds of its edges, for subsets of relations and steps of metapaths.

The edges that are selected are held in memory or, where they are too many, in files: those are
streamed like the edges of any graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scr.graph._relations import ONE_RELATION, find_relation
from scr.storage import as_bytes, in_memory, ranges, stream_rows

if TYPE_CHECKING:
    from scr.graph._graph import Graph

STEP_EDGES = 1 << 21
"""Edges looked at together."""


def relation_codes(graph: Graph, relations: Iterable[Any]) -> list[int]:
    """Codes of the edges of some relations, both ways."""
    numbers = [find_relation(graph.relations, relation) for relation in relations]
    return [*numbers, *(number + len(graph.relations) for number in numbers)]


def edges_by_code(graph: Graph) -> NDArray[np.int64]:
    """Stored edges of each code (`_relations.py`)."""
    counts = np.zeros(2 * len(graph.relations), dtype=np.int64)
    if graph.edge_types is None:
        counts[0] = graph.num_edges
        return counts
    steps = ranges(graph.num_edges, STEP_EDGES)
    for (codes,) in stream_rows([np.asarray(graph.edge_types)], steps):
        counts += np.bincount(codes, minlength=len(counts))
    return counts


def edge_bytes(graph: Graph, edges: int) -> int:
    """Disk, or memory, of so many edges."""
    return int(edges * (graph.indices.dtype.itemsize + (0 if graph.weights is None else 4)))


def selection_bytes(graph: Graph) -> int:
    """Memory that `select_edges` takes with files: what is read, twice, chosen and counted."""
    if graph.edge_types is None:
        return 0
    step = min(STEP_EDGES, graph.num_edges)
    codes = 2 * graph.edge_types.dtype.itemsize * step
    return int(3 * edge_bytes(graph, step) + codes + 9 * step + 16 * graph.num_nodes)


def select_edges(graph: Graph, codes: Iterable[int], files: Path | None = None) -> Graph:
    """The graph of all nodes with the edges of some codes only, which then count as alike.

    It is directed where some code is there without its way back. A graph without edge codes has a
    single relation. With `files`, a path that their names begin with, the edges are put into files
    instead of memory; an earlier graph that reads files of these names must be done with.
    """
    if graph.edge_types is None:
        return graph
    count, wanted = len(graph.relations), sorted(set(codes))
    both = all((code + count) % (2 * count) in wanted for code in wanted)
    allowed = np.zeros(2 * count, dtype=np.bool_)
    allowed[wanted] = True
    total = int(edges_by_code(graph)[wanted].sum())
    arrays = {"indices": np.asarray(graph.indices)}
    if graph.weights is not None:
        arrays["weights"] = np.asarray(graph.weights, dtype=np.float32)
    selected: dict[str, Any] = {}
    if files is None:
        selected = {name: np.empty(total, array.dtype) for name, array in arrays.items()}
    bounds = in_memory(np.asarray(graph.indptr))
    indptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    row, taken = 1, 0
    steps = ranges(graph.num_edges, STEP_EDGES)
    with ExitStack() as stack:
        streams = {} if files is None else _new_files(files, arrays, stack)
        read = stream_rows([np.asarray(graph.edge_types), *arrays.values()], steps)
        for (start, stop), (kinds, *values) in zip(steps, read, strict=True):
            chosen = allowed[kinds]
            # Rows that end within this step: so many chosen edges lie before their end.
            last = int(np.searchsorted(bounds, stop, side="right"))
            before = np.concatenate([[0], np.cumsum(chosen)])
            indptr[row:last] = taken + before[bounds[row:last] - start]
            for name, value in zip(arrays, values, strict=True):
                if files is None:
                    selected[name][taken : taken + int(before[-1])] = value[chosen]
                else:
                    streams[name].write(as_bytes(value[chosen]))
            row, taken = max(row, last), taken + int(before[-1])
    indptr[row:] = taken
    for name, stream in streams.items():
        # A file of no bytes cannot be mapped.
        kind = arrays[name].dtype
        selected[name] = np.memmap(stream.name, kind, "r") if total else np.zeros(0, kind)
    return dataclasses.replace(
        graph, **selected, indptr=indptr, edge_types=None, relations=ONE_RELATION,
        directed=not both, path=None, source=None,
    )  # fmt: skip


def _new_files(files: Path, names: Iterable[str], stack: ExitStack) -> dict[str, BinaryIO]:
    streams: dict[str, BinaryIO] = {}
    for name in names:
        file = files.with_name(f"{files.name}-{name}")
        file.unlink(missing_ok=True)  # a new file: the old one may still be mapped
        streams[name] = stack.enter_context(file.open("wb"))
    return streams
