"""The product of a normalized adjacency with a dense matrix, on all cores.

The compiled code releases Python's lock, so plain threads run it: no threading layer to clash with
torch's, and safe after `fork`. It is cached on disk; later processes only load it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import default_threads
from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel._rows import EdgeChunk, RowArrays, sum_ranges
from scr.propagation.kernel._tiles import product_by_tiles, tiles_pay


def product(
    adjacency: NormalizedAdjacency,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Multiply a matrix whose rows are scaled already: out = R (W + s I) scaled.

    The scales of the columns are not applied here. Reading one of them per edge, from an array
    that no cache level near the core can hold, costs up to a third more time than scaling the
    rows of the matrix once beforehand (`scale_rows`).

    Args:
        adjacency: The edges, their weights W, the row scales R, self-loops (s = 1) or none (0).
        scaled: C X. Shape (nodes, columns), float32 or float16; rows may lie apart, columns not.
        out: Another array of the same shape.
        threads: Cores to use; all that numba may use by default.

    Returns:
        False if a float16 result overflowed.
    """
    edges = EdgeChunk(0, adjacency.num_nodes, 0, adjacency.num_edges)
    return product_rows(
        adjacency, edges, adjacency.indices, adjacency.weights, scaled, out, threads=threads
    )


def product_rows(
    adjacency: NormalizedAdjacency,
    chunk: EdgeChunk,
    indices: NDArray[Any],
    weights: NDArray[np.float32] | None,
    scaled: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> bool:
    """Some rows of `product`, from all of their edges.

    Args:
        adjacency: Its own edges and weights are not read, only `indptr` and what scales rows.
        chunk: Which rows and edges.
        indices: Neighbors of the edges of this chunk only.
        weights: Their weights; none: all are 1.
        scaled: As for `product`, all rows.
        out: As for `product`; only the rows of the chunk are written.
        threads: As for `product`.

    Returns:
        False if a float16 result overflowed.
    """
    if out.size and tiles_pay(scaled, weights):
        count = default_threads() if threads is None else threads
        return product_by_tiles(adjacency, chunk, indices, scaled, out, count)
    arrays = RowArrays(indices, weights, scaled, out, chunk.start)
    return sum_ranges(
        adjacency.indptr, arrays, adjacency.row_scale, adjacency.self_loops, threads,
        (chunk.first, chunk.last),
    )  # fmt: skip
