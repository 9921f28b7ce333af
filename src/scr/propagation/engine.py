"""Compute X, A X, A^2 X, ... once, before training: the step that makes encoders decoupled.

The in-memory engine writes every hop straight into its place in the result. `propagate_mixture`
keeps only two hops and a running sum, for encoders that read a fixed weighted sum of the hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.propagation.config import HopScale, Norm, PropagationConfig, StorageType
from scr.propagation.hops import Hops
from scr.propagation.kernel import product
from scr.propagation.memory import aligned_empty, memory_budget, readable_bytes
from scr.propagation.normalization import NormalizedAdjacency, normalize, turned_bytes

if TYPE_CHECKING:
    from scr.graph.graph import Graph

FLOAT16_MAX = 65504.0
ROWS_PER_STEP = 1 << 14
"""Rows handled at once by the elementwise passes: a few megabytes, which stay in the cache."""

Features = Any
"""A dense array or a SciPy sparse matrix of shape (nodes, columns)."""


def propagate(
    graph: Graph,
    hops: int = 5,
    norm: Norm = "sym",
    self_loops: bool = False,
    direction: str = "both",
    dtype: StorageType = "float32",
    memory: str | int = "auto",
    features: Features | None = None,
    *,
    hop_scale: HopScale = "none",
    threads: int | None = None,
) -> Hops:
    """Multiply the features by the first powers of the normalized adjacency.

    Args:
        graph: The graph; its arrays may be memory maps.
        hops: K, the largest power.
        norm: `row`, `sym` or `col`; see `normalization`.
        self_loops: Add the identity to the adjacency first.
        direction: `both`, `out`, `in`, or `separate`: X, then K hops along the edges, then K hops
            against them.
        dtype: Storage of the hops; sums are taken in float32.
        memory: Most memory to use, such as `4GiB`; `auto` is 80% of what is available.
        features: X, dense or sparse; by default the graph's own.
        hop_scale: `unit` gives every row of every hop length 1 at the end.
        threads: Cores to use; all by default. The result does not depend on it.

    Returns:
        Hops of shape (nodes, K + 1, columns), or (nodes, 2 K + 1, columns) for `separate`.
    """
    config = PropagationConfig(
        hops=hops, norm=norm, self_loops=self_loops, direction=direction,  # type: ignore[arg-type]
        dtype=dtype, hop_scale=hop_scale,
    )  # fmt: skip
    source = _features(graph, features)
    _check_budget(graph, config, source.shape[1], memory)
    array = aligned_empty((graph.num_nodes, config.matrices, source.shape[1]), config.dtype)
    _fill(array[:, 0], source)
    for way, first in _ways(config):
        adjacency = normalize(graph, norm=norm, self_loops=self_loops, direction=way)
        for hop in range(config.hops):
            previous = 0 if hop == 0 else first + hop - 1
            step(adjacency, array[:, previous], array[:, first + hop], threads=threads)
    if config.hop_scale == "unit":
        for hop in range(config.matrices):
            _scale_rows(array[:, hop])
    return Hops(array)


def propagate_mixture(
    graph: Graph,
    weights: Sequence[float] | NDArray[Any],
    norm: Norm = "sym",
    self_loops: bool = False,
    direction: str = "both",
    dtype: StorageType = "float32",
    features: Features | None = None,
    *,
    hop_scale: HopScale = "none",
    threads: int | None = None,
) -> NDArray[np.float32]:
    r"""The weighted sum of the hops, with two of them in memory at a time.

    Equation: sum_k weights_k * scale(A^k X), where `scale` is the identity or, for
        `hop_scale="unit"`, divides every row by its length.

    Args:
        weights: One per matrix that `propagate` would return, hop 0 first.

    Returns:
        Shape (nodes, columns).
    """
    factors = np.asarray(weights, dtype=np.float32)
    ways = 2 if direction == "separate" else 1
    if factors.ndim != 1 or factors.size == 0 or (factors.size - 1) % ways:
        raise ConfigError(
            "weights", factors.tolist(), f"a list of {ways} K + 1 numbers, one per hop"
        )
    config = PropagationConfig(
        hops=(factors.size - 1) // ways, norm=norm, self_loops=self_loops,
        direction=direction, dtype=dtype, hop_scale=hop_scale,  # type: ignore[arg-type]
    )  # fmt: skip
    source = _features(graph, features)
    shape = (graph.num_nodes, int(source.shape[1]))
    unit = config.hop_scale == "unit"
    current, following = aligned_empty(shape, dtype), aligned_empty(shape, dtype)
    total = np.zeros(shape, dtype=np.float32)
    _fill(current, source)
    _add(total, current, factors[0], unit)
    for way, first in _ways(config):
        adjacency = normalize(graph, norm=norm, self_loops=self_loops, direction=way)
        if first > 1:
            _fill(current, source)
        for hop in range(config.hops):
            step(adjacency, current, following, threads=threads)
            current, following = following, current
            _add(total, current, factors[first + hop], unit)
    return total


def step(
    adjacency: NormalizedAdjacency,
    matrix: NDArray[Any],
    out: NDArray[Any],
    *,
    threads: int | None = None,
) -> None:
    """One hop; float16 sums that overflow are refused."""
    product(adjacency, matrix, out, threads=threads)


def _ways(config: PropagationConfig) -> list[tuple[str, int]]:
    """Directions to walk, each with the place of its first hop."""
    if config.hops == 0:
        return []
    if config.direction == "separate":
        return [("out", 1), ("in", config.hops + 1)]
    return [(config.direction, 1)]


def _features(graph: Graph, features: Features | None) -> Any:
    """The matrix X, checked against the graph."""
    source = graph.features if features is None else features
    if source is None:
        raise GraphError(
            "The graph has no features; expected a matrix with one row per node",
            hint="pass `features=`, or ingest the graph with a features file",
        )
    source = source.tocsr() if sp.issparse(source) else np.asarray(source)
    if source.ndim != 2 or source.shape[0] != graph.num_nodes:
        raise GraphError(
            f"The features have shape {tuple(source.shape)}; "
            f"expected ({graph.num_nodes}, columns), one row per node"
        )
    return source


def _check_budget(graph: Graph, config: PropagationConfig, columns: int, memory: str | int) -> None:
    needed = memory_needed(graph, config, columns)
    budget = memory_budget(memory)
    if needed > budget:
        raise MemoryBudgetError(
            f"{config.matrices} hops of {graph.num_nodes:,} nodes x {columns:,} columns in "
            f"{config.dtype} need {readable_bytes(needed)}; the budget is {readable_bytes(budget)}",
            hint=f'the smallest that works is memory="{readable_bytes(needed)}"; fewer hops, '
            'columns, or dtype="float16" need less',
        )


def memory_needed(graph: Graph, config: PropagationConfig, columns: int) -> int:
    """Bytes that `propagate` allocates at its peak, beside the graph and the features."""
    hops = graph.num_nodes * config.matrices * columns * np.dtype(config.dtype).itemsize
    scales = 16 * graph.num_nodes
    return hops + scales + turned_bytes(graph, config.direction)


def _fill(out: NDArray[Any], source: Any) -> None:
    """Copy the features into hop 0, a few dense rows at a time."""
    half = out.dtype == np.float16
    for start in range(0, out.shape[0], ROWS_PER_STEP):
        part = source[start : start + ROWS_PER_STEP]
        block = part.toarray() if sp.issparse(part) else part
        if half and block.size and np.abs(block).max() > FLOAT16_MAX:
            raise _overflow("A feature")
        out[start : start + ROWS_PER_STEP] = block


def _overflow(what: str) -> ConfigError:
    return ConfigError(
        "dtype", "float16", f"float32: {what} exceeds 65504, the most that float16 holds",
        hint="standardize the feature columns, or use float32",
    )  # fmt: skip


def _unit(block: NDArray[Any]) -> NDArray[np.float32]:
    """Rows divided by their length; zero rows stay zero."""
    rows = np.asarray(block, dtype=np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1)[:, None], dtype=np.float32)


def _scale_rows(matrix: NDArray[Any]) -> None:
    for start in range(0, matrix.shape[0], ROWS_PER_STEP):
        part = slice(start, start + ROWS_PER_STEP)
        matrix[part] = _unit(matrix[part])


def _add(total: NDArray[Any], matrix: NDArray[Any], factor: np.float32, unit: bool) -> None:
    for start in range(0, matrix.shape[0], ROWS_PER_STEP):
        part = slice(start, start + ROWS_PER_STEP)
        block = _unit(matrix[part]) if unit else matrix[part].astype(np.float32)
        total[part] += factor * block
