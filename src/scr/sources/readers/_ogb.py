"""Read the folders that OGB's archives of node-property data unpack to, without the package `ogb`.

    raw/edge.csv.gz  node-feat.csv.gz  node-label.csv.gz    numbers without a header
    raw/num-node-list.csv.gz  num-edge-list.csv.gz          how many rows these files have
    raw/data.npz  node-label.npz                            instead of these in ogbn-papers100M
    split/NAME/{train,valid,test}.csv.gz                    the official split, one node per row
    mapping/labelidx2*.csv.gz                               number and name of each class

ogbn-products lists each undirected edge once; ogbn-arxiv and ogbn-papers100M list citations, from
the citing paper to the cited one. Folders with several types of nodes, of which ogbn-mag is the one
with node labels, are read by `_ogb_typed.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._options import IngestOptions
from scr.sources.readers._gzip_csv import (
    check_matrix,
    count_columns,
    fill_matrix,
    read_cells,
    read_column,
)
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._raw import RawGraph, unexpected_array

UNKNOWN = -1
_LABEL_CHUNK = 1 << 24


def is_ogb(folder: Path) -> bool:
    """Whether a folder has the layout of OGB's node-property data."""
    return (folder / "raw").is_dir() and (folder / "split").is_dir()


def read_ogb(folder: Path, options: IngestOptions) -> RawGraph:
    """Read a folder of OGB's with one type of nodes, with the official split.

    Tables are read into memory. Arrays of an `.npz` become memory maps. Features, by far the
    largest part, are not read where the options have others.
    """
    raw, (names, notes) = folder / "raw", class_names(folder)
    is_binary = (raw / "data.npz").exists()
    read = _read_binary if is_binary else _read_tables
    num_nodes, parts = read(raw, names, with_features=options.features is None)
    if is_binary or (raw / "node_year.csv.gz").exists():
        notes = (*notes, "the years of the nodes were left out")
    split = read_split(folder, num_nodes, notes)
    return RawGraph(num_nodes=num_nodes, class_names=names, **parts, **split)


def _read_tables(
    raw: Path, names: tuple[str, ...] | None, *, with_features: bool
) -> tuple[int, dict[str, Any]]:
    per_node, features = "num-node-list.csv.gz", raw / "node-feat.csv.gz"
    nodes = _one_count(read_column(raw / per_node), f"`{raw / per_node}`")
    has_features = with_features and features.exists()
    return nodes, {
        "edges": read_edges(raw),
        "features": read_features_table(features, nodes, per_node) if has_features else None,
        "labels": read_label_table(raw / "node-label.csv.gz", nodes, per_node, names),
    }


def _read_binary(
    raw: Path, names: tuple[str, ...] | None, *, with_features: bool
) -> tuple[int, dict[str, Any]]:
    data, label_file = NpzFile(raw / "data.npz"), NpzFile(raw / "node-label.npz")
    nodes, edges = (
        _one_count(data.mapped(key), data.name_of(key))
        for key in ("num_nodes_list", "num_edges_list")
    )
    labels = whole_labels(label_file.mapped("node_label"), str(label_file.path), names)
    _check_shape(labels, (nodes,), label_file.name_of("node_label"))
    parts: dict[str, Any] = {"edges": data.mapped("edge_index"), "labels": labels}
    _check_shape(parts["edges"], (2, edges), data.name_of("edge_index"))
    if with_features:
        features = parts["features"] = data.mapped("node_feat")
        _check_shape(features, (nodes, features.shape[-1]), data.name_of("node_feat"))
    return nodes, parts


def _check_shape(array: NDArray[Any], expected: tuple[int, ...], what: str) -> None:
    if array.shape != expected:
        shown = ", ".join(f"{size:,}" for size in expected)
        raise SourceError(
            f"{what} has the shape {array.shape}; expected ({shown}), as the counts in "
            "`data.npz` say"
        )


