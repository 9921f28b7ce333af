"""Single steps of a propagation: fill hop 0, walk from hop to hop, scale rows, add to a sum."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import run_on_threads
from scr.errors import ConfigError
from scr.propagation._normalization import NormalizedAdjacency
from scr.propagation.kernel._product import product, product_of_first_rows
from scr.propagation.kernel._rows import scale_rows

ROWS_PER_STEP = 1 << 13
"""Rows handled at once by elementwise passes: a few megabytes, which stay in the cache."""


def fill(out: NDArray[Any], features: Any, *, threads: int | None = None) -> None:
    """Copy features, dense or sparse, into a float32 or float16 matrix."""
    if isinstance(features, np.ndarray) and _is_plain(features):
        _check_fits(scale_rows(features, None, out, threads=threads), "a feature")
        return

    def copy(part: slice) -> None:
        rows: Any = features[part]
        dense = rows.toarray() if sp.issparse(features) else rows
        block = np.ascontiguousarray(dense, dtype=np.float32)
        _check_fits(scale_rows(block, None, out[part], threads=1), "a feature")

    _for_rows(len(out), copy, threads)


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

    Args:
        spare: Takes C current; not needed where the adjacency scales no columns. It may not share
            memory with `target`; `target` may be `current` itself if there is a spare.
        multiply: `kernel.product`, or something that does the same.
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
    hop, rest = (spare, current) if adjacency.column_scale is None else (current, spare)
    advance(adjacency, current, hop, rest, threads=threads, multiply=multiply)
    return hop, rest


def walk(
    adjacency: NormalizedAdjacency,
    current: NDArray[Any],
    spare: NDArray[Any],
    hops: int,
    *,
    threads: int | None = None,
    last_rows: int | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield hop 1, 2, ... from hop 0 in `current`, with these two matrices only.

    Each hop that is yielded must be read before the next one is asked for.

    Args:
        last_rows: How many of the first rows are needed of the last hop; the others of that one
            hold anything. None: all.
    """
    for hop in range(1, hops + 1):
        multiply: Callable[..., bool] = product
        if hop == hops and last_rows is not None:
            multiply = functools.partial(product_of_first_rows, rows=last_rows)
        current, spare = take_turns(adjacency, current, spare, threads=threads, multiply=multiply)
        yield current


def unit_rows(matrix: NDArray[Any], *, threads: int | None = None) -> None:
    """Give every row length 1, in place; zero rows stay zero."""

    def scale(part: slice) -> None:
        matrix[part] = _unit(matrix[part])

    _for_rows(len(matrix), scale, threads)


def add_scaled(
    total: NDArray[np.float32],
    matrix: NDArray[Any],
    factor: float,
    *,
    unit: bool,
    threads: int | None = None,
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
