"""Open a store: from the arrays and the metadata that `_store.py` describes to a `Graph`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.graph._graph import Graph
from scr.graph._store import ARRAYS, KIND, OPTIONAL, SCHEMA
from scr.graph._store_content import StoreContent, StoreDescription, describe_store
from scr.graph._validation import warn_missing_classes
from scr.storage import Manifest, array_file, open_array, read_manifest, verify, verify_once


def open_store(path: str | Path) -> Graph:
    """Open a store; its arrays are memory maps and are read when they are used.

    A store that is not known to be as it was written is read whole once: checksums, and the range
    of every number.
    """
    manifest = read_manifest(path, KIND, schema=SCHEMA)
    described = describe_store(manifest)
    verify_once(manifest, _content(manifest, described))
    present = [name for name in ARRAYS if name in manifest.arrays or name not in OPTIONAL]
    arrays: dict[str, Any] = {name: open_array(manifest, name) for name in present}
    names = [*described.node_types]
    arrays["features"] = _open_features(manifest, described, 0)
    arrays["other_features"] = {
        names[number]: _open_features(manifest, described, number)
        for number in range(1, len(names))
        if described.columns[number]
    }
    graph = Graph(
        **arrays, node_types=described.node_types, relations=described.relations,
        class_names=described.class_names, name=described.name, directed=described.directed,
        steps=described.steps, path=Path(path),
    )  # fmt: skip
    warn_missing_classes(graph)
    return graph


def verify_store(path: str | Path) -> Manifest:
    """Read every byte of a store: checksums, and the range of every number."""
    manifest = read_manifest(path, KIND, schema=SCHEMA)
    return verify(path, _content(manifest, describe_store(manifest)))


def _content(manifest: Manifest, described: StoreDescription) -> StoreContent:
    arrays = {name: (entry.shape, np.dtype(entry.dtype)) for name, entry in manifest.arrays.items()}
    return StoreContent(
        described, arrays, partial(open_array, manifest),
        where=lambda name: f"`{array_file(manifest, name)}`",
    )  # fmt: skip


def _open_features(
    manifest: Manifest, described: StoreDescription, number: int
) -> NDArray[Any] | sp.csr_array | None:
    suffix = f".{number}" if number else ""
    columns = described.columns[number]
    if described.sparse[number]:
        names = [f"features_{part}{suffix}" for part in ("data", "indices", "indptr")]
        shape = [*described.node_types.values()][number], columns
        return sp.csr_array(tuple(open_array(manifest, name) for name in names), shape=shape)
    return open_array(manifest, f"features{suffix}") if columns else None
