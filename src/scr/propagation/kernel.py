"""The product of a normalized adjacency with a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.propagation.normalization import NormalizedAdjacency


def product(
    adjacency: NormalizedAdjacency,
    matrix: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> None:
    """Write the normalized adjacency times `matrix` into `out`; both (nodes, columns)."""
    out[...] = adjacency.to_scipy() @ np.asarray(matrix, dtype=np.float64)
