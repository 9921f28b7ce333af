"""Open a store: from the arrays and the metadata that `_store.py` describes to a `Graph`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.graph._graph import Graph
from scr.graph._relations import Relation
from scr.graph._store import ARRAYS, KIND, OPTIONAL, SCHEMA
from scr.graph._validation import warn_missing_classes
from scr.storage import Manifest, open_array, read_manifest


def open_store(path: str | Path) -> Graph:
    """Open a store; its arrays are memory maps and are read when they are used."""
    manifest = read_manifest(path, KIND, schema=SCHEMA)
    try:
        types, listed = manifest.metadata["node_types"], manifest.metadata["relations"]
        shapes = [(int(kind["nodes"]), int(kind["features"])) for kind in types]
        sparse = [bool(kind["sparse_features"]) for kind in types]
        names = [str(kind["name"]) for kind in types]
        if len(set(names)) != len(names) or names[0] != manifest.metadata["target_type"]:
            raise ValueError("two types of one name, or another one than the target first")
        if len({bool(each["directed"]) for each in listed}) != 1:
            raise ValueError("relations with and without directions")
        described: dict[str, Any] = {
            "node_types": {name: nodes for name, (nodes, _) in zip(names, shapes, strict=True)},
            "relations": tuple(
                Relation(str(each["source"]), str(each["name"]), str(each["target"]))
                for each in listed
            ),
            "class_names": tuple(manifest.metadata["class_names"]),
            "name": manifest.metadata["name"],
            "directed": bool(listed[0]["directed"]),
            "steps": tuple(manifest.metadata["steps"]),
        }
    except (KeyError, ValueError, TypeError, IndexError):
        raise StoreError(f"`{path}` does not describe its node types and relations") from None
    present = [name for name in ARRAYS if name in manifest.arrays or name not in OPTIONAL]
    arrays: dict[str, Any] = {name: open_array(manifest, name) for name in present}
    arrays["features"] = _open_features(manifest, shapes[0], sparse[0])
    arrays["other_features"] = {
        names[number]: _open_features(manifest, shapes[number], sparse[number], f".{number}")
        for number in range(1, len(names))
        if shapes[number][1]
    }
    graph = Graph(**arrays, **described, path=Path(path))
    warn_missing_classes(graph)
    return graph


def _open_features(
    manifest: Manifest, shape: tuple[int, int], is_sparse: bool, suffix: str = ""
) -> NDArray[Any] | sp.csr_array | None:
    if is_sparse:
        names = [f"features_{part}{suffix}" for part in ("data", "indices", "indptr")]
        return sp.csr_array(tuple(open_array(manifest, name) for name in names), shape=shape)
    return open_array(manifest, f"features{suffix}") if shape[1] else None
