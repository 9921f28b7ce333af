"""Read a folder of tables of several types, which its `graph.toml` describes (`_graph_toml.py`).

Ids are of their type: an author and a paper may both be number 7. Those of a type without a table
are taken from the edges, in the order in which they appear there. As in `tables.py`, Arrow's hash
lookup turns ids into row numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.features import read_features
from scr.sources.readers._columns import (
    class_column,
    column_names,
    id_column,
    number_column,
    plain_integers,
    read_table,
    split_column,
)
from scr.sources.readers._graph_toml import EdgeTable, NodeTable, read_graph_toml
from scr.sources.readers._raw import Features, RawTypedGraph
from scr.sources.readers._tables import (
    TableColumns,
    edge_columns,
    feature_columns,
    missing_column,
    node_table,
    rows_of,
)

_WEIGHT_HINT = "rename the column if it is not the weight of the edge"


def read_typed_tables(
    folder: Path, *, columns: TableColumns | None = None, with_features: bool = True
) -> RawTypedGraph:
    """Read a folder with a `graph.toml`.

    Args:
        folder: Holds `graph.toml` and the tables that it describes.
        columns: Names of columns of the target type's table, which win over those in `graph.toml`.
        with_features: Whether to read the features of the target type.
    """
    described = read_graph_toml(folder)
    target = described.target
    tables = dict(described.nodes)
    tables[target] = _with_columns(tables[target], columns or TableColumns())
    listed = [_read_edges(each) for each in described.edges]
    nodes = {
        kind: _nodes_of_edges(kind, listed)
        if table.path is None
        else _read_nodes(table, with_features=with_features or kind != target)
        for kind, table in tables.items()
    }
    relations = {each.table.relation: _numbers(each, nodes) for each in listed}
    return RawTypedGraph(
        name=folder.resolve().name,
        num_nodes={kind: len(each.ids) for kind, each in nodes.items()},
        relations=relations,
        features={kind: each.features for kind, each in nodes.items() if each.features is not None},
        target=target,
        labels=nodes[target].labels,
        class_names=nodes[target].class_names,
        ids=nodes[target].ids.to_numpy(zero_copy_only=False),
        weights={each.table.relation: each.weights for each in listed if each.weights is not None},
        notes=tuple(note for each in nodes.values() for note in each.notes),
        **nodes[target].split,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Nodes:
    """The nodes of a type, as they were read."""

    ids: pa.Array
    path: Path | None = None
    features: Features | None = None
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    split: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Listed:
    """The edges of a relation by the ids of their ends, as they were read."""

    table: EdgeTable
    names: list[str]
    """The columns of sources and targets."""
    ends: list[pa.ChunkedArray]
    weights: NDArray[np.float32] | None

    def of_type(self, kind: str) -> list[tuple[str, pa.ChunkedArray]]:
        """The columns, with their names, that hold nodes of a type."""
        source, _, target = self.table.relation
        named = zip((source, target), self.names, self.ends, strict=True)
        return [(name, column) for end, name, column in named if end == kind]


def _with_columns(table: NodeTable, given: TableColumns) -> NodeTable:
    own = table.columns
    columns = TableColumns(
        ids=given.ids or own.ids, label=given.label or own.label, split=given.split or own.split
    )
    return dataclasses.replace(table, columns=columns)


def _read_nodes(table: NodeTable, *, with_features: bool) -> _Nodes:
    path = table.path
    if path is None:
        raise ValueError("there is no table")
    rows, roles = node_table(path, table.columns)
    ids = id_column(rows[roles["id"]], path)
    labels, class_names = (
        class_column(rows[roles["label"]], path) if "label" in roles else (None, None)
    )
    rest = [name for name in rows.column_names if name not in roles.values()]
    features, taken = _features(table, path, rows, rest) if with_features else (None, [])
    left_out = [name for name in rest if name not in taken]
    return _Nodes(
        ids=ids,
        path=path,
        features=features,
        labels=labels,
        class_names=class_names,
        split=split_column(rows[roles["split"]], path) if "split" in roles else {},
        notes=(f"columns of {path.name} left out: {', '.join(left_out)}",) if left_out else (),
    )


def _features(
    table: NodeTable, path: Path, rows: pa.Table, rest: list[str]
) -> tuple[Features | None, list[str]]:
    """Features of a type, and the columns that they are."""
    if isinstance(table.features, Path):
        return read_features(table.features, rows.num_rows, f"`{path}`"), []
    columns = rest if table.features is None else list(table.features)
    for name in columns:
        if name not in rows.column_names:
            raise missing_column(
                path, name, rows.column_names, "`features` in `graph.toml` names the column"
            )
    hint = (
        'name the columns that are features in `graph.toml`, such as `features = ["year"]`; '
        "`features = []` says that there are none"
    )
    return feature_columns(rows, columns, path, hint=hint), columns


def _read_edges(table: EdgeTable) -> _Listed:
    names = column_names(table.path)
    ends, weight = edge_columns(table.path, names)
    if table.weight is not None:
        if table.weight not in names:
            raise missing_column(
                table.path, table.weight, names, "`weight` in `graph.toml` names the column"
            )
        weight = table.weight
    rows = read_table(table.path, texts=ends)
    columns = [plain_integers(rows[name]) for name in ends]
    weights = None
    if weight is not None:
        weights = number_column(rows[weight], weight, table.path, hint=_WEIGHT_HINT)
    return _Listed(table, ends, columns, weights)


def _nodes_of_edges(kind: str, listed: list[_Listed]) -> _Nodes:
    """All ids that edges name, whole numbers if all are and text if not."""
    columns = []
    for each in listed:
        for name, column in each.of_type(kind):
            row = _first_empty(column)
            if row is not None:
                raise SourceError(
                    f"`{each.table.path}`, row {row + 1}: the {name} is empty; "
                    f"expected the id of a node `{kind}`"
                )
            columns.append(column)
    if not columns:
        raise SourceError(
            f"The type `{kind}` has neither a table of nodes nor edges; expected one of them",
            hint=f"remove the section [nodes.{kind}]",
        )
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.string()) for column in columns]
    chunks = [chunk for column in columns for chunk in column.chunks]
    return _Nodes(ids=pc.unique(pa.chunked_array(chunks, type=columns[0].type)))


def _first_empty(column: pa.ChunkedArray) -> int | None:
    """The first row without an id: nothing, or in a CSV, where all ids are text, no letter."""
    is_empty = pc.is_null(column)
    if not pa.types.is_integer(column.type):
        text = pc.fill_null(column.cast(pa.string()), "")
        is_empty = pc.equal(text, "")
    row: int = pc.index(is_empty, True).as_py()
    return None if row < 0 else row


def _numbers(listed: _Listed, nodes: Mapping[str, _Nodes]) -> NDArray[np.int64]:
    """Edges by row number of their types' nodes."""
    source, _, target = listed.table.relation
    rows = []
    for kind, name, column in zip((source, target), listed.names, listed.ends, strict=True):
        known = nodes[kind]
        rows.append(
            rows_of(column, known.ids, listed.table.path, name, known.path or listed.table.path)
        )
    return np.stack(rows)
