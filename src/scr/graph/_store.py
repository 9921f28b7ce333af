"""A graph on disk: written once, then memory-mapped by every step that needs it.

The store is an artifact (`_artifact.py`) of the kind `graph` with the arrays

    indptr  indices  [weights]  [edge_types]                      the edges, by row
    features | features_data features_indices features_indptr     dense, or sparse by row
    labels  train  valid  test  [ids]

and metadata that lists node types, the target type first, and relations; by default there is one
each, type `node` and relation `edge`. Features of the node type number i other than the target are
arrays of the same names with `.i` appended. Anything that streams a graph to disk writes the same
arrays through an `ArtifactWriter` and describes them by `store_metadata`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._relations import ONE_RELATION, Relation
from scr.graph._store_content import StoreContent, describe_store
from scr.storage import (
    COPY_BYTES,
    ArtifactWriter,
    Manifest,
    array_file,
    checksums,
    ranges,
    read_manifest,
    stream_rows,
    whole_file,
)

if TYPE_CHECKING:
    from scr.graph._graph import Graph

KIND = "graph"
SCHEMA = 1

ARRAYS = ("indptr", "indices", "weights", "edge_types", "labels", "train", "valid", "test", "ids")
OPTIONAL = ("weights", "edge_types", "ids")
_FEATURES = ("features", "features_data")
_PARTS = {
    "edges": ("indptr", "indices", "weights", "edge_types"),
    "features": ("features", "features_data", "features_indices", "features_indptr"),
    "labels": ("labels",),
    "splits": ("train", "valid", "test"),
}


def write_store(
    graph: Graph, path: str | Path, *, overwrite: bool = False, link_features: bool = False
) -> Path:
    """Write a graph to a new folder, whole or not at all.

    With `link_features`, features that are a memory map of a whole `.npy` file stay where they are.
    """
    arrays, metadata = store_arrays(graph), _graph_metadata(graph)
    with ArtifactWriter(path, kind=KIND, schema=SCHEMA, overwrite=overwrite) as writer:
        _check_arrays(arrays, metadata)
        for name, array in arrays.items():
            if name == "features" and link_features:
                writer.link_array(name, array)
                continue
            writer.write_array(name, array, stored_type(name, array))
        writer.metadata = metadata
    return Path(path)


def _check_arrays(arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
    """Refuse what no store may hold: the writer vouches for it."""
    types = {name: stored_type(name, array) for name, array in arrays.items()}
    content = StoreContent(
        describe_store(Manifest(Path("graph"), KIND, SCHEMA, "", {}, metadata)),
        {name: (array.shape, types[name]) for name, array in arrays.items()}, arrays.__getitem__,
        where=lambda name: f"The array `{name}` of the graph", error=GraphError,
    )  # fmt: skip
    for name, array in arrays.items():
        step = max(COPY_BYTES // max(array[:1].nbytes, 1), 1)
        parts = [(max(start - 1, 0), stop) for start, stop in ranges(len(array), step)]
        if types[name].kind not in "iuf":
            continue
        for (start, _), (rows,) in zip(parts, stream_rows([array], parts), strict=True):
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(rows, types[name]).reshape(-1)
            content.piece(name, values, start * max(array[:1].size, 1))
    content.whole()


def stored_type(name: str, array: NDArray[Any]) -> np.dtype[Any]:
    """The type in which a store holds an array."""
    is_feature = name.partition(".")[0] in _FEATURES
    return stored_feature_type(array) if is_feature else array.dtype


def stored_feature_type(features: NDArray[Any]) -> np.dtype[Any]:
    """The type in which a store holds features: float16 or float32, never wider."""
    is_narrow = features.dtype in (np.float16, np.float32)
    return features.dtype if is_narrow else np.dtype(np.float32)


def storing_steps(features: NDArray[Any] | sp.csr_array | None) -> tuple[str, ...]:
    """What writing a store does to features, in words."""
    if features is None or features.dtype in (np.float16, np.float32):
        return ()
    return (f"stored features as float32 instead of {features.dtype}",)


def store_metadata(
    *,
    name: str,
    nodes: int,
    edges: int,
    features: int,
    class_names: Iterable[str],
    sparse_features: bool = False,
    directed: bool = False,
    steps: Iterable[str] = (),
) -> dict[str, Any]:
    """Describe the arrays of a store of one type and relation, for its manifest.

    `edges` counts both directions; `features` is 0 where there are none; `sparse_features` are in
    three arrays, by row.
    """
    (relation,) = ONE_RELATION
    types = [(relation.source, nodes, features, sparse_features)]
    return _metadata(name, types, {relation: edges}, directed, class_names, steps)


def _graph_metadata(graph: Graph) -> dict[str, Any]:
    matrices: dict[str, Any] = {graph.target: graph.features, **graph.other_features}
    types = []
    for kind, nodes in graph.node_types.items():
        matrix = matrices.get(kind)
        columns = 0 if matrix is None else int(matrix.shape[1])
        types.append((kind, nodes, columns, sp.issparse(matrix)))
    counts = [graph.num_edges]
    if graph.edge_types is not None:
        stored = np.bincount(np.asarray(graph.edge_types), minlength=2 * len(graph.relations))
        counts = stored.reshape(2, -1).sum(axis=0).tolist()
    edges, steps = dict(zip(graph.relations, counts, strict=True)), storing_steps(graph.features)
    names = graph.class_names
    return _metadata(graph.name, types, edges, graph.directed, names, (*graph.steps, *steps))


def _metadata(
    name: str, types: Sequence[tuple[str, int, int, bool]], edges: Mapping[Relation, int],
    directed: bool, class_names: Iterable[str], steps: Iterable[str],
) -> dict[str, Any]:  # fmt: skip
    keys = ("name", "nodes", "features", "sparse_features")
    return {
        "name": name,
        "node_types": [dict(zip(keys, each, strict=True)) for each in types],
        "relations": [
            {"name": each.name, "source": each.source, "target": each.target, "edges": count,
             "directed": directed}
            for each, count in edges.items()
        ],
        "target_type": types[0][0],
        "class_names": list(class_names),
        "steps": list(steps),
    }  # fmt: skip


def fingerprint(graph: Graph, parts: Iterable[str]) -> str:
    """Hash some parts of a graph: ``edges``, ``features``, ``labels``, ``splits``.

    Arrays that are memory maps of the graph's own store are not read: the manifest knows their
    checksums. So the fingerprint of a store of any size takes no time, and equals that of the same
    graph in memory, of which every array is hashed in the type that a store holds it in.
    """
    stored = None if graph.path is None else read_manifest(graph.path, KIND, schema=SCHEMA)
    arrays = store_arrays(graph)
    described: list[Any] = []
    chosen = set(parts)
    names = [name for part in parts for name in _PARTS[part] if name in arrays]
    if "features" in chosen:
        names += sorted(name for name in arrays if name.startswith("features") and "." in name)
    if graph.is_typed and "edges" in chosen:
        described.append([dict(graph.node_types), [list(each) for each in graph.relations]])
    for name in names:
        array = arrays[name]
        region = None if stored is None else whole_file(array)
        if stored and region and region.path == array_file(stored, name).resolve():
            digests = list(stored.arrays[name].checksums)
        else:
            digests = checksums(array, stored_type(name, array))
        described.append([name, stored_type(name, array).str, list(array.shape), digests])
    return hashlib.blake2b(json.dumps(described).encode(), digest_size=16).hexdigest()


def store_arrays(graph: Graph) -> dict[str, NDArray[Any]]:
    """The arrays of a graph by the names that a store gives them."""
    arrays: Mapping[str, NDArray[Any] | None] = {
        "indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights,
        "edge_types": graph.edge_types,
        "labels": graph.labels, "train": graph.train, "valid": graph.valid, "test": graph.test,
        "ids": graph.ids, **_feature_arrays(graph.features), **_other_arrays(graph),
    }  # fmt: skip
    return {name: array for name, array in arrays.items() if array is not None}


def _feature_arrays(features: NDArray[Any] | sp.csr_array | None) -> dict[str, NDArray[Any] | None]:
    if features is None or isinstance(features, np.ndarray):
        return {"features": features}
    # SciPy wants both index arrays of one type; it would copy them on opening otherwise.
    index = np.int32 if features.nnz <= np.iinfo(np.int32).max else np.int64
    return {
        "features_data": features.data,
        "features_indices": features.indices.astype(index, copy=False),
        "features_indptr": features.indptr.astype(index, copy=False),
    }


def _other_arrays(graph: Graph) -> dict[str, NDArray[Any] | None]:
    return {
        f"{name}.{number}": array
        for number, kind in enumerate(graph.node_types)
        if kind in graph.other_features
        for name, array in _feature_arrays(graph.other_features[kind]).items()
    }
