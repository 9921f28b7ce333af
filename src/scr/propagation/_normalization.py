"""Normalize an adjacency by two scale vectors, so that no normalized edge values are ever stored.

Every norm here has the form  out_i = r_i * (sum_j w_ij c_j x_j + s c_i x_i),  where s is 1 with
self-loops and 0 without:

    row   D^-1 A            r = 1/d        c = 1
    sym   D^-1/2 A D^-1/2   r = d^-1/2     c = d'^-1/2
    col   A D^-1            r = 1          c = 1/d'

d are the row sums of A (+ I) and d' its column sums. They are equal for an undirected graph; for
a directed one, column sums keep `col` column-stochastic and keep the features of a node without
outgoing edges in `sym`. A degree of 0 gives a scale of 0: an isolated node gets a row of zeros.

Reads a graph's CSR arrays, which may be memory maps; makes a `NormalizedAdjacency` for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import cut_rows, run_on_threads
from scr.config import check_value
from scr.errors import GraphError
from scr.graph import GraphPart
from scr.propagation._config import Norm
from scr.storage import in_memory, ranges, stream_rows

if TYPE_CHECKING:
    from scr.graph import Degrees, Graph

FloatVector = NDArray[np.float32]
CHUNK_EDGES = 1 << 24
"""Edges per step where a whole array of them would cost memory: 64 MiB of float32."""
CHUNK_ROWS = 1 << 21
"""Rows, or edges of whole rows, per step of what is computed in float64."""
CACHED_ROWS = 1 << 15
"""Rows per step of what takes several vectors in float64: they stay in the cache, and are the same
memory for every step."""


@dataclass(frozen=True, eq=False)
class NormalizedAdjacency:
    """A CSR adjacency and the vectors that scale its rows and columns."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    """int32, or int64 beyond 2^31 nodes."""
    weights: FloatVector | None
    """One per edge; none: all are 1."""
    row_scale: FloatVector | None
    """r, one per row; none: all are 1."""
    column_scale: FloatVector | None
    """c, one per column; none: all are 1."""
    self_loops: bool

    @property
    def num_nodes(self) -> int:
        """Rows and columns."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Stored edges, self-loops that are only added not counted."""
        return len(self.indices)

    def first_rows(self, count: int) -> NormalizedAdjacency:
        """Of all rows, only the first: for products of which no others are needed."""
        edges = slice(int(self.indptr[count]))
        weights = None if self.weights is None else self.weights[edges]
        return replace(
            self, indptr=self.indptr[: count + 1], indices=self.indices[edges], weights=weights
        )

    def to_scipy(self) -> sp.csr_array:
        """The normalized matrix itself, in float64: for tests and for small graphs."""
        count = self.num_nodes
        values = np.ones(self.num_edges) if self.weights is None else self.weights.astype(float)
        matrix = sp.csr_array((values, self.indices, self.indptr), shape=(count, count))
        if self.self_loops:
            matrix = matrix + sp.eye_array(count, format="csr")
        rows = np.ones(count) if self.row_scale is None else self.row_scale.astype(float)
        columns = np.ones(count) if self.column_scale is None else self.column_scale.astype(float)
        return sp.csr_array(sp.diags_array(rows) @ matrix @ sp.diags_array(columns))


def normalize(
    graph: Graph, *, norm: Norm = "sym", self_loops: bool = False, direction: str = "both"
) -> NormalizedAdjacency:
    """Pick the direction of a graph's edges and scale them.

    Args:
        graph: Row i of its CSR lists the targets of the edges that leave node i.
        norm: `row`, `sym` or `col`.
        self_loops: Add the identity before degrees are taken.
        direction: `out` takes A, `in` its transpose, `both` every edge both ways; an undirected
            graph is the same in all three.
    """
    check_value("norm", norm, Norm)
    check_value("direction", direction, Literal["both", "out", "in"])
    edges = directed_edges(graph, direction)
    symmetric = not graph.directed or direction == "both"

    def degrees(axis: int) -> NDArray[np.float64] | _RowLengths:
        if isinstance(graph, GraphPart):
            return graph.degrees[direction][axis]
        if axis == 1 and not symmetric:
            return _column_sums(*edges)
        return _RowLengths(edges[0]) if edges[2] is None else row_sums(*edges[::2])

    rows = columns = None
    if norm in ("row", "sym"):
        rows = _inverse(degrees(0), self_loops, root=norm == "sym")
    if norm == "sym" and symmetric:
        columns = rows
    elif norm in ("col", "sym"):
        columns = _inverse(degrees(1), self_loops, root=norm == "sym")
    rows, columns = _balance(rows, columns, graph.num_nodes)
    return NormalizedAdjacency(*edges, rows, columns, self_loops)


def directed_edges(
    graph: Graph, direction: str
) -> tuple[NDArray[np.int64], NDArray[Any], FloatVector | None]:
    """CSR arrays of a graph whose edges are taken in a direction, as by `normalize`."""
    indptr: NDArray[Any] = in_memory(np.asarray(graph.indptr))
    indices, weights = np.asarray(graph.indices), graph.weights
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float32)
        _check_weights(weights)
    if graph.directed and direction != "out":
        indptr, indices, weights = _turn(indptr, indices, weights, both=direction == "both")
    return indptr, indices, weights


def degree_sums(graph: Graph, direction: str) -> Degrees:
    """Row sums and column sums of the adjacency of a direction, self-loops not added."""
    edges = directed_edges(graph, direction)
    rows = row_sums(*edges[::2])
    is_symmetric = not graph.directed or direction == "both"
    return rows, rows if is_symmetric else _column_sums(*edges)


