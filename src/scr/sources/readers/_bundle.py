"""Read the `.npz` bundle of one type of nodes: plain arrays for a whole graph, no pickles.

``edge_index`` (2, edges); features as dense ``x`` or CSR parts ``x_data``, ``x_indices``,
``x_indptr``, ``x_shape``; ``y`` with -1 where unknown; optional ``train_idx``, ``val_idx``,
``test_idx``, ``label_names``, ``node_names``. Several public splits may lie side by side as packed
masks, one row per split (``all_train_masks_packbits`` and so on).

`_typed_bundle.py` reads bundles of several types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._raw import Features, RawGraph


def is_bundle(keys: set[str]) -> bool:
    """Whether an .npz with these arrays is a bundle of one node type."""
    return "edge_index" in keys


def read_bundle(path: Path, *, split: int | None = None) -> RawGraph:
    """Read a bundle.

    Args:
        path: The `.npz` file.
        split: Which of several public splits; none: the file's own, which is the first.
    """
    arrays = NpzFile(path)
    edges = bundle_edges(arrays, "edge_index")
    labels = bundle_labels(arrays)
    features = _features(arrays)
    num_nodes = _num_nodes(edges, labels, features)
    return RawGraph(
        name=path.stem,
        edges=edges,
        num_nodes=num_nodes,
        features=features,
        labels=labels,
        class_names=bundle_names(arrays, "label_names"),
        ids=np.asarray(arrays["node_names"]) if "node_names" in arrays else None,
        notes=_notes(arrays),
        train=bundle_split(arrays, "train", num_nodes, split),
        valid=bundle_split(arrays, "val", num_nodes, split),
        test=bundle_split(arrays, "test", num_nodes, split),
    )


def bundle_edges(arrays: NpzFile, key: str) -> NDArray[Any]:
    """The edges of an array, in the type that the file has them in."""
    edges = np.asarray(arrays.opened(key))
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise SourceError(
            f"`{key}` in `{arrays.path}` is {edges.dtype} of shape {edges.shape}; "
            "expected whole numbers of shape (2, edges)"
        )
    return edges


def bundle_labels(arrays: NpzFile) -> NDArray[np.int64] | None:
    """The classes ``y``, if there are any."""
    if "y" not in arrays:
        return None
    labels = np.asarray(arrays["y"])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise SourceError(
            f"`y` in `{arrays.path}` is {labels.dtype} of shape {labels.shape}; "
            "expected one whole number per node, -1 where unknown"
        )
    return labels.astype(np.int64)


def _features(arrays: NpzFile) -> Features | None:
    if "x" in arrays:
        return np.asarray(arrays.opened("x"))
    return arrays.matrix("x")


def _num_nodes(
    edges: NDArray[Any], labels: NDArray[np.int64] | None, features: Features | None
) -> int:
    if labels is not None:
        return len(labels)
    if features is not None:
        return int(features.shape[0])
    return int(edges.max()) + 1 if edges.size else 0


def bundle_names(arrays: NpzFile, key: str) -> tuple[str, ...] | None:
    """Names such as ``label_names``, if there are any."""
    return tuple(str(name) for name in arrays[key]) if key in arrays else None


def _notes(arrays: NpzFile) -> tuple[str, ...]:
    notes = []
    if "edge_type" in arrays:
        notes.append("edge types were left out: all edges count alike")
    if "directed" in arrays:
        kind = "directed" if arrays.number("directed", 0) else "undirected"
        once = "" if arrays.number("both_directions", 1) else ", each edge stored once"
        notes.append(f"the file says the graph is {kind}{once}")
    return tuple(notes)


def bundle_split(
    arrays: NpzFile, part: str, num_nodes: int, split: int | None
) -> NDArray[np.int64] | None:
    """The nodes of one part of the split, or none if the file does not say.

    Args:
        arrays: The bundle.
        part: ``train``, ``val`` or ``test``.
        num_nodes: How many nodes can be in it.
        split: Which of several public splits; none: the file's own.
    """
    if split is not None and f"all_{part}_masks_packbits" in arrays:
        return _packed_mask(arrays, part, num_nodes, split)
    if split is not None:
        raise SourceError(
            f"`{arrays.path}` has no numbered splits, so split {split} cannot be taken from it",
            hint="give a file of splits (`splits`)",
        )
    return np.asarray(arrays[f"{part}_idx"]) if f"{part}_idx" in arrays else None


def _packed_mask(arrays: NpzFile, name: str, num_nodes: int, split: int) -> NDArray[np.int64]:
    packed = np.asarray(arrays[f"all_{name}_masks_packbits"])
    if not 0 <= split < len(packed):
        raise SourceError(
            f"`{arrays.path}` has splits 0 to {len(packed) - 1}; split {split} was asked for"
        )
    return np.flatnonzero(np.unpackbits(packed[split], count=num_nodes))
