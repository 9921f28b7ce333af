"""Tables of nodes that were not there when a model was trained, with their edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.errors import SCRError
from scr.tables._edges import EdgeRows, read_edge_rows
from scr.tables._graph import opened_table, plain_ids, with_missing_rows
from scr.tables._nodes import id_texts, read_node_rows
from scr.tables._options import Table, TableOptions
from scr.tables._preparation import Preparation
from scr.tables._problems import Findings, capital, count


@dataclass(frozen=True, eq=False)
class NewTables:
    """New nodes and edges, numbered after the nodes that are known."""

    ids: NDArray[Any]
    """Of the new nodes, whole numbers or text."""
    features: NDArray[np.float32] | None
    """Of the new nodes; none where there is no preparation."""
    edges: NDArray[np.int64]
    """Shape (2, edges). Known nodes are 0 to n - 1, new ones follow."""
    weights: NDArray[np.float32] | None
    notes: tuple[str, ...]
    """What was found and what was done, one sentence each."""


def read_new_nodes(
    nodes: Table,
    edges: Table | None,
    preparation: Preparation | None,
    known_ids: Any,
    options: TableOptions | None = None,
) -> NewTables:
    """Read tables of new nodes, and of edges among them and to known ones.

    Args:
        nodes: Rows of known ids are left out, and counted.
        edges: None: the new nodes have no edges.
        preparation: How columns become features, as fitted; none: the graph has no columns.
        known_ids: Ids of the graph's nodes, in the order of their numbers.
        options: As for the tables that the graph was made from; labels and splits are not read.

    Raises:
        SourceError: One error that lists all problems that only the user can decide.
    """
    options, findings = options or TableOptions(), Findings()
    known = id_texts(pa.chunked_array([pa.array(np.asarray(known_ids).tolist())]))
    opened = opened_table(nodes, "table of new nodes", options, findings)
    listed = None
    if edges is not None:
        listed = opened_table(edges, "table of new edges", options, findings, is_edges=True)
    rows = None
    if opened is not None:
        roles = {} if preparation is None else preparation.roles
        options = _with_roles(options, roles, opened.rows.column_names)
        rows = read_node_rows(opened, options, findings, is_labeled=False)
    findings.raise_errors()
    assert rows is not None  # what could not be read is an error
    is_new = pc.invert(pc.is_in(rows.ids, value_set=known))
    ids, described = rows.ids.filter(is_new), rows.described.filter(is_new)
    repeated = len(rows.ids) - len(ids)
    if repeated:
        findings.note(f"{count(repeated, 'row')} of nodes that the graph has already left out")
    every = pa.concat_arrays([known, ids])
    linked = EdgeRows(np.zeros((2, 0), np.int64), None, pa.array([], pa.string()))
    if listed is not None:
        linked = read_edge_rows(listed, every, options, findings) or linked
    features = _features(with_missing_rows(described, len(linked.added)), preparation, findings)
    findings.raise_errors()
    return NewTables(
        ids=plain_ids(pa.concat_arrays([ids, linked.added])),
        features=features,
        edges=linked.edges,
        weights=linked.weights,
        notes=tuple(capital(note) for note in findings.notes),
    )


def _with_roles(options: TableOptions, roles: Mapping[str, str], names: list[str]) -> TableOptions:
    """Options that name the columns which had the roles before, unless the user names others."""
    found = {role: name for role, name in roles.items() if role == "id" or name in names}
    return dataclasses.replace(
        options,
        id_column=options.id_column or found.get("id"),
        label=options.label if options.label in names else found.get("label"),
        split_column=options.split_column if options.split_column in names else found.get("split"),
    )


def _features(
    described: pa.Table, preparation: Preparation | None, findings: Findings
) -> NDArray[np.float32] | None:
    if preparation is None:
        return None
    unused = preparation.unused(described)
    if unused:
        listed = ", ".join(f"`{name}`" for name in unused)
        findings.note(f"columns that the model does not know were ignored: {listed}")
    try:
        return preparation.transform(described)
    except SCRError as error:
        findings.refuse(error.message[:1].lower() + error.message[1:], error.hint)
        return None
