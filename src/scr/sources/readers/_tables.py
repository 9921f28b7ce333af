"""Read a folder of tables: `edges.csv` and `nodes.csv`, or the same as `.parquet`.

Edges: columns ``source`` and ``target`` (else the first two) and an optional ``weight``. Nodes: an
``id`` (else the first column), a label that may be missing, an optional ``split``, and features:
every other column, or the rows of a `features.npy` beside the table.

Ids are text or whole numbers and come back with the predictions. Arrow's hash lookup turns them
into row numbers, so no Python runs per edge. Large tables of edges are read by batches
(`_table_edges.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.features import read_features
from scr.sources._edge_source import EdgeSource
from scr.sources.readers._columns import (
    class_column,
    column_names,
    id_column,
    number_column,
    plain_integers,
    read_table,
    split_column,
)
from scr.sources.readers._raw import RawGraph
from scr.sources.readers._table_edges import LARGE_BYTES, TableEdges, unknown_id

_SUFFIXES = (".parquet", ".csv")
FEATURES_FILE = "features.npy"
_FEATURE_HINT = "remove the column, or put the features into `features.npy` beside the table"


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """Which columns of a nodes table mean what; none: by the usual name."""

    ids: str | None = None
    """Column of node ids; else ``id``, else the first column."""
    label: str | None = None
    """Column of classes; else ``label``. The word ``none`` says that there are no labels."""
    split: str | None = None
    """Column that says train, valid or test; else ``split`` where there is one. The word ``none``
    says that there is no split."""


def table_file(folder: Path, name: str) -> Path | None:
    """The file of a table, such as `edges.parquet` or `edges.csv`, or none."""
    found = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
    found = [path for path in found if path.is_file()]
    if len(found) > 1:
        raise SourceError(
            f"`{folder}` has both `{found[0].name}` and `{found[1].name}`; expected one of them"
        )
    return found[0] if found else None


def is_tables(folder: Path) -> bool:
    """Whether a folder holds a table of edges or of nodes."""
    return any((folder / f"{n}{s}").is_file() for n in ("edges", "nodes") for s in _SUFFIXES)


def read_tables(
    folder: Path, *, columns: TableColumns | None = None, features: Path | None = None
) -> RawGraph:
    """Read a folder of tables.

    Args:
        folder: Holds `edges` and `nodes`, each as `.csv` or `.parquet`.
        columns: Names of the node table's columns.
        features: A `.npy` with one row per row of the node table; none: `features.npy` in the
            folder, else the columns of the node table.
    """
    columns = columns or TableColumns()
    edges_path, nodes_path = _both_tables(folder)
    nodes, roles = node_table(nodes_path, columns)
    ids = id_column(nodes[roles["id"]], nodes_path)
    edges, weights = _edges(edges_path, ids, nodes_path)
    labels, class_names = (
        class_column(nodes[roles["label"]], nodes_path) if "label" in roles else (None, None)
    )
    split = split_column(nodes[roles["split"]], nodes_path) if "split" in roles else {}
    rest = [name for name in nodes.column_names if name not in roles.values()]
    features = features or _existing(folder / FEATURES_FILE)
    if features is not None:
        matrix: NDArray[Any] | None = read_features(features, nodes.num_rows, f"`{nodes_path}`")
        notes = (f"node columns left out: {', '.join(rest)}",) if rest else ()
    else:
        matrix, notes = feature_columns(nodes, rest, nodes_path), ()
    return RawGraph(
        name=folder.resolve().name,
        edges=edges,
        num_nodes=nodes.num_rows,
        features=matrix,
        labels=labels,
        class_names=class_names,
        ids=ids.to_numpy(zero_copy_only=False),
        weights=weights,
        notes=notes,
        **split,
    )


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _both_tables(folder: Path) -> tuple[Path, Path]:
    edges, nodes = table_file(folder, "edges"), table_file(folder, "nodes")
    if edges is None or nodes is None:
        missing = "edges" if edges is None else "nodes"
        raise SourceError(
            f"`{folder}` has no table of {missing}; "
            f"expected `{missing}.csv` or `{missing}.parquet` in it"
        )
    return edges, nodes


def node_table(path: Path, columns: TableColumns) -> tuple[pa.Table, dict[str, str]]:
    """A table of nodes, and which of its columns has which role.

    Args:
        path: The table.
        columns: Their names.
    """
    names = column_names(path)
    roles = {"id": columns.ids or ("id" if "id" in names else names[0])}
    if columns.label != "none":
        roles["label"] = columns.label or "label"
    if columns.split != "none" and (columns.split is not None or "split" in names):
        roles["split"] = columns.split or "split"
    for role, name in roles.items():
        if name not in names:
            hint = f"name it with `scr ingest TABLES STORE --{role}-column NAME`"
            if role == "label":
                hint += "; the name `none` says that there are no labels"
            raise missing_column(path, name, names, hint)
    return read_table(path, texts=roles.values()), roles


def missing_column(path: Path, name: str, names: list[str], hint: str) -> SourceError:
    """The error for a table without a column that it should have."""
    found = ", ".join(f"`{column}`" for column in names)
    return SourceError(f"`{path}` has no column `{name}`; its columns are {found}", hint=hint)


def _edges(
    path: Path, ids: pa.Array, nodes_path: Path
) -> tuple[NDArray[np.int64] | EdgeSource, NDArray[np.float32] | None]:
    """Edges by row number of the node table, and their weights."""
    ends, weight = edge_columns(path, column_names(path))
    if path.stat().st_size >= LARGE_BYTES and weight is None:
        return TableEdges(path, ends, ids, nodes_path), None
    table = read_table(path, texts=ends)
    rows = [rows_of(table[name], ids, path, name, nodes_path) for name in ends]
    if weight is None:
        return np.stack(rows), None
    hint = "rename the column if it is not the weight of the edge"
    return np.stack(rows), number_column(table[weight], weight, path, hint=hint)


def edge_columns(path: Path, names: list[str]) -> tuple[list[str], str | None]:
    """The columns of sources and targets, and that of the weights if there is one.

    Args:
        path: A table of edges.
        names: Of its columns.
    """
    ends = ["source", "target"] if {"source", "target"} <= set(names) else names[:2]
    if len(ends) < 2:
        raise missing_column(path, "target", names, "edges have a `source` and a `target`")
    return ends, "weight" if "weight" in names and "weight" not in ends else None


def rows_of(
    column: pa.ChunkedArray, ids: pa.Array, path: Path, name: str, nodes_path: Path
) -> NDArray[np.int64]:
    """Row numbers of nodes that a column of edges names by their ids.

    Args:
        column: One end of each edge.
        ids: Of the nodes, in the order of their rows.
        path: The table of edges, for messages.
        name: The column's, for messages.
        nodes_path: The table of nodes, for messages.
    """
    column = plain_integers(column)
    if column.type != ids.type:
        # Numbers on one side and text on the other meet as text.
        column, ids = column.cast(pa.string()), ids.cast(pa.string())
    rows = pc.index_in(column, value_set=ids)
    if rows.null_count:
        first = pc.index(pc.is_null(rows), True).as_py()
        raise unknown_id(path, first, name, column[first].as_py(), nodes_path)
    return np.asarray(rows.to_numpy(), dtype=np.int64)


def feature_columns(
    table: pa.Table, names: list[str], path: Path, *, hint: str = _FEATURE_HINT
) -> NDArray[np.float32] | None:
    """Columns as a matrix of float32, or none if there are none.

    Args:
        table: Of nodes.
        names: Of the columns.
        path: The table, for messages.
        hint: What to do if a column does not hold numbers.
    """
    if not names:
        return None
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        matrix[:, place] = number_column(table[name], name, path, hint=hint)
    return matrix
