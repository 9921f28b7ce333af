"""Read raw shards: edges in many files of arrays, for graphs too large for one table.

A folder with ``edges-00000.npy``, ``edges-00001.npy`` ... of shape (2, edges) or (edges, 2), or the
same as ``.parquet`` with node numbers in ``source`` and ``target``, else in the first two columns;
``features.npy``, ``labels.npy`` (-1 where
unknown) and optionally ``train.npy``, ``valid.npy``, ``test.npy``. Nodes are numbered from 0, and
labels or features say how many there are. `scr synth --source` writes such folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._edge_source import EdgeSource, JoinedEdges, ParquetEdges, as_edge_source
from scr.sources.readers._raw import RawGraph


def shard_files(folder: Path) -> list[Path]:
    """The files of edges in order, or an empty list."""
    return sorted([*folder.glob("edges-*.npy"), *folder.glob("edges-*.parquet")])


def is_shards(folder: Path) -> bool:
    """Whether a folder holds edges in shards."""
    return bool(shard_files(folder))


def read_shards(folder: Path) -> RawGraph:
    """Read a folder of shards; features stay a memory map, edges are read when they are needed."""
    features = _optional(folder / "features.npy")
    labels = _optional(folder / "labels.npy")
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
        raise SourceError(
            f"`{folder / 'labels.npy'}` is {labels.dtype} of shape {labels.shape}; "
            "expected one whole number per node, -1 where unknown"
        )
    shards = list(_edge_shards(folder))
    return RawGraph(
        name=folder.resolve().name,
        edges=JoinedEdges(shards),
        num_nodes=_num_nodes(folder, features, labels),
        features=features,
        labels=None if labels is None else labels.astype(np.int64, copy=False),
        train=_split(folder, "train"),
        valid=_split(folder, "valid"),
        test=_split(folder, "test"),
        notes=(f"joined {len(shards):,} shards of edges",),
    )


def _edge_shards(folder: Path) -> Iterator[EdgeSource]:
    files = shard_files(folder)
    arrays = {path: _edge_array(path) for path in files if path.suffix == ".npy"}
    shapes = {array.shape for array in arrays.values()} - {(2, 2)}
    # Two edges can be read both ways: they lie as those of all other shards do.
    is_pairs = bool(shapes) and all(shape[0] != 2 for shape in shapes)
    for path in files:
        if path.suffix == ".parquet":
            yield ParquetEdges(path)
            continue
        edges = arrays[path]
        turned = edges.shape[0] != 2 or (edges.shape == (2, 2) and is_pairs)
        yield as_edge_source(edges.T if turned else edges)


def _edge_array(path: Path) -> NDArray[Any]:
    edges = _load(path)
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iu":
        raise SourceError(
            f"`{path}` is {edges.dtype} of shape {edges.shape}; "
            "expected node numbers of shape (2, edges)"
        )
    return edges


def _num_nodes(folder: Path, features: NDArray[Any] | None, labels: NDArray[Any] | None) -> int:
    if features is not None and features.ndim != 2:
        raise SourceError(
            f"`{folder / 'features.npy'}` has the shape {features.shape}; expected "
            "(nodes, features)"
        )
    counts = [len(array) for array in (features, labels) if array is not None]
    if not counts:
        raise SourceError(
            f"`{folder}` has shards of edges but neither `labels.npy` nor `features.npy`, "
            "so the number of nodes is not known"
        )
    if counts[0] != counts[-1]:
        raise SourceError(
            f"`{folder}` has {counts[0]:,} rows of features and {counts[-1]:,} labels; "
            "expected as many of both"
        )
    return counts[0]


def _split(folder: Path, part: str) -> NDArray[np.int64] | None:
    nodes = _optional(folder / f"{part}.npy")
    return None if nodes is None else np.asarray(nodes)


def _optional(path: Path) -> NDArray[Any] | None:
    return _load(path) if path.exists() else None


def _load(path: Path) -> NDArray[Any]:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise SourceError(f"`{path}` cannot be read as an array: {error}") from None
