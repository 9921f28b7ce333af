"""The table of edges: which columns are the ends, which the weight, and which nodes they name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.tables._nodes import find_name, id_texts, refuse_repeated
from scr.tables._options import NO_COLUMN, TableOptions
from scr.tables._problems import Findings, count, rows_text
from scr.tables._read import OpenedTable, lacks_header
from scr.tables.columns import UnfitColumn, parse_numbers, style_of

END_NAMES = (
    ("source", "target"), ("src", "dst"), ("from", "to"), ("source_id", "target_id"),
    ("src_id", "dst_id"), ("from_id", "to_id"), ("head", "tail"), ("node1", "node2"),
    ("id1", "id2"), ("u", "v"), ("citing", "cited"),
)  # fmt: skip
"""Usual names of the two columns of edges."""
_NO_WEIGHT = ("time", "date", "year", "stamp", "id", "type", "kind")
"""Names of numeric columns that are no weights hold one of these."""


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Edges between known nodes, by their numbers."""

    edges: NDArray[np.int64]
    """Shape (2, edges)."""
    weights: NDArray[np.float32] | None
    added: pa.Array
    """Ids of nodes that only edges name, if they are to be added; they are numbered last."""


def read_edge_rows(
    opened: OpenedTable, ids: pa.Array, options: TableOptions, findings: Findings
) -> EdgeRows | None:
    """Edges between nodes of these ids, which are text; none if there are no two columns."""
    findings.note(*opened.notes)
    opened = _with_header(opened, findings)
    table = opened.rows
    ends = _end_columns(opened, findings)
    if ends is None:
        return None
    for end in ends:
        refuse_repeated(opened, end, "an end of the edges", findings)
    weights = _weights(opened, ends, options, findings)
    try:
        sides = [id_texts(table[end]) for end in ends]
    except UnfitColumn as error:
        findings.refuse(f"a column of ends of {opened.name} {error}")
        return None
    empty = np.zeros(table.num_rows, bool)
    for side in sides:
        empty |= np.asarray(side.is_null().to_numpy(zero_copy_only=False))
    if empty.any():
        rows = np.flatnonzero(empty)
        findings.note(f"{count(len(rows), 'edge')} without both ends dropped ({rows_text(rows)})")
    numbers, added = _numbers(sides, ids, ~empty, opened, options, findings)
    kept = (numbers >= 0).all(axis=0)
    edges = np.ascontiguousarray(numbers[:, kept])
    loops = np.flatnonzero(kept & (numbers[0] == numbers[1]))
    if len(loops):
        findings.note(
            f"{count(len(loops), 'edge')} from a node to itself dropped ({rows_text(loops)})"
        )
    return EdgeRows(edges, None if weights is None else weights[kept], added)


def _with_header(opened: OpenedTable, findings: Findings) -> OpenedTable:
    """A table of edges whose column names are whole numbers has no header: they are an edge."""
    table = opened.rows
    names = table.column_names
    if not lacks_header(table):
        return opened
    findings.note(f"{opened.name} has no row of column names: its first row is an edge")
    named = ["source", "target", *(f"column {number}" for number in range(3, len(names) + 1))]
    first = pa.table([[name] for name in names], names=named)
    rows = pa.concat_tables([first, table.rename_columns(named)])
    return OpenedTable(rows, opened.name)


def _end_columns(opened: OpenedTable, findings: Findings) -> tuple[str, str] | None:
    names = opened.rows.column_names
    for pair in END_NAMES:
        source, target = (find_name(names, each) for each in pair)
        if source is not None and target is not None:
            return source, target
    if len(names) < 2:
        listed = ", ".join(f"`{name}`" for name in names)
        findings.refuse(
            f"{opened.name} has the columns {listed or 'none'}; expected `source` and `target`",
            "name the delimiter if cells are separated by something unusual",
        )
        return None
    findings.note(f"edges go from the column `{names[0]}` to the column `{names[1]}`")
    return names[0], names[1]


