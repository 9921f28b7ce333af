"""Read a folder of tables: `edges.csv` and `nodes.csv`, or the same as `.parquet`.

Edges: columns ``source`` and ``target`` (else the first two) and an optional ``weight``. Nodes: an
``id`` (else the first column), a label that may be missing, an optional ``split``, and features:
every other column, or the rows of a `features.npy` beside the table.

Ids are text or whole numbers and come back with the predictions. Large tables of edges are read by
batches (`_table_edges.py`). `_typed_tables.py` reads tables of several types by the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.features import read_features
from scr.sources._options import IngestOptions
from scr.sources.readers._columns import (
    ColumnNames,
    class_column,
    column_names,
    end_column,
    id_column,
    number_column,
    read_table,
    readable,
    split_column,
)
from scr.sources.readers._raw import RawGraph
from scr.sources.readers._table_edges import EDGES_PER_SECOND, TableEdges, id_mapper

LARGE_BYTES = 1 << 28
"""Tables of edges from this size on are read by batches: 256 MiB."""
FEATURES_FILE = "features.npy"
_SUFFIXES = (".parquet", ".csv")
_FEATURE_HINT = "remove the column, or put the features into `features.npy` beside the table"
_WEIGHT_HINT = "rename the column if it is not the weight of the edge"


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes:
    """The nodes of one type, as they were read."""

    ids: pa.Array
    path: Path | None = None
    """Their table; none: only edges name them."""
    features: NDArray[Any] | None = None
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    split: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Columns that have no meaning here."""
    notes: tuple[str, ...] = ()
    """What was decided about the columns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedEdges:
    """The edges of a table by the ids of their ends, as they were read."""

    path: Path
    ends: Mapping[str, pa.ChunkedArray]
    """The columns of sources and targets by their names."""
    weights: NDArray[np.float32] | None


def table_file(folder: Path, name: str) -> Path | None:
    """The file of a table, such as `edges.parquet` or `edges.csv`, or none."""
    files = [path for suffix in _SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    if len(files) > 1:
        raise SourceError(
            f"`{folder}` has both `{files[0].name}` and `{files[1].name}`; expected one of them"
        )
    return files[0] if files else None


def is_tables(folder: Path) -> bool:
    """Whether a folder holds a table of edges or of nodes."""
    return any((folder / f"{n}{s}").is_file() for n in ("edges", "nodes") for s in _SUFFIXES)


def read_tables(folder: Path, options: IngestOptions) -> RawGraph:
    """Read a folder that holds `edges` and `nodes`, each as `.csv` or `.parquet`."""
    paths = {name: table_file(folder, name) for name in ("edges", "nodes")}
    for name, path in paths.items():
        if path is None:
            raise SourceError(
                f"`{folder}` has no table of {name}; expected `{name}.csv` or `{name}.parquet` "
                "in it"
            )
    edges_path, nodes_path = (Path(path) for path in paths.values() if path is not None)
    features = None if options.features is None else Path(options.features)
    if features is None and (folder / FEATURES_FILE).is_file():
        features = folder / FEATURES_FILE
    nodes = read_nodes(nodes_path, options.columns, features, hint=_FEATURE_HINT)
    ends, weight = edge_columns(edges_path)
    numbers_of = id_mapper(nodes.ids, edges_path, nodes_path)
    edges: NDArray[np.int64] | TableEdges
    weights: NDArray[np.float32] | None = None
    if edges_path.stat().st_size >= LARGE_BYTES and weight is None:
        edges = TableEdges(edges_path, ends, numbers_of, EDGES_PER_SECOND)
    else:
        listed = read_edges(edges_path)
        edges = np.stack([numbers_of(column, name, 0) for name, column in listed.ends.items()])
        weights = listed.weights
    return RawGraph(
        name=folder.resolve().name,
        edges=edges,
        num_nodes=len(nodes.ids),
        features=nodes.features,
        labels=nodes.labels,
        class_names=nodes.class_names,
        ids=nodes.ids.to_numpy(zero_copy_only=False),
        weights=weights,
        notes=(
            *nodes.notes,
            *((f"node columns left out: {', '.join(nodes.left_out)}",) if nodes.left_out else ()),
        ),
        **nodes.split,
    )


def read_nodes(
    path: Path, columns: Mapping[str, str], features: Path | Sequence[str] | None, *, hint: str
) -> Nodes:
    """Read a table of nodes.

    `columns` names `id`, `label` and `split`, where they are not the usual ones; the word ``none``
    says that there are no labels, or no split. `features` are a `.npy` with one row per row of the
    table, or names of columns; none: all columns that have no other role. The hint says what to do
    if a feature is not a number.
    """
    names = column_names(path)
    roles = {"id": columns.get("id") or ("id" if "id" in names else names[0])}
    roles["label"] = columns.get("label", "label")
    roles["split"] = columns.get("split", "split" if "split" in names else "none")
    roles = {role: name for role, name in roles.items() if role == "id" or name != "none"}
    for role, name in roles.items():
        if name not in names:
            more = "; the name `none` says that there are no labels" if role == "label" else ""
            raise missing_column(path, name, names, f"name it with `{role}_column`{more}")
        names.check_role(name, f"the {role}", path)
    with readable(path):
        return _read_nodes(path, names, roles, features, hint)


def _read_nodes(
    path: Path,
    names: ColumnNames,
    roles: Mapping[str, str],
    features: Path | Sequence[str] | None,
    hint: str,
) -> Nodes:
    rows = read_table(path, texts=roles.values())
    ids = id_column(rows[roles["id"]], path)
    rest = [name for name in names if name not in roles.values()]
    taken: Sequence[str] = ()
    if isinstance(features, Path):
        matrix: Any = read_features(features, rows.num_rows, f"`{path}`")
    else:
        taken = rest if features is None else features
        matrix = _feature_columns(rows, taken, path, hint)
    labels, class_names = (
        class_column(rows[roles["label"]], path) if "label" in roles else (None, None)
    )
    return Nodes(
        ids=ids,
        path=path,
        features=matrix,
        labels=labels,
        class_names=class_names,
        split=split_column(rows[roles["split"]], path) if "split" in roles else {},
        left_out=tuple(name for name in rest if name not in taken),
        notes=names.notes,
    )


def read_edges(path: Path, weight: str | None = None) -> ListedEdges:
    """Read a table of edges, with the column of weights named, else `weight` if there is."""
    ends, usual = edge_columns(path)
    weight = weight or usual
    if weight is not None:
        column_names(path).check_role(weight, "the weight", path)
    rows = read_table(path, texts=ends)
    weights = None
    if weight is not None:
        if weight not in rows.column_names:
            hint = "`weight` in `graph.toml` names the column"
            raise missing_column(path, weight, rows.column_names, hint)
        with readable(path):
            weights = number_column(rows[weight], weight, path, hint=_WEIGHT_HINT)
    with readable(path):
        columns = {name: end_column(rows[name], name, path) for name in ends}
    return ListedEdges(path=path, ends=columns, weights=weights)


def edge_columns(path: Path) -> tuple[list[str], str | None]:
    """The columns of sources and targets of a table, and that of the weights if there is one."""
    names = column_names(path)
    ends = ["source", "target"] if {"source", "target"} <= set(names) else names[:2]
    if len(ends) < 2:
        raise missing_column(path, "target", names, "edges have a `source` and a `target`")
    for end in ends:
        names.check_role(end, "an end of the edges", path)
    return ends, "weight" if "weight" in names and "weight" not in ends else None


def missing_column(path: Path, name: str, names: list[str], hint: str) -> SourceError:
    """The error for a table without a column that it should have."""
    columns = ", ".join(f"`{column}`" for column in names)
    return SourceError(f"`{path}` has no column `{name}`; its columns are {columns}", hint=hint)


def _feature_columns(
    table: pa.Table, names: Sequence[str], path: Path, hint: str
) -> NDArray[np.float32] | None:
    """Columns as a matrix of float32, or none if there are none."""
    if not names:
        return None
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for number, name in enumerate(names):
        if name not in table.column_names:
            named = "`features` in `graph.toml` names the column"
            raise missing_column(path, name, table.column_names, named)
        matrix[:, number] = number_column(table[name], name, path, hint=hint)
    return matrix
