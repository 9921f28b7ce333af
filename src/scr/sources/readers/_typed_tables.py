"""Read a folder of tables of several types, which its `graph.toml` describes (`_graph_toml.py`).

Ids are of their type: an author and a paper may both be number 7. Those of a type without a table
are taken from the edges, in the order in which they appear there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._options import IngestOptions
from scr.sources.readers._columns import first_null
from scr.sources.readers._graph_toml import NodeTable, Relation, read_graph_toml
from scr.sources.readers._raw import RawTypedGraph
from scr.sources.readers._table_edges import id_mapper
from scr.sources.readers._tables import ListedEdges, Nodes, read_edges, read_nodes

_FEATURE_HINT = (
    'name the columns that are features in `graph.toml`, such as `features = ["year"]`; '
    "`features = []` says that there are none"
)


def read_typed_tables(folder: Path, options: IngestOptions) -> RawTypedGraph:
    """Read a folder with a `graph.toml`.

    Columns that the options name are those of the target type's table, and win over those in
    `graph.toml`.
    """
    target, tables, edge_tables = read_graph_toml(folder)
    listed = {each.relation: read_edges(each.path, each.weight) for each in edge_tables}

    def nodes_of(kind: str, table: NodeTable) -> Nodes:
        if table.path is None:
            return _nodes_of_edges(kind, listed)
        columns, features = table.columns, table.features
        if kind == target:
            columns = {**columns, **options.columns}
            features = features if options.features is None else ()
        return read_nodes(table.path, columns, features, hint=_FEATURE_HINT)

    nodes = {kind: nodes_of(kind, table) for kind, table in tables.items()}
    return RawTypedGraph(
        name=folder.resolve().name,
        num_nodes={kind: len(each.ids) for kind, each in nodes.items()},
        relations={each: _numbers(each, edges, nodes) for each, edges in listed.items()},
        features={kind: each.features for kind, each in nodes.items() if each.features is not None},
        target=target,
        labels=nodes[target].labels,
        class_names=nodes[target].class_names,
        ids=nodes[target].ids.to_numpy(zero_copy_only=False),
        weights={
            each: edges.weights for each, edges in listed.items() if edges.weights is not None
        },
        notes=(
            *(note for each in nodes.values() for note in each.notes),
            *(
                f"columns of {each.path.name} left out: {', '.join(each.left_out)}"
                for each in nodes.values()
                if each.path is not None and each.left_out
            ),
        ),
        **nodes[target].split,
    )


def _nodes_of_edges(kind: str, listed: Mapping[Relation, ListedEdges]) -> Nodes:
    """All ids that edges name, whole numbers if all are and text if not."""
    columns = []
    for (source, _, target), edges in listed.items():
        for end, (name, column) in zip((source, target), edges.ends.items(), strict=True):
            if end != kind:
                continue
            # In a CSV, where all ids are text, nothing is empty text.
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            nothing = pa.scalar(None, column.type)
            ids = pc.if_else(pc.equal(column, ""), nothing, column) if is_text else column
            row = first_null(ids)
            if row >= 0:
                raise SourceError(
                    f"`{edges.path}`, row {row + 1}: the {name} is empty; "
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
    return Nodes(ids=pc.unique(pa.chunked_array(chunks, type=columns[0].type)))


def _numbers(
    relation: Relation, edges: ListedEdges, nodes: Mapping[str, Nodes]
) -> NDArray[np.int64]:
    """Edges by row number of their types' nodes."""
    rows = []
    for kind, (name, column) in zip((relation[0], relation[2]), edges.ends.items(), strict=True):
        numbers_of = id_mapper(nodes[kind].ids, edges.path, nodes[kind].path or edges.path)
        rows.append(numbers_of(column, name, 0))
    return np.stack(rows)
