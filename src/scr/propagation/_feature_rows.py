"""Hop 0, a block of columns at a time, from features that are too large to be held.

Dense features on disk are read by parts with plain reads; those that are still to be scaled are
scaled part by part; sparse ones are made dense part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.features import LazyFeatures
from scr.propagation._steps import fill
from scr.storage import ranges, region_of, stream_rows

PART_BYTES = 16 * 2**20
"""Features read at once."""
PART_ROWS = 1 << 13
"""Parts are a multiple of this, on which NumPy's own buffers end as they do for all rows."""


def fill_block(
    out: NDArray[Any], source: Any, columns: slice, *, threads: int | None = None
) -> None:
    """Copy some columns of the features into a matrix of their own.

    Args:
        out: Shape (nodes, columns of the block), float32 or float16.
        source: Dense, lazy or in CSR form; all columns.
        columns: The block.
    """
    done = 0
    for rows in _parts(source):
        part = rows[:, columns]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        fill(out[done : done + len(dense)], dense, threads=threads)
        done += len(dense)


def chunk_bytes(source: Any) -> int:
    """Memory that `fill_block` takes."""
    rows = min(_part_rows(source), source.shape[0])
    dense = rows * source.shape[1]
    if isinstance(source, LazyFeatures):
        # Two buffers of the file, and what scaling makes of one: a few matrices in float32.
        return int(dense * (2 * source.source.dtype.itemsize + 3 * 4))
    is_held = isinstance(source, np.ndarray) and region_of(source) is None
    return 0 if is_held else int(2 * dense * source.dtype.itemsize)


def _parts(source: Any) -> Iterator[Any]:
    parts = ranges(source.shape[0], _part_rows(source))
    if isinstance(source, LazyFeatures):
        for (rows,) in stream_rows([source.source], parts):
            yield source.fitted.transform(rows)
    elif isinstance(source, np.ndarray):
        yield from (rows for (rows,) in stream_rows([source], parts))
    else:
        yield from (source[start:stop] for start, stop in parts)


def _part_rows(source: Any) -> int:
    row_bytes: int = max(source.shape[1] * np.dtype(source.dtype).itemsize, 1)
    return max(PART_BYTES // row_bytes // PART_ROWS, 1) * PART_ROWS
