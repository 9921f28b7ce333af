"""The product of a normalized adjacency with a dense matrix, on all cores.

The compiled code releases Python's lock, so plain threads run it: no threading layer to clash with
torch's, and safe after `fork`. It is cached on disk; later processes only load it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    Returns false if a float16 result overflowed.

    The scales of the columns are not applied here. Reading one of them per edge, from an array
    that no cache level near the core can hold, costs up to a third more time than scaling the
    rows of the matrix once beforehand (`scale_rows`).

    Args:
        adjacency: The edges, their weights W, the row scales R, self-loops (s = 1) or none (0).
        scaled: C X. Shape (nodes, columns), float32 or float16; rows may lie apart, columns not.
        out: Another array of the same shape.
        threads: Cores to use; all that numba may use by default.
    """
    chunk = EdgeChunk(0, adjacency.num_nodes, 0, adjacency.num_edges)
    arrays = RowArrays(
        adjacency.indices, adjacency.weights, scaled, out, 0, adjacency.row_scale,
        adjacency.self_loops,
    )  # fmt: skip
    return product_rows(adjacency.indptr, chunk, arrays, threads)


def product_rows(
    indptr: NDArray[np.int64], chunk: EdgeChunk, arrays: RowArrays, threads: int | None
) -> bool:
    """The rows of a chunk of `product`, from all of their edges, which are those of the arrays."""
    if arrays.out.size and tiles_pay(arrays.x, arrays.weights):
        return product_by_tiles(indptr, chunk, arrays, threads)
    return sum_ranges(indptr, arrays, threads, (chunk.first, chunk.last))
