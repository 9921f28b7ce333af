"""Random graphs and an independent reference, shared by the tests of propagation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from scr.graph import Graph


def make_graph(matrix: sp.csr_array, *, directed: bool, weighted: bool = True) -> Graph:
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    count = matrix.shape[0]
    return Graph(
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.int32),
        weights=matrix.data.astype(np.float32) if weighted else None,
        labels=np.full(count, -1),
        directed=directed,
    )


def random_matrix(
    rng: np.random.Generator, nodes: int, edges: int, *, directed: bool, weighted: bool
) -> sp.csr_array:
    """Edges drawn with a taste for low numbers, so that there are hubs and isolated nodes."""
    ends = (nodes * rng.random((2, edges)) ** 2).astype(int)
    values = rng.uniform(0.1, 3, edges) if weighted else np.ones(edges)
    matrix = sp.coo_array((values, tuple(ends)), shape=(nodes, nodes)).tocsr()
    if not weighted:
        matrix.data[:] = 1
    return matrix if directed else sp.csr_array(matrix.maximum(matrix.T))


@st.composite
def graphs(draw: Any) -> tuple[Graph, sp.csr_array]:
    """A graph and its adjacency matrix in float64."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(1, 40))
    directed, weighted = draw(st.booleans()), draw(st.booleans())
    matrix = random_matrix(
        rng, nodes, draw(st.integers(0, 150)), directed=directed, weighted=weighted
    )
    return make_graph(matrix, directed=directed, weighted=weighted), matrix


def reference_operator(
    matrix: sp.csr_array, norm: str, self_loops: bool, direction: str = "both"
) -> np.ndarray:
    """The normalized adjacency from its definition, dense and in float64."""
    dense = matrix.toarray()
    dense = {"out": dense, "in": dense.T, "both": np.maximum(dense, dense.T)}[direction]
    dense = dense + self_loops * np.eye(len(dense))
    with np.errstate(divide="ignore"):
        out = np.where(dense.sum(1) > 0, 1 / dense.sum(1), 0)
        into = np.where(dense.sum(0) > 0, 1 / dense.sum(0), 0)
    if norm == "row":
        return out[:, None] * dense
    if norm == "col":
        return dense * into[None, :]
    return np.sqrt(out)[:, None] * dense * np.sqrt(into)[None, :]


def reference_hops(operator: np.ndarray, features: np.ndarray, hops: int) -> np.ndarray:
    made = [features.astype(np.float64)]
    for _ in range(hops):
        made.append(operator @ made[-1])
    return np.stack(made, axis=1)