def class_names(folder: Path) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names of the classes from the folder `mapping`, and what had to be decided about them.

    Names that are empty become the number of the class, and equal names get the number added.
    """
    files = sorted((folder / "mapping").glob("labelidx2*.csv.gz"))
    if not files:
        return None, ()
    cells = [[cell.strip() for cell in row] for row in read_cells(files[0])]
    numbered = (row for row in cells if len(row) > 1 and row[0].isdecimal() and len(row[0]) < 10)
    listed = {int(row[0]): row[-1] for row in numbered}
    if not listed or set(listed) != set(range(len(listed))):
        return None, (f"the classes in {files[0].name} are not numbered from 0: left out",)
    names = [listed[number] or str(number) for number in range(len(listed))]
    repeated = {name for name, times in Counter(names).items() if times > 1}
    return tuple(
        f"{name} ({number})" if name in repeated else name for number, name in enumerate(names)
    ), ()


def read_split(
    folder: Path, num_nodes: int, notes: tuple[str, ...], kind: str = ""
) -> dict[str, Any]:
    """The official split of a folder, with the notes of the graph and its name.

    Where there are several types, the labeled type `kind` has a folder of its own.
    """
    splits = sorted(path for path in (folder / "split").iterdir() if path.is_dir())
    if len(splits) != 1:
        found = ", ".join(path.name for path in splits) or "none"
        raise SourceError(
            f"`{folder / 'split'}` has the folders {found}; expected one, with the official split"
        )
    name, official = folder.resolve().name, splits[0]
    return {
        # `ogbn_products` is `ogbn-products` everywhere else.
        "name": name.replace("_", "-") if name.startswith("ogbn_") else name,
        "notes": (f"took OGB's official split `{official.name}`", *notes),
        **{
            part: _read_part(official / kind / f"{part}.csv.gz", num_nodes)
            for part in ("train", "valid", "test")
        },
    }


def _read_part(path: Path, num_nodes: int) -> NDArray[np.int64] | None:
    """Nodes of one part of a split, in the file's order; none where the file is empty."""
    nodes = read_column(path)
    outside = np.flatnonzero((nodes < 0) | (nodes >= num_nodes))
    if len(outside):
        row = int(outside[0])
        raise SourceError(
            f"`{path}`, row {row + 1}: there is no node {nodes[row]}; "
            f"expected numbers from 0 to {num_nodes - 1}"
        )
    return nodes if len(nodes) else None


def _one_count(counts: NDArray[Any], what: str) -> int:
    """The only number of a list with one entry for each graph."""
    if counts.shape != (1,) or counts[0] < 0:
        raise SourceError(f"{what} is {counts.tolist()[:5]}; expected one number, for one graph")
    return int(counts[0])


def read_edges(folder: Path) -> NDArray[np.int32]:
    """The edges of `edge.csv.gz` in a folder, two node numbers in each row, as (2, edges)."""
    counted_by = "num-edge-list.csv.gz"
    count = _one_count(read_column(folder / counted_by), f"`{folder / counted_by}`")
    check_matrix(folder / "edge.csv.gz", count, 2, np.int32)
    edges = np.empty((2, count), np.int32)
    fill_matrix(folder / "edge.csv.gz", edges.T, counted_by=counted_by)
    return edges


def read_features_table(path: Path, rows: int, counted_by: str) -> NDArray[np.float32]:
    """A file of features; one row per node."""
    columns = count_columns(path)
    check_matrix(path, rows, columns, np.float32)
    features = np.empty((rows, columns), np.float32)
    fill_matrix(path, features, counted_by=counted_by)
    return features


def read_label_table(
    path: Path, rows: int, counted_by: str, names: tuple[str, ...] | None
) -> NDArray[np.int64]:
    """A file of one class number per node, empty where it is unknown."""
    check_matrix(path, rows, 1, np.float64)
    values = np.empty((rows, 1), np.float64)
    fill_matrix(path, values, counted_by=counted_by)
    return whole_labels(values, str(path), names)


def whole_labels(
    values: NDArray[Any], where: str, names: tuple[str, ...] | None
) -> NDArray[np.int64]:
    """Make labels of numbers in which NaN means unknown; none may lie beyond the known classes.

    Values of shape (nodes,) or (nodes, 1) may be a memory map, which is read in chunks.
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise unexpected_array(f"The array of labels in `{where}`", values, "one number per node")
    labels = np.empty(len(values), np.int64)
    most = np.inf if names is None else len(names) - 1
    for start in range(0, len(values), _LABEL_CHUNK):
        part = np.asarray(values[start : start + _LABEL_CHUNK])
        part = np.where(np.isnan(part), UNKNOWN, part)
        is_wrong = (part != np.rint(part)) | (part < UNKNOWN) | (part > most) | ~np.isfinite(part)
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong)[0])
            expected = "0 or more" if names is None else f"from 0 to {most}"
            raise SourceError(
                f"`{where}`, row {start + row + 1}: the label is {part[row]:g}; expected the "
                f"number of a class, {expected}, or nothing"
            )
        labels[start : start + len(part)] = part
    return labels
