"""The same product A X by other libraries, each in the fastest way that we know for it.

    torch        `torch.sparse_csr` with 32-bit indices
    scipy        `scipy.sparse.csr_array`, which has one thread
    PyG          `EdgeIndex.matmul`, as its SIGN transform multiplies
    index_add    gather and `index_add_`: how message passing works without a sparse matrix; cut
                 into pieces, since a row for every edge does not fit memory

All of them multiply with values that were normalized before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from scr.graph import Graph

if TYPE_CHECKING:  # imported where it is used: SciPy's memory is measured without it
    import torch

TORCH, SCIPY, PYG, INDEX_ADD = (
    "torch.sparse_csr float32",
    "scipy csr float32, 1 thread",
    "PyG EdgeIndex float32",
    "torch index_add float32",
)
_EDGES_AT_ONCE = 1 << 18


def normalized_values(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """One float32 per edge: the symmetric normalized adjacency as peers store it."""
    scale = np.diff(indptr).clip(1).astype(np.float32) ** -0.5
    return np.repeat(scale, np.diff(indptr)) * scale[indices]


def torch_matrix(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> torch.Tensor:
    """The adjacency of torch, with 32-bit indices where they suffice: they are its fastest."""
    import torch

    narrow = len(indices) <= np.iinfo(np.int32).max
    kind, nodes = (np.int32 if narrow else np.int64), len(indptr) - 1
    parts = (indptr.astype(kind), indices.astype(kind, copy=False), values)
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=(nodes, nodes))


def torch_hops(
    indptr: np.ndarray, indices: np.ndarray, features: np.ndarray, hops: int
) -> torch.Tensor:
    """What people do without us: multiply, keep, stack."""
    import torch

    matrix = torch_matrix(indptr, indices, normalized_values(indptr, indices))
    made = [torch.from_numpy(features)]
    for _ in range(hops):
        made.append(matrix @ made[-1])
    return torch.stack(made, dim=1)


def one_hop_peers(graph: Graph) -> dict[str, Callable[[], Any]]:
    """Functions that compute A X once."""
    import torch

    values = normalized_values(graph.indptr, graph.indices)
    features = torch.from_numpy(graph.features)
    matrix = torch_matrix(graph.indptr, graph.indices, values)
    shape = (graph.num_nodes, graph.num_nodes)
    scipy_matrix = sp.csr_array((values, graph.indices, graph.indptr.astype(np.int32)), shape=shape)
    peers = {
        TORCH: lambda: matrix @ features,
        SCIPY: lambda: scipy_matrix @ graph.features,
        INDEX_ADD: _index_add(graph, values, features),
    }
    with suppress(ImportError):  # PyG is an extra
        peers[PYG] = _edge_index(graph, values, features)
    return peers


def pyg_sign(graph: Graph, hops: int) -> Callable[[], Any] | None:
    """PyG's SIGN transform, whole: normalize, sort, multiply; none without PyG."""
    import torch

    try:
        from torch_geometric.data import Data
        from torch_geometric.transforms import SIGN
    except ImportError:
        return None
    edges = _rows_and_columns(graph)

    def run() -> torch.Tensor:
        made = SIGN(hops)(Data(x=torch.from_numpy(graph.features), edge_index=edges))
        return torch.stack([made.x, *(made[f"x{hop}"] for hop in range(1, hops + 1))], dim=1)

    return run


def _edge_index(graph: Graph, values: np.ndarray, features: torch.Tensor) -> Callable[[], Any]:
    import torch
    from torch_geometric import EdgeIndex

    # The graph is undirected, so its rows are its columns and the order by rows serves as well.
    edges = EdgeIndex(
        _rows_and_columns(graph), sparse_size=(graph.num_nodes, graph.num_nodes), sort_order="row"
    )
    weights = torch.from_numpy(values)
    return lambda: edges.matmul(features, weights)


def _index_add(graph: Graph, values: np.ndarray, features: torch.Tensor) -> Callable[[], Any]:
    import torch

    rows, columns = _rows_and_columns(graph)
    weights = torch.from_numpy(values)[:, None]

    def run() -> torch.Tensor:
        out = torch.zeros_like(features)
        for start in range(0, len(rows), _EDGES_AT_ONCE):
            part = slice(start, start + _EDGES_AT_ONCE)
            out.index_add_(0, rows[part], features[columns[part]] * weights[part])
        return out

    return run


def _rows_and_columns(graph: Graph) -> torch.Tensor:
    import torch

    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return torch.from_numpy(np.stack([rows, graph.indices.astype(np.int64)]))