def _weights(
    opened: OpenedTable, ends: tuple[str, str], options: TableOptions, findings: Findings
) -> NDArray[np.float32] | None:
    asked, names = options.weight_column, opened.rows.column_names
    if asked == NO_COLUMN and NO_COLUMN not in names:
        return None
    others = [name for name in names if name not in ends]
    if asked is not None and asked not in others:
        listed = ", ".join(f"`{name}`" for name in others) or "none"
        findings.refuse(
            f"{opened.name} has no column `{asked}`; those beside the ends are {listed}"
        )
        return None
    usual = find_name(others, "weight")
    name = asked or usual or (others[0] if others else None)
    if name is None:
        return None
    refuse_repeated(opened, name, "the weight", findings)
    is_guess = asked is None and usual is None
    if is_guess and any(part in name.lower() for part in _NO_WEIGHT):
        findings.note(
            f"the column `{name}` of edges was not read: its name is not that of a weight"
        )
        return None
    try:
        style, _ = style_of(opened.rows[name])
        weights, wrong = parse_numbers(opened.rows[name], style)
    except UnfitColumn:
        weights, wrong = np.zeros(0), np.ones(opened.rows.num_rows, bool)
    if not wrong.any():
        wrong = ~(weights >= 0) | (weights > np.finfo(np.float32).max)
    rows = np.flatnonzero(wrong)
    if len(rows) == 0:
        if is_guess and len(weights):
            findings.note(f"the numbers in the column `{name}` are the weights of the edges")
        return weights.astype(np.float32)
    sentence = (
        f"the column `{name}` of {opened.name} has {count(len(rows), 'cell')} that are no weight, "
        f"a number of 0 or more ({rows_text(rows)})"
    )
    if is_guess:
        findings.note(f"{sentence}: edges have no weights")
        return None
    findings.refuse(sentence, "correct the cells, or say `none` for no weights")
    return None


def _numbers(
    sides: list[pa.Array],
    ids: pa.Array,
    present: NDArray[np.bool_],
    opened: OpenedTable,
    options: TableOptions,
    findings: Findings,
) -> tuple[NDArray[np.int64], pa.Array]:
    """Node numbers of both ends, -1 where an edge is dropped, and ids that are added."""
    none = pa.array([], pa.string())
    numbers = np.stack([_look_up(side, ids) for side in sides])
    numbers[:, ~present] = -1
    unknown = present & (numbers < 0).any(axis=0)
    rows = np.flatnonzero(unknown)
    if len(rows) == 0:
        return numbers, none
    if len(rows) == present.sum() and options.unknown_nodes != "add":
        example = (
            f"those of the nodes such as `{ids[0].as_py()}`" if len(ids) else "no node has one"
        )
        findings.refuse(
            f"no edge of {opened.name} has both ends among the nodes: its ids are such as "
            f"`{sides[0][int(rows[0])].as_py()}`, {example}",
            "name the column of the nodes' ids",
        )
        return numbers, none
    named = [
        side.filter(pa.array(present & (n < 0))) for side, n in zip(sides, numbers, strict=True)
    ]
    added = pc.unique(pa.concat_arrays(named))
    sentence = (
        f"{count(len(rows), 'edge')} of {opened.name} to {count(len(added), 'node')} without a row "
        f"(such as `{added[0].as_py()}`, {rows_text(rows)})"
    )
    if options.unknown_nodes == "error":
        findings.refuse(sentence, "drop such edges, or add the nodes, by `unknown_nodes`")
        return numbers, none
    if options.unknown_nodes == "drop":
        findings.note(f"{sentence} dropped")
        numbers[:, unknown] = -1
        return numbers, none
    everything = pa.concat_arrays([ids, added])
    numbers = np.stack([_look_up(side, everything) for side in sides])
    numbers[:, ~present] = -1
    findings.note(f"{sentence}: the nodes were added, with all cells missing")
    return numbers, added


def _look_up(side: pa.Array, ids: pa.Array) -> NDArray[np.int64]:
    places = pc.fill_null(pc.index_in(side, value_set=ids), -1)
    return np.array(places.to_numpy(zero_copy_only=False), np.int64)
