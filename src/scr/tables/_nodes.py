"""The table of nodes: which column is the id, which the class, which the split; the rest describes.

Rows without an id, and repeated rows, are left out and counted. Two rows of one id that differ are
refused: only the user knows which one is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources import class_column, split_column
from scr.tables._options import NO_COLUMN, TableOptions
from scr.tables._problems import Findings, count, rows_text
from scr.tables._read import OpenedTable
from scr.tables.columns import UnfitColumn, as_texts

_WHOLE = r"^-?\d+\.0$"
_MANY_CLASSES, _FEW_MEMBERS = 50, 3.0
"""More classes than this, of fewer members on average, are hardly classes."""


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Rows of a table of nodes, each with an id of its own."""

    ids: pa.Array
    """As text, whole numbers without a point."""
    described: pa.Table
    """The columns that have no role."""
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    split: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    """The columns of the `id`, the `label` and the `split`."""


def read_node_rows(
    opened: OpenedTable, options: TableOptions, findings: Findings, *, is_labeled: bool = True
) -> NodeRows | None:
    """Split a table of nodes into roles; none if it has no ids. `is_labeled`: labels are read."""
    findings.note(*opened.notes)
    table = opened.rows
    if table.num_rows == 0 or table.num_columns == 0:
        findings.refuse(f"{opened.name} has no rows; expected one for each node")
        return None
    label = _role(opened, options.label, "label", findings)
    split = _role(opened, options.split_column, "split", findings)
    taken = {name for name in (label, split) if name is not None}
    id_name = _id_column(opened, options, taken, findings)
    if id_name is None:
        return None
    ids = id_texts(table[id_name])
    kept = _distinct_rows(table, ids, id_name, opened.name, findings)
    table, ids = table.take(kept), ids.take(kept)
    parts: dict[str, NDArray[np.int64]] = {}
    if split is not None and is_labeled:
        found = _read_split(table, split, opened, options, findings)
        parts = found or {}
        if found is None:
            taken.discard(split)
    labels, names = None, None
    if label is not None and is_labeled:
        labels, names = _read_labels(table, label, opened, findings)
        parts = _labeled_parts(parts, labels, findings)
    elif is_labeled:
        findings.note(f"{opened.name} has no column `label`, so no class is known")
    described = table.drop_columns([id_name, *taken])
    found_roles = {"id": id_name, "label": label, "split": split if split in taken else None}
    roles = {role: name for role, name in found_roles.items() if name is not None}
    for role, name in roles.items():
        if options.columns.get(name, "drop") != "drop":
            findings.refuse(f"the column `{name}` is the {role} and cannot be a feature as well")
    return NodeRows(ids, described, labels, names, parts, roles)


def id_texts(column: pa.ChunkedArray) -> pa.Array:
    """Ids as text without spaces around them, null where missing; 7 and 7.0 are `7`, 007 is not."""
    if pa.types.is_string(column.type):
        texts = pc.utf8_trim_whitespace(column)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        present = pc.drop_null(texts)
        if len(present) and pc.all(pc.match_substring_regex(present, _WHOLE)).as_py():
            texts = pc.replace_substring_regex(texts, r"\.0$", "")
    else:
        texts = as_texts(column)
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def find_name(names: list[str], wanted: str) -> str | None:
    """A column by its name, else by its name in another case."""
    if wanted in names:
        return wanted
    return next((name for name in names if name.lower() == wanted), None)


def _role(opened: OpenedTable, asked: str | None, usual: str, findings: Findings) -> str | None:
    """The column of a role: as asked, else the usual one if there is one."""
    names = opened.rows.column_names
    if asked == NO_COLUMN and NO_COLUMN not in names:
        return None
    if asked is not None and asked not in names:
        listed = ", ".join(f"`{name}`" for name in names)
        findings.refuse(f"{opened.name} has no column `{asked}`; its columns are {listed}")
        return None
    name = asked or find_name(names, usual)
    refuse_repeated(opened, name, f"the {usual}", findings)
    return name


def refuse_repeated(opened: OpenedTable, name: str | None, role: str, findings: Findings) -> None:
    """Refuse a column that has a meaning, if several have its name."""
    if name is not None and name in opened.repeated:
        findings.refuse(
            f"{opened.name} has {opened.repeated[name]} columns named `{name}`; expected one, "
            f"since it is {role}",
            "rename all but one",
        )


def _id_column(
    opened: OpenedTable, options: TableOptions, taken: set[str], findings: Findings
) -> str | None:
    name = _role(opened, options.id_column, "id", findings)
    if name is not None:
        try:
            id_texts(opened.rows[name])
        except UnfitColumn as error:
            findings.refuse(f"the id column `{name}` of {opened.name} {error}")
            return None
        return name
    if options.id_column is not None:
        return None
    name = _distinct_column(opened.rows, taken) or _distinct_column(_once(opened.rows), taken)
    if name is not None:
        findings.note(f"the ids of the nodes are in the column `{name}`")
        return name
    findings.refuse(
        f"{opened.name} has no column `id` and no other whose values all differ",
        "name the column of the ids",
    )
    return None


