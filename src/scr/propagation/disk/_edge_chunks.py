"""Multiply by an adjacency that stays on disk: its edges come by, chunk after chunk, once per hop.

A chunk holds whole rows, or whole pieces of a hub's row that alone is longer than a chunk. The
next one is read by a thread while the cores work on this one. Edges that are in memory already
are not copied, and of some rows only, stretches without any of them are not read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import cut_rows
from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel import _rows
from scr.propagation.kernel._chosen_rows import product_of_chosen_rows
from scr.propagation.kernel._nonzero_rows import product_rows_of_nonzero
from scr.propagation.kernel._product import product_rows
from scr.propagation.kernel._row_sets import Rows
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, hub_pieces
from scr.storage import ReadBuffers, ranges, stream_rows

CHUNK_EDGES = 1 << 24
"""Edges per chunk: 64 MiB of indices, read in the time that a core takes to use them up."""
CHUNK_ROWS = 1 << 22
"""Most rows per chunk: rows without edges cost memory too."""


GAP_EDGES = 1 << 18
"""Edges between two chosen rows from which on they are read apart: a megabyte takes as long to read
as a request."""


def edge_chunks(
    indptr: NDArray[np.int64], chunk_edges: int | None = None, rows: Rows | None = None
) -> list[EdgeChunk]:
    """Cut rows so that no chunk holds more edges than given, or than a piece of a hub has.

    With `rows`, chunks hold all edges of these, and few others.
    """
    most = max(CHUNK_EDGES if chunk_edges is None else chunk_edges, _rows.HUB_EDGES)
    step = most // _rows.HUB_EDGES * _rows.HUB_EDGES
    chunks = []
    for begin, end in _stretches(indptr, rows):
        for first, last in cut_rows(indptr, begin, end, edges=most, rows=CHUNK_ROWS):
            start, stop = int(indptr[first]), int(indptr[last])
            if stop - start <= most:
                chunks.append(EdgeChunk(first, last, start, stop))
            else:
                hub = ((at, min(at + step, stop)) for at in range(start, stop, step))
                chunks += [EdgeChunk(first, last, *part) for part in hub]
    return chunks


def _stretches(indptr: NDArray[np.int64], rows: Rows | None) -> Iterator[tuple[int, int]]:
    """Ranges of rows that hold all of those that are needed, without long gaps."""
    if rows is None:
        yield 0, len(indptr) - 1
        return
    for part in ranges(rows.count, CHUNK_ROWS):
        some = rows.between(*part)
        gaps = indptr[some[1:]] - indptr[some[:-1] + 1] > GAP_EDGES
        for near in np.split(some, np.flatnonzero(gaps) + 1):
            if len(near):
                yield int(near[0]), int(near[-1]) + 1


def product_by_chunks(
    adjacency: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    chunks: list[EdgeChunk],
    threads: int | None = None,
    on_rows: Callable[[NDArray[Any]], None] | None = None,
    on_edges: Callable[[int], None] | None = None,
    nonzero: NDArray[np.uint8] | None = None,
    rows: Rows | None = None,
    memory: ReadBuffers | None = None,
) -> bool:
    """As `kernel.product`, to the last bit, with only a chunk of the edges in memory.

    Edges may be memory maps, which stay untouched.

    Args:
        chunks: What `edge_chunks` made of the adjacency, and of `rows`.
        on_rows: Called with rows of `out` as soon as they are finished, from the first row on.
        on_edges: Called with how many edges were gone through.
        nonzero: Bits of the rows of `scaled` that are not zero (`nonzero_bits`); edges to other
            rows are left out.
        rows: The only rows that are needed; `out` has just these. Not with `nonzero` or `on_rows`.
        memory: For the chunks, where several products follow each other.
    """
    multiply: Callable[..., bool] = product_rows
    if nonzero is not None:
        multiply = functools.partial(product_rows_of_nonzero, nonzero=nonzero)
    indptr, scale, own = adjacency.indptr, adjacency.row_scale, adjacency.self_loops
    pieces: list[NDArray[np.float32]] = []
    fits, target, begin = True, out, 0
    with closing(streamed_edges(adjacency, chunks, memory)) as stream:
        for chunk, indices, weights in stream:
            if rows is not None:
                chosen = rows.between(chunk.first, chunk.last)
                target = out[begin : begin + len(chosen)]
                multiply = functools.partial(product_of_chosen_rows, rows=chosen)
            arrays = RowArrays(indices, weights, scaled, target, chunk.start, scale, own)
            end = int(indptr[chunk.last])
            if (chunk.start, chunk.stop) == (indptr[chunk.first], end):
                fits &= multiply(indptr, chunk, arrays, threads)
            elif target.size:
                # A part of a hub's row, cut where its sum is cut in memory too.
                pieces += hub_pieces(arrays, chunk.start, chunk.stop, threads)
                if chunk.stop == end:
                    fits &= arrays.finish(chunk.first, pieces, None if rows is None else 0)
                    pieces.clear()
            if rows is not None and chunk.stop == end:
                begin += len(target)
            if on_rows is not None and not pieces:
                on_rows(out[chunk.first : chunk.last])
            if on_edges is not None:
                on_edges(chunk.stop - chunk.start)
    return fits


def streamed_edges(
    adjacency: NormalizedAdjacency, chunks: list[EdgeChunk], memory: ReadBuffers | None = None
) -> Generator[tuple[EdgeChunk, NDArray[Any], NDArray[np.float32] | None]]:
    """Each chunk with its neighbors and weights, which are good until the next is asked for."""
    stored = [array for array in (adjacency.indices, adjacency.weights) if array is not None]
    parts = [(chunk.start, chunk.stop) for chunk in chunks]
    with closing(stream_rows(stored, parts, memory)) as stream:
        for chunk, (indices, *rest) in zip(chunks, stream, strict=True):
            yield chunk, indices, rest[0] if rest else None
