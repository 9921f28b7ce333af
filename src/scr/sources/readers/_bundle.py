"""Read `.npz` bundles: plain arrays for a whole graph, no pickles.

Of one type of nodes:

    edge_index                          (2, edges)
    x | x_{data,indices,indptr,shape}   dense or sparse features
    node_names                          ids

Of several types:

    node_types  num_nodes  target_type  names of the types, how many nodes each has, which one has y
    rel:SOURCE:NAME:TARGET              (2, edges): numbers within the two types
    x:TYPE | x:TYPE:{data,indices,indptr,shape}    dense or sparse features of some types

Of both, for the nodes or those of the target type:

    y  label_names                      -1 in y where unknown
    train_idx  val_idx  test_idx        a split
    all_train_masks_packbits ...        several public splits as packed masks, one row per split
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._options import IngestOptions
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._raw import (
    Features,
    RawGraph,
    RawTypedGraph,
    as_array,
    as_labels,
    as_name_array,
    as_texts,
    unexpected_array,
)
from scr.storage import check_budget

_ROW_COPIES = 3
_RELATION, _FEATURES = "rel:", "x:"
_PARTS = ("data", "indices", "indptr", "shape")


def is_bundle(keys: set[str]) -> bool:
    """Whether an .npz with these arrays is a bundle of one node type."""
    return "edge_index" in keys


def is_typed_bundle(keys: set[str]) -> bool:
    """Whether an .npz with these arrays is a bundle of several node types."""
    return "node_types" in keys or any(key.startswith(_RELATION) for key in keys)


def read_bundle(path: Path, options: IngestOptions) -> RawGraph:
    """Read a bundle of one type."""
    arrays = NpzFile(path)
    edges, labeled = _edges(arrays, "edge_index"), _labeled_nodes(arrays)
    features = _dense(arrays) if "x" in arrays else arrays.matrix("x")
    num_nodes = int(edges.max()) + 1 if edges.size else 0
    if labeled["labels"] is not None:
        num_nodes = len(labeled["labels"])
    elif features is not None:
        num_nodes = int(features.shape[0])
    notes = []
    if "edge_type" in arrays:
        notes.append("edge types were left out: all edges count alike")
    if "directed" in arrays:
        kind = "directed" if arrays.number("directed", 0) else "undirected"
        once = "" if arrays.number("both_directions", 1) else ", each edge stored once"
        notes.append(f"the file says the graph is {kind}{once}")
    return RawGraph(
        edges=edges,
        num_nodes=num_nodes,
        features=features,
        notes=tuple(notes),
        **labeled,
        **_split(arrays, num_nodes, options.own_split),
    )


def read_typed_bundle(path: Path, options: IngestOptions) -> RawTypedGraph:
    """Read a bundle of several types; where the options have features, none of the target type."""
    arrays = NpzFile(path)
    counts = _counts(arrays)
    target = _target(arrays, counts)
    relations = {
        _relation(key, path, counts): _edges(arrays, key)
        for key in arrays
        if key.startswith(_RELATION)
    }
    if not relations:
        raise SourceError(
            f"`{path}` has no edges; expected at least one array `rel:SOURCE:NAME:TARGET`"
        )
    kinds = _types_with_features(arrays, counts)
    labeled = _labeled_nodes(arrays)
    for name, values in (("y", labeled["labels"]), ("node_names", labeled["ids"])):
        if values is not None and np.shape(values) != (counts[target],):
            raise SourceError(
                f"{arrays.name_of(name)} has the shape {np.shape(values)}; "
                f"expected ({counts[target]},), one for each node of the target type `{target}`"
            )
    return RawTypedGraph(
        num_nodes=counts,
        relations=relations,
        features={
            kind: _typed_features(arrays, kind, counts[kind])
            for kind in kinds
            if options.features is None or kind != target
        },
        target=target,
        **labeled,
        **_split(arrays, counts[target], options.own_split),
    )


def _labeled_nodes(arrays: NpzFile) -> dict[str, Any]:
    """What both kinds of bundles say of the nodes that are classified."""
    names, ids = arrays.get("label_names"), arrays.get("node_names")
    return {
        "name": arrays.path.stem,
        "labels": as_labels(arrays["y"], arrays.name_of("y")) if "y" in arrays else None,
        "class_names": None if names is None else as_texts(names, arrays.name_of("label_names")),
        "ids": None if ids is None else as_name_array(ids, arrays.name_of("node_names")),
    }


def _dense(arrays: NpzFile) -> NDArray[Any]:
    features = as_array(arrays.opened("x"), arrays.name_of("x"))
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise unexpected_array(arrays.name_of("x"), features, "numbers of shape (nodes, features)")
    # Rows of a memory map are copied and converted one by one at least.
    row = _ROW_COPIES * features.shape[1] * features.dtype.itemsize
    check_budget(f"A row of {arrays.name_of('x')}", row, None)
    return features


def _split(arrays: NpzFile, num_nodes: int, split: int | None) -> dict[str, Any]:
    """The nodes of train, valid and test, where they are: of a public split, or the file's own."""
    parts = {"train": "train", "valid": "val", "test": "test"}
    if split is None:
        return {part: arrays.get(f"{key}_idx") for part, key in parts.items()}
    packed: dict[str, Any]
    packed = {part: arrays.get(f"all_{key}_masks_packbits") for part, key in parts.items()}
    width = -(-num_nodes // 8)
    for part, masks in packed.items():
        if masks is None:
            raise SourceError(
                f"`{arrays.path}` has no numbered splits, so split {split} cannot be taken from it",
                hint="give a file of splits (`splits`)",
            )
        masks = as_array(masks, what := arrays.name_of(f"all_{parts[part]}_masks_packbits"))
        if masks.ndim != 2 or masks.dtype != np.uint8 or masks.shape[1] != width:
            raise unexpected_array(what, masks, f"bytes of shape (splits, {width})")
        if not 0 <= split < len(masks):
            raise SourceError(
                f"`{arrays.path}` has splits 0 to {len(masks) - 1}; split {split} was asked for"
            )
    return {
        part: np.flatnonzero(np.unpackbits(masks[split], count=num_nodes))
        for part, masks in packed.items()
    }


def _edges(arrays: NpzFile, key: str) -> NDArray[Any]:
    """The edges of an array, in the type that the file has them in."""
    edges = as_array(arrays.opened(key), arrays.name_of(key))
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        expected = "whole numbers of shape (2, edges)"
        raise unexpected_array(arrays.name_of(key), edges, expected)
    return edges


def _counts(arrays: NpzFile) -> dict[str, int]:
    """Nodes of each type, in the file's order."""
    for key in ("node_types", "num_nodes"):
        if key not in arrays:
            raise SourceError(
                f"`{arrays.path}` has no `{key}`; expected the names of the types of nodes in "
                "`node_types` and how many nodes each has in `num_nodes`"
            )
    types, counts = (
        as_array(arrays[key], arrays.name_of(key)) for key in ("node_types", "num_nodes")
    )
    if types.ndim != 1 or types.dtype.kind not in "UO" or not types.size:
        raise unexpected_array(arrays.name_of("node_types"), types, "the names of the types")
    if counts.shape != types.shape or counts.dtype.kind not in "iu" or (counts < 0).any():
        expected = "a whole number for each of `node_types`"
        raise unexpected_array(arrays.name_of("num_nodes"), counts, expected)
    names = as_texts(types, arrays.name_of("node_types"))
    for name, times in Counter(names).items():
        if not name or ":" in name or times > 1:
            raise SourceError(
                f"{arrays.name_of('node_types')} has the name {name!r}"
                f"{' twice' if times > 1 else ''}; "
                "expected distinct names without colons"
            )
    return dict(zip(names, counts.tolist(), strict=True))


def _target(arrays: NpzFile, counts: dict[str, int]) -> str:
    if "target_type" not in arrays:
        if len(counts) == 1:
            return next(iter(counts))
        raise SourceError(
            f"`{arrays.path}` has no `target_type`; expected the type whose nodes are classified, "
            f"one of {', '.join(counts)}"
        )
    names = as_array(arrays["target_type"], arrays.name_of("target_type"))
    target = str(names.item()) if names.size == 1 else str(names.tolist())
    if target not in counts:
        raise SourceError(
            f"{arrays.name_of('target_type')} is `{target}`; expected one of {', '.join(counts)}"
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
    kinds = set()
    for key in arrays:
        if not key.startswith(_FEATURES):
            continue
        kind, _, part = key.removeprefix(_FEATURES).partition(":")
        if kind not in counts or part not in ("", *_PARTS):
            raise SourceError(
                f"`{arrays.path}` has an array `{key}`; expected `x:TYPE`, or `x:TYPE:PART` with "
                f"a part of {', '.join(_PARTS)}, and a type of {', '.join(counts)}"
            )
        kinds.add(kind)
    return [kind for kind in counts if kind in kinds]


def _typed_features(arrays: NpzFile, kind: str, nodes: int) -> Features:
    key = f"{_FEATURES}{kind}"
    matrix: Any = arrays.opened(key) if key in arrays else arrays.matrix(key, separator=":")
    if matrix is None:
        raise SourceError(
            f"`{arrays.path}` has parts of `{key}` but no `{key}:data`; expected "
            f"{', '.join(_PARTS)}"
        )
    if key in arrays:
        matrix = as_array(matrix, arrays.name_of(key))
    if matrix.ndim != 2 or matrix.shape[0] != nodes:
        raise SourceError(
            f"{arrays.name_of(key)} has the shape {tuple(matrix.shape)}; expected {nodes:,} "
            "rows, one for each node of the type, and columns"
        )
    if matrix.dtype.kind not in "fiub":
        raise SourceError(f"{arrays.name_of(key)} holds {matrix.dtype}; expected numbers")
    return matrix  # type: ignore[no-any-return]
