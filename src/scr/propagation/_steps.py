"""Single steps of a propagation: fill hop 0, walk from hop to hop, scale rows, add to a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import default_threads, run_on_threads, run_with_buffers
from scr.errors import ConfigError
from scr.features import LazyFeatures
from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel import product
from scr.propagation.kernel._rows import blocks_overlap, scale_rows
from scr.storage import FileRows, ranges, region_of, release

ROWS_PER_STEP = 1 << 13
"""Rows handled at once by elementwise passes: a few megabytes, which stay in the cache."""
PART_BYTES = 8 * 2**20
"""Features read at once."""
READERS = 2
"""Threads for each core that fill a matrix from a file: while one waits for the disk, another one
copies, and waits for memory that is touched for the first time."""
PART_ROWS = 1 << 13
"""Parts are a multiple of this, on which NumPy's own buffers end as they do for all rows."""


def fill(out: NDArray[Any], matrix: NDArray[Any], *, threads: int | None = None) -> None:
    """Copy a dense matrix into one of float32 or float16."""
    if _is_plain(matrix):
        _check_fits(scale_rows(matrix, None, out, threads=threads), "a feature")
        return

    def copy(part: slice) -> None:
        block = np.ascontiguousarray(matrix[part], dtype=np.float32)
        _check_fits(scale_rows(block, None, out[part], threads=1), "a feature")

    _for_rows(len(out), copy, threads)


def copy_rows(out: NDArray[Any], matrix: NDArray[Any], *, threads: int | None = None) -> None:
    """Copy rows of the same type, every bit of them: `fill` makes 0.0 of -0.0."""
    row_bytes, both = matrix.shape[1] * matrix.itemsize, (out, matrix)
    if row_bytes and all(each.strides[1] == matrix.dtype.itemsize for each in both):
        # Each row as one item, instead of number by number: two thirds of the time for 100 bytes.
        out, matrix = (each.view(np.dtype((np.void, row_bytes))) for each in both)

    def copy(part: slice) -> None:
        out[part] = matrix[part]

    _for_rows(len(out), copy, threads)


def fill_block(
    out: NDArray[Any], source: Any, columns: slice, *, threads: int | None = None, first: int = 0
) -> None:
    """Copy some columns of the features (dense, lazy or in CSR form) part by part into a matrix.

    `first` is the row of the features that becomes the first one of the matrix.
    """
    matrix = source.source if isinstance(source, LazyFeatures) else source
    file = FileRows.behind(matrix, in_order=True) if isinstance(matrix, np.ndarray) else None
    parts, threads = ranges(len(out), _part_rows(source)), _fillers(source, threads)

    def copy(bounds: tuple[int, int], buffer: Any) -> None:
        start, stop = bounds
        here = slice(first + start, first + stop)
        rows = matrix[here] if file is None else file.stream(here.start, here.stop, buffer)
        if isinstance(source, LazyFeatures):
            rows = source.fitted.transform(rows)
        part = rows[:, columns]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        fill(out[start:stop], dense, threads=1)
        if not isinstance(matrix, np.ndarray):
            release(matrix.data)  # maps of sparse features are touched page by page
            release(matrix.indices)

    buffers = [None if file is None else file.buffer(parts[0][1]) for _ in parts[:threads]]
    run_with_buffers(copy, parts, buffers)  # one part is read while another is copied


