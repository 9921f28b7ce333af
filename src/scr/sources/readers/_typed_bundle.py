"""Read the `.npz` bundle of several types of nodes: plain arrays for a whole graph, no pickles.

node_types  num_nodes  target_type     names of the types, how many nodes each has, which one has y
rel:SOURCE:NAME:TARGET                 (2, edges): numbers within the two types
x:TYPE | x:TYPE:{data,indices,indptr,shape}    dense or sparse features of some types
y  label_names  node_names             of the target type; -1 in y where unknown
train_idx  val_idx  test_idx           of the target type, or packed masks as in `_bundle.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scr.errors import SourceError
from scr.sources.readers._bundle import bundle_edges, bundle_labels, bundle_names, bundle_split
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._raw import Features, RawTypedGraph

_RELATION, _FEATURES = "rel:", "x:"
_PARTS = ("data", "indices", "indptr", "shape")


def is_typed_bundle(keys: set[str]) -> bool:
    """Whether an .npz with these arrays is a bundle of several node types."""
    return "node_types" in keys or any(key.startswith(_RELATION) for key in keys)


def read_typed_bundle(
    path: Path, *, split: int | None = None, with_features: bool = True
) -> RawTypedGraph:
    """Read a bundle of several types.

    Args:
        path: The `.npz` file.
        split: Which of several public splits; none: the file's own.
        with_features: Whether to read the features of the target type.
    """
    arrays = NpzFile(path)
    counts = _counts(arrays)
    target = _target(arrays, counts)
    relations = {
        _relation(key, path, counts): bundle_edges(arrays, key)
        for key in arrays
        if key.startswith(_RELATION)
    }
    if not relations:
        raise SourceError(
            f"`{path}` has no edges; expected at least one array `rel:SOURCE:NAME:TARGET`"
        )
    kinds = _types_with_features(arrays, counts)
    labels, ids = bundle_labels(arrays), arrays.get("node_names")
    for name, values in (("y", labels), ("node_names", ids)):
        if values is not None and np.shape(values) != (counts[target],):
            raise SourceError(
                f"`{name}` in `{path}` has the shape {np.shape(values)}; "
                f"expected ({counts[target]},), one for each node of the target type `{target}`"
            )
    return RawTypedGraph(
        name=path.stem,
        num_nodes=counts,
        relations=relations,
        features={
            kind: _features(arrays, kind, counts[kind])
            for kind in kinds
            if with_features or kind != target
        },
        target=target,
        labels=labels,
        class_names=bundle_names(arrays, "label_names"),
        ids=ids,
        train=bundle_split(arrays, "train", counts[target], split),
        valid=bundle_split(arrays, "val", counts[target], split),
        test=bundle_split(arrays, "test", counts[target], split),
    )


def _counts(arrays: NpzFile) -> dict[str, int]:
    """Nodes of each type, in the file's order."""
    for key in ("node_types", "num_nodes"):
        if key not in arrays:
            raise SourceError(
                f"`{arrays.path}` has no `{key}`; expected the names of the types of nodes in "
                "`node_types` and how many nodes each has in `num_nodes`"
            )
    types, counts = np.asarray(arrays["node_types"]), np.asarray(arrays["num_nodes"])
    if types.ndim != 1 or types.dtype.kind not in "UO" or not types.size:
        raise _unexpected(arrays, "node_types", types, "the names of the types")
    if counts.shape != types.shape or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise _unexpected(arrays, "num_nodes", counts, "a whole number for each of `node_types`")
    names = [str(name) for name in types]
    for name in names:
        if not name or ":" in name or names.count(name) > 1:
            raise SourceError(
                f"`node_types` in `{arrays.path}` has the name {name!r}"
                f"{' twice' if names.count(name) > 1 else ''}; "
                "expected distinct names without colons"
            )
    return dict(zip(names, counts.tolist(), strict=True))


def _unexpected(arrays: NpzFile, key: str, found: Any, expected: str) -> SourceError:
    return SourceError(
        f"`{key}` in `{arrays.path}` is {found.dtype} of shape {found.shape}; expected {expected}"
    )


def _target(arrays: NpzFile, counts: dict[str, int]) -> str:
    if "target_type" not in arrays:
        if len(counts) == 1:
            return next(iter(counts))
        raise SourceError(
            f"`{arrays.path}` has no `target_type`; expected the type whose nodes are classified, "
            f"one of {', '.join(counts)}"
        )
    found = np.asarray(arrays["target_type"])
    target = str(found.item()) if found.size == 1 else str(found.tolist())
    if target not in counts:
        raise SourceError(
            f"`target_type` in `{arrays.path}` is `{target}`; expected one of {', '.join(counts)}"
        )
    return target


def _relation(key: str, path: Path, counts: dict[str, int]) -> tuple[str, str, str]:
    parts = key.removeprefix(_RELATION).split(":")
    if len(parts) != 3 or not all(parts):
        raise SourceError(
            f"`{path}` has an array `{key}`; expected the form `rel:SOURCE:NAME:TARGET`"
        )
    for kind in (parts[0], parts[2]):
        if kind not in counts:
            raise SourceError(
                f"The relation `{key}` in `{path}` is between unknown types: there is no type "
                f"`{kind}`; expected types among {', '.join(counts)}"
            )
    return parts[0], parts[1], parts[2]


def _types_with_features(arrays: NpzFile, counts: dict[str, int]) -> list[str]:
    """The types that have features, in the order of the types."""
    found = set()
    for key in arrays:
        if not key.startswith(_FEATURES):
            continue
        kind, _, part = key.removeprefix(_FEATURES).partition(":")
        if kind not in counts or part not in ("", *_PARTS):
            raise SourceError(
                f"`{arrays.path}` has an array `{key}`; expected `x:TYPE`, or `x:TYPE:PART` with "
                f"a part of {', '.join(_PARTS)}, and a type of {', '.join(counts)}"
            )
        found.add(kind)
    return [kind for kind in counts if kind in found]


def _features(arrays: NpzFile, kind: str, nodes: int) -> Features:
    key = f"{_FEATURES}{kind}"
    matrix: Any = arrays.opened(key) if key in arrays else arrays.matrix(key, separator=":")
    if matrix is None:
        raise SourceError(
            f"`{arrays.path}` has parts of `{key}` but no `{key}:data`; expected "
            f"{', '.join(_PARTS)}"
        )
    if matrix.ndim != 2 or matrix.shape[0] != nodes:
        raise SourceError(
            f"`{key}` in `{arrays.path}` has the shape {tuple(matrix.shape)}; expected {nodes:,} "
            "rows, one for each node of the type, and columns"
        )
    if matrix.dtype.kind not in "fiub":
        raise SourceError(f"`{key}` in `{arrays.path}` holds {matrix.dtype}; expected numbers")
    return matrix  # type: ignore[no-any-return]
