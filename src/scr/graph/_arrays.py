"""From whatever people hold their data in to the plain arrays that a graph is made of.

NumPy, torch, pandas, SciPy and lists all come in here and leave as NumPy or SciPy CSR arrays. None
of the other libraries is imported: their objects are recognized by the methods they have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError, SourceError
from scr.storage import load_array


def as_numpy(values: Any) -> NDArray[Any]:
    """Turn a list, a torch tensor or a pandas object into a NumPy array, copying only if needed."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    return np.asarray(values)


def as_edge_index(edges: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Split an edge list into sources and targets.

    Edges are whole numbers of shape (2, edges), or (edges, 2) as tables and lists of pairs have it.
    Two edges, where both fit, are read as (2, edges) unless they come as a list or a table.
    """
    is_pairs = hasattr(edges, "columns") or isinstance(edges, (list, tuple))
    if isinstance(edges, (list, tuple)) and len(edges) == 2 and len(as_numpy(edges[0])) != 2:
        edges, is_pairs = [as_numpy(part) for part in edges], False
    array = as_numpy(edges)
    if array.size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if array.ndim != 2 or 2 not in array.shape:
        raise GraphError(f"Edges have the shape {array.shape}; expected (2, edges)")
    if array.dtype.kind not in "iu":
        rounded = array.astype(np.int64) if array.dtype.kind == "f" else None
        if rounded is None or not np.array_equal(rounded, array):
            raise GraphError(
                f"Edges are of the type {array.dtype}; expected whole numbers of nodes",
                hint="names of nodes belong into a table of edges, see `scr ingest`",
            )
        array = rounded
    if array.shape[0] != 2 or (is_pairs and array.shape[1] == 2):
        array = array.T
    return array[0], array[1]


def as_features(features: Any) -> NDArray[Any] | sp.csr_array | None:
    """Make features float32 (float16 stays) rows; sparse ones become CSR and stay sparse."""
    if features is None:
        return None
    if sp.issparse(features):
        return _canonical(features)
    if getattr(features, "is_sparse", False):  # a torch COO tensor
        features = features.coalesce()
        positions, values = as_numpy(features.indices()), as_numpy(features.values())
        return _canonical(sp.coo_array((values, tuple(positions)), shape=tuple(features.shape)))
    array = as_numpy(features)
    if array.dtype.kind not in "iufb":
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError):
            raise GraphError(f"Features are of the type {array.dtype}; expected numbers") from None
    if array.ndim != 2:
        raise GraphError(f"Features have the shape {array.shape}; expected (nodes, features)")
    if array.dtype in (np.float32, np.float16):
        return array
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is refused later
        return array.astype(np.float32)


def _canonical(matrix: Any) -> sp.csr_array:
    rows: sp.csr_array = sp.csr_array(matrix, dtype=np.float32)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def as_split(nodes: Any, num_nodes: int, split: str) -> NDArray[np.int64]:
    """Turn a mask or a list of node numbers into sorted node numbers; none becomes empty."""
    if nodes is None:
        return np.zeros(0, np.int64)
    array = as_numpy(nodes)
    if array.dtype == bool:
        if array.shape != (num_nodes,):
            raise GraphError(
                f"The {split} mask has the shape {array.shape}; expected ({num_nodes},)"
            )
        array = np.flatnonzero(array)
    if array.size == 0:
        raise GraphError(f"The {split} split is empty; expected at least one node")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise GraphError(
            f"The {split} split is of the type {array.dtype} and shape {array.shape}; "
            "expected a list of node numbers or a mask"
        )
    is_sorted = bool(np.all(array[1:] > array[:-1]))  # as most are
    result = array.astype(np.int64) if is_sorted else np.unique(array).astype(np.int64)
    for node in (int(result[0]), int(result[-1])):
        if not 0 <= node < num_nodes:
            raise GraphError(
                f"The {split} split holds node {node}, outside the graph; "
                f"expected node numbers from 0 to {num_nodes - 1}"
            )
    return result


def read_nodes(path: str | Path) -> NDArray[Any]:
    """Read a `.npy` of node numbers, or a mask; what it holds is checked by whoever uses it."""
    file = Path(path).expanduser()
    try:
        return load_array(file, what="a .npy file of node numbers", error=SourceError)
    except SourceError as error:
        hint = "write one with `numpy.save(path, nodes)`"
        raise SourceError(error.message, hint=hint) from None


def as_ids(ids: Any, num_nodes: int) -> NDArray[Any] | None:
    """Make the user's own names of nodes int64 or, if they do not fit, text; they are distinct."""
    if ids is None:
        return None
    array = as_numpy(ids)
    is_number = array.dtype.kind in "iu" and not (array > np.iinfo(np.int64).max).any()
    array = array.astype(np.int64) if is_number else array.astype(np.str_)
    if array.shape != (num_nodes,):
        raise GraphError(f"Ids have the shape {array.shape}; expected ({num_nodes},), one per node")
    ordered = np.sort(array)
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(repeated):
        raise GraphError(f"The id {ordered[repeated[0]].item()!r} is given to more than one node")
    return array


def as_weights(weights: Any, num_edges: int) -> Any:
    """Make weights float32, one per edge, finite and not negative."""
    array = as_numpy(weights).astype(np.float32)
    if array.shape != (num_edges,):
        raise GraphError(
            f"Weights have the shape {array.shape}; expected ({num_edges},), one per edge"
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        raise GraphError(
            f"The weight of edge {bad[0]} is {array[bad[0]]}; expected a finite number, 0 or more"
        )
    return array


def split_masks(store: Any, split: int) -> dict[str, Any]:
    """PyG's masks as ``train``, ``valid`` and ``test``; none where there is none.

    Of two-dimensional masks, the column `split` is taken.
    """
    found: dict[str, Any] = {}
    for name, attribute in {"train": "train", "valid": "val", "test": "test"}.items():
        mask = getattr(store, f"{attribute}_mask", None)
        if mask is not None and mask.ndim == 2:
            if not 0 <= split < mask.shape[1]:
                raise GraphError(
                    f"Split {split} was asked for; expected 0 to {mask.shape[1] - 1}, "
                    "as the masks have it"
                )
            mask = mask[:, split]
        found[name] = mask
    return found


def own_names(store: Any) -> dict[str, Any]:
    """Ids and names of classes as `to_pyg` writes them; none where there are none."""
    return {
        "ids": getattr(store, "node_ids", None),
        "class_names": getattr(store, "class_names", None),
    }
