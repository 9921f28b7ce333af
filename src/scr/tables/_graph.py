"""From two tables to a graph, with everything that was found in them said at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scr.errors import MemoryBudgetError, SCRError
from scr.graph import Graph
from scr.sources import plain_integers
from scr.tables._edges import EdgeRows, read_edge_rows
from scr.tables._nodes import NodeRows, read_node_rows
from scr.tables._options import Table, TableOptions
from scr.tables._preparation import Preparation
from scr.tables._problems import SHOWN_ROWS, Findings, capital, count
from scr.tables._read import OpenedTable, open_table
from scr.tables._structure import describe_structure

MOST_LINES = 30
"""Columns that are noted one by one."""


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph that was made from two tables."""

    graph: Graph
    """With prepared features, ids and class names, and a split if a column says one."""
    preparation: Preparation | None
    """How columns became features; none if there were no columns to make features of."""
    notes: tuple[str, ...]
    """What was found and what was done, one sentence each."""


def read_table_graph(nodes: Table, edges: Table, options: TableOptions | None = None) -> TableGraph:
    """Read a table of nodes and a table of edges as they are.

    Raises:
        SourceError: One error that lists all problems that only the user can decide.
    """
    options, findings = options or TableOptions(), Findings()
    opened = [
        opened_table(nodes, "table of nodes", options, findings),
        opened_table(edges, "table of edges", options, findings, is_edges=True),
    ]
    rows = None if opened[0] is None else read_node_rows(opened[0], options, findings)
    ids = pa.array([], pa.string()) if rows is None else rows.ids
    linked = None
    if opened[1] is not None and rows is not None:
        linked = read_edge_rows(opened[1], ids, options, findings)
    preparation, features = None, None
    if rows is not None:
        added = 0 if linked is None else len(linked.added)
        if len(ids) + added == 0:
            findings.refuse("no row of the nodes has an id; expected some")
        preparation, features = _prepare(rows.described, added, options, findings)
    findings.raise_errors()
    assert rows is not None  # what could not be read is an error
    assert linked is not None
    graph = _graph(rows, linked, features, options, _name(nodes))
    alone = int(np.count_nonzero(np.diff(graph.indptr) == 0)) if not graph.directed else 0
    if alone:
        findings.note(f"{count(alone, 'node')} without any edge")
    findings.note(*(step for step in graph.steps if "duplicate" in step))
    if preparation is None:
        matrix, sentence = describe_structure(graph)
        findings.note(sentence)
        graph = dataclasses.replace(graph, features=matrix)
    else:
        preparation = dataclasses.replace(preparation, roles=rows.roles)
    notes = tuple(capital(note) for note in findings.notes)
    return TableGraph(graph, preparation, notes)


def opened_table(
    table: Table, role: str, options: TableOptions, findings: Findings, *, is_edges: bool = False
) -> OpenedTable | None:
    """Open a table; what keeps it from being read is one of the findings."""
    try:
        return open_table(
            table, role, delimiter=options.delimiter, encoding=options.encoding, is_edges=is_edges
        )
    except MemoryBudgetError:
        raise
    except SCRError as error:
        findings.refuse(error.message, error.hint)
        return None


def _prepare(
    described: pa.Table, added: int, options: TableOptions, findings: Findings
) -> tuple[Preparation | None, NDArray[Any] | None]:
    """Fit the columns, and features of all nodes; those without a row have missing cells alone."""
    kinds = dict(options.columns)
    unknown = [
        name for name in kinds if name not in described.column_names and kinds[name] != "drop"
    ]
    kinds = {name: kind for name, kind in kinds.items() if name in described.column_names}
    for name in unknown:
        findings.refuse(f"`columns` names `{name}`, which is not a column of the nodes")
    table = with_missing_rows(described, added)
    try:
        given = np.arange(described.num_rows) if added else None
        preparation = Preparation.fit(table, kinds=kinds, train_rows=given)
    except MemoryBudgetError:
        raise
    except SCRError as error:
        findings.refuse(error.message[:1].lower() + error.message[1:], error.hint)
        return None, None
    findings.note(*_column_notes(preparation))
    if not preparation.columns:
        return None, None
    return preparation, preparation.transform(table)


def _column_notes(preparation: Preparation) -> list[str]:
    """A sentence on each column; of many columns, one on all of a kind."""
    lines = preparation.describe()
    if len(lines) <= MOST_LINES:
        return [f"column {line}" for line in lines]
    alike: dict[str, list[str]] = {}
    for column in preparation.columns:
        alike.setdefault(column.kind, []).append(column.name)
    for name, reason in preparation.dropped.items():
        alike.setdefault(f"left out, {reason}", []).append(name)
    return [
        f"{count(len(names), 'column')} ({', '.join(names[:SHOWN_ROWS])}"
        f"{', ...' if len(names) > SHOWN_ROWS else ''}): {what}"
        for what, names in alike.items()
    ]


def with_missing_rows(table: pa.Table, added: int) -> pa.Table:
    """A table with so many more rows, whose cells are all missing."""
    if not added:
        return table
    missing = pa.table([pa.nulls(added, field.type) for field in table.schema], schema=table.schema)
    return pa.concat_tables([table, missing])


def plain_ids(ids: pa.Array) -> NDArray[Any]:
    """Ids as whole numbers if all are, else as text."""
    plain = plain_integers(pa.chunked_array([ids]))
    return np.asarray(plain.to_numpy())


def _graph(
    rows: NodeRows, linked: EdgeRows, features: Any, options: TableOptions, name: str
) -> Graph:
    labels = rows.labels
    if labels is not None and len(linked.added):
        labels = np.concatenate([labels, np.full(len(linked.added), -1)])
    ids = pa.concat_arrays([rows.ids, linked.added])
    return Graph.from_edges(
        linked.edges,
        features=features,
        labels=labels,
        class_names=rows.class_names,
        undirected=not options.directed,
        weights=linked.weights,
        num_nodes=len(ids),
        ids=plain_ids(ids),
        name=name,
        steps=(f"read {linked.edges.shape[1]:,} edges of {len(ids):,} nodes from tables",),
        **rows.split,
    )


def _name(nodes: Table) -> str:
    """What the graph is called: as the file of its nodes, or as the folder of `nodes.csv`."""
    if not isinstance(nodes, str | Path):
        return "tables"
    path = Path(nodes).expanduser().resolve()
    stem = path.name.partition(".")[0]
    return (path.parent.name or stem) if stem.lower() == "nodes" else stem
