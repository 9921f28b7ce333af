"""Read the folders that OGB's archives of node-property data unpack to, without the package `ogb`.

    raw/edge.csv.gz  node-feat.csv.gz  node-label.csv.gz  num-node-list.csv.gz  num-edge-list.csv.gz
    raw/data.npz  node-label.npz                 instead of these in ogbn-papers100M
    raw/triplet-type-list.csv.gz ...             in ogbn-mag, see `_ogb_typed.py`
    split/NAME/{train,valid,test}.csv.gz         the official split
    mapping/                                     names of the classes

ogbn-products lists each undirected edge once; ogbn-arxiv and ogbn-papers100M list citations, from
the citing paper to the cited one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._npz_members import open_member
from scr.sources.readers._ogb_parts import (
    class_names,
    graph_name,
    one_count,
    read_count,
    read_edge_table,
    read_features_table,
    read_label_table,
    read_split,
    split_folder,
    whole_labels,
)
from scr.sources.readers._ogb_typed import is_ogb_typed, read_ogb_typed
from scr.sources.readers._raw import RawGraph, RawTypedGraph


def is_ogb(folder: Path) -> bool:
    """Whether a folder has the layout of OGB's node-property data."""
    return (folder / "raw").is_dir() and (folder / "split").is_dir()


def read_ogb(folder: Path, *, with_features: bool = True) -> RawGraph | RawTypedGraph:
    """Read a folder of OGB's, with the official split.

    Tables are read into memory. Arrays of an `.npz` become memory maps.

    Args:
        folder: Has `raw` and `split` in it.
        with_features: Whether to read the features, by far the largest part.
    """
    if is_ogb_typed(folder):
        return read_ogb_typed(folder, with_features=with_features)
    if (folder / "raw" / "data.npz").exists():
        return _read_binary(folder, with_features=with_features)
    return _read_tables(folder, with_features=with_features)


def _read_tables(folder: Path, *, with_features: bool) -> RawGraph:
    raw = folder / "raw"
    nodes = read_count(raw / "num-node-list.csv.gz")
    edges = read_count(raw / "num-edge-list.csv.gz")
    names, notes = class_names(folder)
    features_file = raw / "node-feat.csv.gz"
    per_node = "num-node-list.csv.gz"
    return _raw_graph(
        folder,
        edges=read_edge_table(raw / "edge.csv.gz", edges, "num-edge-list.csv.gz"),
        num_nodes=nodes,
        features=read_features_table(features_file, nodes, per_node)
        if with_features and features_file.exists()
        else None,
        labels=read_label_table(raw / "node-label.csv.gz", nodes, per_node, names),
        class_names=names,
        notes=(*notes, *_left_out((raw / "node_year.csv.gz").exists())),
    )


def _read_binary(folder: Path, *, with_features: bool) -> RawGraph:
    data, label_file = folder / "raw" / "data.npz", folder / "raw" / "node-label.npz"
    nodes = one_count(open_member(data, "num_nodes_list"), f"`num_nodes_list` in `{data}`")
    edges = one_count(open_member(data, "num_edges_list"), f"`num_edges_list` in `{data}`")
    names, notes = class_names(folder)
    labels = whole_labels(open_member(label_file, "node_label"), str(label_file), names)
    _check_shape(labels, (nodes,), "node_label", label_file)
    return _raw_graph(
        folder,
        edges=_check_shape(open_member(data, "edge_index"), (2, edges), "edge_index", data),
        num_nodes=nodes,
        features=_check_shape(open_member(data, "node_feat"), (nodes, None), "node_feat", data)
        if with_features
        else None,
        labels=labels,
        class_names=names,
        notes=(*notes, *_left_out(True)),
    )


def _raw_graph(folder: Path, *, num_nodes: int, **parts: Any) -> RawGraph:
    official = split_folder(folder)
    notes = (f"took OGB's official split `{official.name}`", *parts.pop("notes"))
    return RawGraph(
        name=graph_name(folder),
        num_nodes=num_nodes,
        notes=notes,
        **parts,
        **read_split(official, num_nodes),
    )


def _left_out(has_years: bool) -> tuple[str, ...]:
    return ("the years of the nodes were left out",) if has_years else ()


def _check_shape(
    array: NDArray[Any], expected: tuple[int | None, ...], key: str, path: Path
) -> NDArray[Any]:
    fits = len(array.shape) == len(expected) and all(
        size in (None, found) for found, size in zip(array.shape, expected, strict=True)
    )
    if not fits:
        shown = ", ".join("any" if size is None else f"{size:,}" for size in expected)
        raise SourceError(
            f"`{key}` in `{path}` has the shape {array.shape}; expected ({shown}), as the counts "
            "in `data.npz` say"
        )
    return array