def _part_rows(source: Any) -> int:
    return max(PART_BYTES // _row_bytes(source) // PART_ROWS, 1) * PART_ROWS


def _row_bytes(source: Any) -> int:
    return max(int(source.shape[1]) * int(np.dtype(source.dtype).itemsize), 1)


def _fillers(source: Any, threads: int | None) -> int:
    """Threads that fill a matrix; of very wide rows, whose parts are large, no more than cores."""
    cores = default_threads() if threads is None else threads
    matrix = source.source if isinstance(source, LazyFeatures) else source
    is_read = isinstance(matrix, np.ndarray) and region_of(matrix) is not None
    rows = _part_rows(source)
    is_small = rows * _row_bytes(source) <= PART_BYTES
    most = READERS * cores if is_read and is_small else cores
    return max(min(most, -(-int(source.shape[0]) // rows)), 1)


def filling_bytes(source: Any, threads: int | None = None) -> int:
    """Memory that `fill_block` takes."""
    rows = min(_part_rows(source), source.shape[0])
    dense = rows * source.shape[1] * _fillers(source, threads)
    if isinstance(source, LazyFeatures):
        # What is read, and what scaling makes of it: a few matrices in float32.
        return int(dense * (source.source.dtype.itemsize + 3 * 4))
    is_held = isinstance(source, np.ndarray) and region_of(source) is None
    return 0 if is_held else int(2 * dense * source.dtype.itemsize)


def advance(
    adjacency: NormalizedAdjacency,
    current: NDArray[Any],
    target: NDArray[Any],
    spare: NDArray[Any] | None,
    *,
    threads: int | None = None,
    multiply: Callable[..., bool] = product,
) -> None:
    """One hop: target = R (W + s I) C current.

    The spare, which takes C current, is not needed where the adjacency scales no columns. It may
    be `current` itself, but not share memory with `target`, which may be `current` otherwise.
    """
    scaled = current
    if adjacency.column_scale is not None:
        if spare is None:
            raise ValueError("an adjacency with column scales needs a spare matrix")
        scale_rows(current, adjacency.column_scale, spare, threads=threads)
        scaled = spare
    _check_fits(multiply(adjacency, scaled, target, threads=threads), "a propagated feature")


def take_turns(
    adjacency: NormalizedAdjacency,
    current: NDArray[Any],
    spare: NDArray[Any],
    *,
    threads: int | None = None,
    multiply: Callable[..., bool] = product,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One hop in two matrices: returns the next hop, and the matrix to be written over."""
    if adjacency.column_scale is not None and blocks_overlap(current.shape[1]):
        advance(adjacency, current, current, spare, threads=threads, multiply=multiply)
        return current, spare
    # Scaled in place: a copy would go through memory once more.
    advance(adjacency, current, spare, current, threads=threads, multiply=multiply)
    return spare, current


def walk(
    adjacency: NormalizedAdjacency,
    current: NDArray[Any],
    spare: NDArray[Any],
    hops: int,
    *,
    threads: int | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield hop 1, 2, ... from hop 0 in `current`, with these two matrices only.

    Each hop that is yielded must be read before the next one is asked for. `rows`, if given, are
    how many first rows of each hop are computed, never more than of the hop before; all others
    hold anything.
    """
    for hop in range(hops):
        if rows is not None and rows[hop] < adjacency.num_nodes:
            adjacency = adjacency.first_rows(rows[hop])
        current, spare = take_turns(adjacency, current, spare, threads=threads)
        yield current


def unit_rows(matrix: NDArray[Any], *, threads: int | None = None) -> None:
    """Give every row length 1, in place; zero rows stay zero."""

    def scale(part: slice) -> None:
        matrix[part] = _unit(matrix[part])

    _for_rows(len(matrix), scale, threads)


def add_scaled(
    total: NDArray[np.float32], matrix: NDArray[Any], factor: float, unit: bool, threads: int | None
) -> None:
    """Add factor * matrix to the total, with rows of length 1 if `unit`."""

    def add(part: slice) -> None:
        rows = _unit(matrix[part]) if unit else matrix[part].astype(np.float32, copy=False)
        total[part] += np.float32(factor) * rows

    _for_rows(len(matrix), add, threads)


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    wide: NDArray[Any] = np.asarray(rows, dtype=np.float32)
    # Divided by the largest first: squares of very small or large numbers leave float32.
    largest = np.abs(wide).max(axis=1, initial=0, keepdims=True)
    wide = wide / np.where(largest > 0, largest, 1)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(wide / np.where(lengths > 0, lengths, 1)[:, None], dtype=np.float32)


def _is_plain(matrix: NDArray[Any]) -> bool:
    """Whether the kernel can read a matrix as it is."""
    kind = matrix.dtype
    return (
        kind in (np.float32, np.float16)
        and kind.isnative
        and matrix.flags.aligned
        and matrix.size > 0
        and matrix.strides[1] == kind.itemsize
        and matrix.strides[0] >= matrix.shape[1] * kind.itemsize
        and matrix.strides[0] % kind.itemsize == 0
    )


def _for_rows(count: int, task: Callable[[slice], None], threads: int | None) -> None:
    parts = [slice(at, at + ROWS_PER_STEP) for at in range(0, count, ROWS_PER_STEP)]
    run_on_threads(task, parts, threads)


def _check_fits(fits: bool, what: str) -> None:
    if not fits:
        raise ConfigError(
            "dtype", "float16", f"`float32`, since {what} exceeds 65504, the most of float16",
            hint="use float32, or scale the features, such as `data.scale = \"standard\"`",
        )  # fmt: skip