def _distinct_column(table: pa.Table, taken: set[str]) -> str | None:
    """The first column without a role whose values all differ."""
    names: list[str] = table.column_names
    for name in names:
        if name in taken or pa.types.is_floating(table[name].type):
            continue
        try:
            ids = id_texts(table[name])
        except UnfitColumn:
            continue
        if ids.null_count == 0 and len(pc.unique(ids)) == len(ids):
            return name
    return None


def _once(table: pa.Table) -> pa.Table:
    """A table without the rows that repeat another; as it is, if its types cannot be compared."""
    try:
        return table.group_by(table.column_names, use_threads=False).aggregate([])
    except pa.ArrowException:
        return table


def _distinct_rows(
    table: pa.Table, ids: pa.Array, id_name: str, name: str, findings: Findings
) -> pa.Array:
    """Rows to keep: those with an id, each id once. Repeated rows that differ are refused."""
    missing = np.asarray(ids.is_null().to_numpy(zero_copy_only=False))
    if missing.any():
        rows = np.flatnonzero(missing)
        findings.note(
            f"{count(len(rows), 'row')} of {name} without `{id_name}` left out ({rows_text(rows)})"
        )
    codes = ids.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    numbers = np.flatnonzero(~missing)
    _, first, inverse = np.unique(codes[numbers], return_index=True, return_inverse=True)
    repeated = numbers[first[inverse] != np.arange(len(numbers))]
    if len(repeated):
        originals = dict(zip(codes[numbers[first]].tolist(), numbers[first].tolist(), strict=True))
        before = np.array([originals[code] for code in codes[repeated].tolist()])
        alike = _are_equal(table.take(pa.array(repeated)), table.take(pa.array(before)))
        same, other = repeated[alike], repeated[~alike]
        if len(same):
            findings.note(
                f"{count(len(same), 'repeated row')} of {name} left out ({rows_text(same)})"
            )
        if len(other):
            shown = f"`{ids[int(other[0])].as_py()}` in {rows_text([before[~alike][0], other[0]])}"
            findings.refuse(
                f"{name} has {count(len(other), 'row')} whose id has another row that differs, "
                f"first {shown}",
                "keep one row for each node",
            )
    return pa.array(np.sort(numbers[first]))


def _are_equal(left: pa.Table, right: pa.Table) -> NDArray[np.bool_]:
    """Which rows of two tables are equal in all columns, missing cells included."""
    alike = np.ones(left.num_rows, bool)
    for ours, theirs in zip(left.columns, right.columns, strict=True):
        values, others = ours.to_pylist(), theirs.to_pylist()
        # `value != value` is how NaN shows itself.
        alike &= np.array(
            [a == b or (a != a and b != b) for a, b in zip(values, others, strict=True)], bool
        )
    return alike


def _read_split(
    table: pa.Table, name: str, opened: OpenedTable, options: TableOptions, findings: Findings
) -> dict[str, NDArray[np.int64]] | None:
    """Nodes of each part; none where a column that nobody named says something else."""
    try:
        return dict(
            split_column(pa.chunked_array([as_texts(table[name]).combine_chunks()]), Path(name))
        )
    except (SourceError, UnfitColumn):
        if options.split_column is not None:
            findings.refuse(
                f"the column `{name}` of {opened.name} says more than train, valid, test or nothing"
            )
        else:
            findings.note(f"the column `{name}` does not say train, valid or test: it is a feature")
        return None


def _read_labels(
    table: pa.Table, name: str, opened: OpenedTable, findings: Findings
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    column = table[name]
    try:
        column = pa.chunked_array([as_texts(column).combine_chunks()])
    except UnfitColumn as error:
        findings.refuse(f"the label column `{name}` of {opened.name} {error}")
        return np.full(table.num_rows, -1), ()
    labels, names = class_column(column, Path(name))
    known = labels[labels >= 0]
    findings.note(
        f"{len(known):,} of {count(len(labels), 'node')} have a class in `{name}`, "
        f"{count(len(names), 'class', 'classes')} in all"
    )
    sizes = np.bincount(known, minlength=len(names))
    single = [names[number] for number in np.flatnonzero(sizes == 1)]
    if len(names) > _MANY_CLASSES and len(known) < _FEW_MEMBERS * len(names):
        findings.note(f"most classes in `{name}` have a node or two: is it a measurement or an id?")
    elif single:
        shown = ", ".join(f"`{each}`" for each in single[:3]) + (", ..." if len(single) > 3 else "")
        findings.note(f"{count(len(single), 'class', 'classes')} with a single node: {shown}")
    return labels, names


def _labeled_parts(
    parts: dict[str, NDArray[np.int64]], labels: NDArray[np.int64], findings: Findings
) -> dict[str, NDArray[np.int64]]:
    """Parts of a split without the nodes whose class is unknown."""
    kept = {}
    for part, nodes in parts.items():
        labeled = nodes[labels[nodes] >= 0]
        if len(labeled) < len(nodes):
            gone = len(nodes) - len(labeled)
            findings.note(
                f"{count(gone, 'node')} of the {part} split without a class left out of it"
            )
        if len(labeled):
            kept[part] = labeled
    return kept
