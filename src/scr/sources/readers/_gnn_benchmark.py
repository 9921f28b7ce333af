"""Read the `.npz` files of gnn-benchmark (Shchur et al. 2018): Amazon, Coauthor, citations.

The files went through three hands: matrices in CSR parts (``adj_data``, ``attr_data`` ...), the
same with dots (``adj_matrix.data`` ...), or pickled SciPy matrices (``adj_matrix``,
``node_attr``); names as text arrays or pickled dictionaries (``idx_to_class``). All are read,
pickles by the restricted unpickler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._raw import Features, RawGraph, as_labels, as_name_array, as_texts

_ADJACENCY = ("adj", "adj_matrix")
_FEATURES = ("attr", "attr_matrix", "node_attr")
_LABELS = ("labels", "node_label")


def is_gnn_benchmark(keys: set[str]) -> bool:
    """Whether an .npz with these arrays is of gnn-benchmark."""
    endings = ("", "_data", ".data")
    return any(f"{name}{ending}" in keys for name in _ADJACENCY for ending in endings)


def read_gnn_benchmark(path: Path) -> RawGraph:
    """Read one `.npz` file; it has no split."""
    arrays = NpzFile(path)
    adjacency = _matrix(arrays, _ADJACENCY)
    if not isinstance(adjacency, scipy.sparse.csr_array):
        raise SourceError(f"`{path}` has no sparse adjacency under {' or '.join(_ADJACENCY)}")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise SourceError(f"The adjacency in `{path}` has shape {adjacency.shape}, not a square")
    labels = next((name for name in _LABELS if name in arrays), None)
    weighted = bool((adjacency.data != 1).any())
    return RawGraph(
        name=path.stem,
        edges=np.stack(adjacency.tocoo().coords).astype(np.int64),
        num_nodes=int(adjacency.shape[0]),
        features=_matrix(arrays, _FEATURES),
        labels=None if labels is None else as_labels(arrays[labels], arrays.name_of(labels)),
        class_names=_texts(arrays, "class_names", "idx_to_class"),
        ids=_ids(arrays, int(adjacency.shape[0])),
        notes=("edge weights were left out: they count as 1",) if weighted else (),
    )


def _matrix(arrays: NpzFile, names: tuple[str, ...]) -> Features | None:
    for name in names:
        for separator in ("_", "."):
            matrix = arrays.matrix(name, separator)
            if matrix is not None:
                return matrix
        if name in arrays:
            value = arrays[name]
            if isinstance(value, (np.ndarray, scipy.sparse.csr_array)):
                return value
            raise SourceError(f"`{name}` in `{arrays.path}` is not a matrix")
    return None


def _ids(arrays: NpzFile, num_nodes: int) -> NDArray[Any] | None:
    names = _texts(arrays, "node_names", "idx_to_node")
    # Names are ids only if they tell nodes apart; some files hold titles that repeat.
    if names is None or len(names) != num_nodes or len(set(names)) != num_nodes:
        return None
    return as_name_array(names, f"the names of nodes in `{arrays.path}`")


def _texts(arrays: NpzFile, plain: str, pickled: str) -> tuple[str, ...] | None:
    value = arrays[plain] if plain in arrays else arrays.get(pickled)
    if isinstance(value, dict):
        if set(value) != set(range(len(value))):
            return None
        value = [str(value[index]) for index in range(len(value))]
    if value is None:
        return None
    return as_texts(value, arrays.name_of(plain if plain in arrays else pickled))