def turned_bytes(graph: Graph, direction: str) -> int:
    """Memory that turning the edges of a graph takes at its peak, SciPy's temporaries included."""
    if not graph.directed or direction == "out":
        return 0
    per_edge = graph.indices.dtype.itemsize + 4
    copies = {"in": 2, "both": 4, "separate": 2}[direction]
    return copies * per_edge * len(graph.indices) + 24 * len(graph.indptr)


def preparing_bytes(graph: Graph) -> int:
    """Memory that normalization takes for a while: sums of all rows, and parts of them."""
    sums = (3 if graph.directed else 2) * 8 * graph.num_nodes
    return sums + 32 * min(CHUNK_ROWS, max(graph.num_nodes, graph.num_edges))


def _turn(
    indptr: NDArray[np.int64], indices: NDArray[Any], weights: FloatVector | None, *, both: bool
) -> tuple[NDArray[np.int64], NDArray[Any], FloatVector | None]:
    """The transpose of a CSR matrix, or its union with the transpose."""
    count = len(indptr) - 1
    values = np.ones(len(indices), dtype=np.int8) if weights is None else weights
    matrix = sp.csr_array((values, indices, indptr), shape=(count, count))
    turned = matrix.T.tocsr()
    if both:
        # The larger weight of the two ways, so that a symmetric matrix stays as it is.
        turned = turned.maximum(matrix).tocsr()
    data = None if weights is None else turned.data.astype(np.float32, copy=False)
    return turned.indptr.astype(np.int64, copy=False), turned.indices, data


def _check_weights(weights: FloatVector) -> None:
    for (chunk,) in stream_rows([weights], ranges(len(weights), CHUNK_EDGES)):
        if not (chunk.min() >= 0 and np.isfinite(chunk.max())):
            raise GraphError(
                "An edge weight is negative or not finite; normalization needs weights >= 0",
                hint="drop such edges, or ingest the graph without weights",
            )


def row_sums(indptr: NDArray[np.int64], weights: FloatVector | None) -> NDArray[np.float64]:
    """What the weights of each row add up to; without weights, the number of edges.

    Each row for itself: differences of a running sum would lose small weights after large ones.
    """
    sums = np.empty(len(indptr) - 1)
    if weights is None:
        # Into `sums`: `np.diff` would make all differences in int64 first.
        return np.subtract(indptr[1:], indptr[:-1], out=sums)
    # Whole rows per step, so that float64 sums need no float64 copy of all weights.
    steps = cut_rows(indptr, 0, len(sums), edges=CHUNK_ROWS, rows=CHUNK_ROWS)
    edges = [(int(indptr[first]), int(indptr[last])) for first, last in steps]
    for (first, last), (chunk,) in zip(steps, stream_rows([weights], edges), strict=True):
        starts = indptr[first:last] - indptr[first]
        filled = np.flatnonzero(np.diff(indptr[first : last + 1]))
        made = np.zeros(last - first)
        # `reduceat` sums from each start to the next: empty rows have no start of their own.
        if len(filled):
            made[filled] = np.add.reduceat(chunk.astype(np.float64), starts[filled])
        sums[first:last] = made
    return sums


def _column_sums(
    indptr: NDArray[np.int64], indices: NDArray[Any], weights: FloatVector | None
) -> NDArray[np.float64]:
    count = len(indptr) - 1
    sums = np.zeros(count)
    arrays = [indices] if weights is None else [indices, weights]
    for chunk, *values in stream_rows(arrays, ranges(len(indices), CHUNK_EDGES)):
        sums += np.bincount(chunk, weights=values[0] if values else None, minlength=count)
    return sums


class _RowLengths:
    """Numbers of edges, as `row_sums` gives them, of a few rows at a time: all take memory."""

    def __init__(self, indptr: NDArray[np.int64]) -> None:
        self._indptr = indptr

    def __len__(self) -> int:
        return len(self._indptr) - 1

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        return np.diff(self._indptr[rows.start : rows.stop + 1]).astype(np.float64)


def _balance(
    rows: FloatVector | None, columns: FloatVector | None, count: int
) -> tuple[FloatVector | None, FloatVector | None]:
    """Move a power of two from c to r, so that the largest c lies between 1/2 and 1.

    The kernel stores c_j x_j, in float16 if asked to: it must not overflow because edge weights
    are small, nor vanish because they are large. Powers of two change no digit.
    """
    largest = 0.0 if columns is None or count == 0 else float(columns.max())
    exponent = np.frexp(largest)[1]
    if columns is None or largest == 0 or largest == 1 or exponent == 0:
        return rows, columns
    scaled = np.ldexp(columns, -exponent)
    if rows is None:
        return np.full(count, np.ldexp(np.float32(1), exponent)), scaled
    return np.ldexp(rows, exponent, out=rows), scaled


def _inverse(
    sums: NDArray[np.float64] | _RowLengths, self_loops: bool, *, root: bool
) -> FloatVector:
    """1 / d or d^-1/2, in float32; 0 for nodes without edges."""
    made = np.empty(len(sums), dtype=np.float32)

    def invert(part: slice) -> None:
        degrees = sums[part] + self_loops
        scale, filled = np.zeros(len(degrees)), degrees > 0
        scale[filled] = degrees[filled] ** (-0.5 if root else -1.0)
        made[part] = scale

    run_on_threads(invert, [slice(*part) for part in ranges(len(sums), CACHED_ROWS)], None)
    return made
