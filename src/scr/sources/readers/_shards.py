"""Read raw shards: edges in many files of arrays, for graphs too large for one table.

A folder with ``edges-00000.npy``, ``edges-00001.npy`` ... of shape (2, edges) or (edges, 2), or the
same as ``.parquet`` with node numbers in ``source`` and ``target``, else in the first two columns;
``features.npy``, ``labels.npy`` (-1 where unknown) and optionally ``train.npy``, ``valid.npy``,
``test.npy``. Nodes are numbered from 0, and labels or features say how many there are. `scr synth
--source` writes such folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._edge_source import EdgeSource, JoinedEdges, as_edge_source
from scr.sources.readers._columns import readable
from scr.sources.readers._raw import RawGraph, as_labels, unexpected_array
from scr.sources.readers._table_edges import TableEdges
from scr.sources.readers._tables import edge_columns
from scr.storage import check_plain, map_array

PARQUET_EDGES_PER_SECOND = 9e6
"""Measured on one busy core; for estimates of time only."""


def shard_files(folder: Path) -> list[Path]:
    """The files of edges in order, or an empty list."""
    return sorted([*folder.glob("edges-*.npy"), *folder.glob("edges-*.parquet")])


def is_shards(folder: Path) -> bool:
    """Whether a folder holds edges in shards."""
    return bool(shard_files(folder))


def read_shards(folder: Path) -> RawGraph:
    """Read a folder of shards; features stay a memory map, edges are read when they are needed."""
    names = ("features", "labels", "train", "valid", "test")
    arrays: dict[str, Any] = {
        name: _load(file) for name in names if (file := folder / f"{name}.npy").exists()
    }
    features, labels = arrays.pop("features", None), arrays.pop("labels", None)
    splits: dict[str, Any] = {part: np.asarray(nodes) for part, nodes in arrays.items()}
    if labels is not None:
        labels = as_labels(labels, f"`{folder / 'labels.npy'}`")
    shards = list(_edge_shards(folder))
    return RawGraph(
        name=folder.resolve().name,
        edges=JoinedEdges(shards),
        num_nodes=_num_nodes(folder, features, labels),
        features=features,
        labels=labels,
        notes=(f"joined {len(shards):,} shards of edges",),
        **splits,
    )


def _edge_shards(folder: Path) -> Iterator[EdgeSource]:
    files = shard_files(folder)
    arrays = {path: _load(path) for path in files if path.suffix == ".npy"}
    for path, edges in arrays.items():
        if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iu":
            raise unexpected_array(f"`{path}`", edges, "node numbers of shape (2, edges)")
    shapes = {array.shape for array in arrays.values()} - {(2, 2)}
    # Two edges can be read both ways: they lie as those of all other shards do.
    is_pairs = bool(shapes) and all(shape[0] != 2 for shape in shapes)
    for path in files:
        if path.suffix == ".parquet":
            yield _parquet_edges(path)
            continue
        edges = arrays[path]
        turned = edges.shape[0] != 2 or (edges.shape == (2, 2) and is_pairs)
        yield as_edge_source(edges.T if turned else edges)


def _parquet_edges(path: Path) -> TableEdges:
    with readable(path):
        check_plain(path)
        schema = pyarrow.parquet.read_schema(path)
    ends, _ = edge_columns(path)
    if not all(pa.types.is_integer(schema.field(name).type) for name in ends):
        raise SourceError(
            f"`{path}` has the columns {schema.names}; expected two columns of node numbers"
        )

    def numbers_of(column: pa.ChunkedArray, _name: str, _row: int) -> NDArray[np.int64]:
        if column.null_count:
            raise SourceError(f"`{path}` has an edge without both ends; expected two numbers")
        return np.asarray(column.to_numpy(), dtype=np.int64)

    return TableEdges(path, ends, numbers_of, PARQUET_EDGES_PER_SECOND)


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


def _load(path: Path) -> NDArray[Any]:
    return map_array(path, what="an array", error=SourceError)
