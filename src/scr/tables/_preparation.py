"""From columns of a table to features, fitted once and applied to other tables by name.

Stored as `preparation.json`, what each column is, and `preparation.npz`, its large arrays: plain
data that is read without running anything.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scr.errors import ConfigError, SourceError, StoreError
from scr.storage import check_fields, load_arrays, read_object, write_bytes
from scr.tables._options import KINDS
from scr.tables.columns import (
    FittedColumn,
    UnfitColumn,
    fit_column,
    infer_kind,
    transform_column,
)

FILES = ("preparation.json", "preparation.npz")
VERSION = 1
_FIELDS: dict[str, Any] = {
    "version": int, "columns": list[dict[str, Any]], "dropped": dict[str, str],
    "roles": dict[str, str],
}  # fmt: skip
_COLUMN_FIELDS: dict[str, Any] = {
    "name": str, "kind": str, "names": list[str], "parameters": dict, "arrays": list[str],
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Preparation:
    """Fitted columns of a table of nodes, and the features that they become."""

    columns: tuple[FittedColumn, ...]
    """In the order of the features; tables may have them in any order."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Columns that were looked at and left out, and why."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Columns that are no features: of the `id`, the `label` and the `split`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the feature columns, such as `colour=red`, `price` and `price missing`."""
        return tuple(name for column in self.columns for name in column.names)

    @classmethod
    def fit(
        cls,
        table: pa.Table,
        *,
        kinds: Mapping[str, str] | None = None,
        train_rows: Sequence[int] | NDArray[Any] | None = None,
    ) -> Preparation:
        """Fit all columns of a table.

        Args:
            table: Columns that are to become features, and no others.
            kinds: Kinds of columns that are not to be inferred, by name.
            train_rows: Rows that kinds are inferred from and values are fitted to; none: all.

        Raises:
            SourceError: Some columns do not hold what their kinds say; all are named.
        """
        kinds = kinds or {}
        _check_kinds(kinds, table)
        rows = None if train_rows is None else np.asarray(train_rows, np.int64)
        fitted: list[FittedColumn] = []
        dropped: dict[str, str] = {}
        problems: list[str] = []
        for name in table.column_names:
            column, reason = table[name], "as asked"
            kind = kinds.get(name)
            if kind is None:
                seen = column if rows is None else column.take(pa.array(rows))
                kind, reason = infer_kind(seen)
            if kind == "drop":
                dropped[name] = reason
                continue
            try:
                fitted.append(fit_column(name, kind, column, rows))
            except UnfitColumn as error:
                if name in kinds:
                    problems.append(f"the column `{name}` was to be a {kind} and {error}")
                else:
                    dropped[name] = f"it {error}"
        if problems:
            raise SourceError(_sentence(problems), hint="name another kind, or drop the column")
        return cls(tuple(fitted), dropped)

    def transform(self, table: pa.Table) -> NDArray[np.float32]:
        """The features of the rows of a table, whose columns are found by name.

        Raises:
            SourceError: Columns are missing, or hold something else; all are named.
        """
        present = set(table.column_names)
        missing = [column.name for column in self.columns if column.name not in present]
        problems = []
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            several = "s" if len(missing) > 1 else ""
            problems.append(f"the table has no column{several} {listed}")
        matrix = np.empty((table.num_rows, len(self.names)), np.float32)
        start = 0
        for column in self.columns:
            stop = start + len(column.names)
            if column.name in present:
                try:
                    matrix[:, start:stop] = transform_column(column, table[column.name])
                except UnfitColumn as error:
                    problems.append(f"the column `{column.name}` {error}")
            start = stop
        if problems:
            hint = "columns must be those that the model was trained with, in any order"
            raise SourceError(_sentence(problems), hint=hint)
        return matrix

    def unused(self, table: pa.Table) -> tuple[str, ...]:
        """Columns of a table that were not there when it was fitted, and are ignored."""
        known = {column.name for column in self.columns} | set(self.dropped)
        known |= set(self.roles.values())
        return tuple(name for name in table.column_names if name not in known)

    def describe(self) -> list[str]:
        """One short line per column: what it is, or why it was left out."""
        left_out = [f"{name}: left out, {reason}" for name, reason in self.dropped.items()]
        return [*(column.describe() for column in self.columns), *left_out]

    def save(self, folder: str | Path) -> None:
        """Write `preparation.json` and `preparation.npz` into a folder."""
        content = {
            "version": VERSION,
            "columns": [
                {
                    "name": column.name,
                    "kind": column.kind,
                    "names": list(column.names),
                    "parameters": dict(column.parameters),
                    "arrays": sorted(column.arrays),
                }
                for column in self.columns
            ],
            "dropped": dict(self.dropped),
            "roles": dict(self.roles),
        }
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {
            f"{number}.{name}": array
            for number, column in enumerate(self.columns)
            for name, array in column.arrays.items()
        }
        np.savez(buffer, **arrays)
        described, stored = (Path(folder) / name for name in FILES)
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_bytes(stored, buffer.getvalue())
        text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
        write_bytes(described, text.encode())

    @classmethod
    def load(cls, folder: str | Path) -> Preparation:
        """Read what `save` wrote.

        Raises:
            StoreError: The files are missing or damaged.
        """
        described, stored = (Path(folder) / name for name in FILES)
        try:
            content = read_object(described, what="preparation", fields=_FIELDS)
            if content["version"] != VERSION:
                raise StoreError(
                    f"`{described}` is of version {content['version']}; expected {VERSION}"
                )
            arrays = load_arrays(stored, what="the arrays of a preparation")
            for each in content["columns"]:
                check_fields(described, each, _COLUMN_FIELDS)
            columns = tuple(
                FittedColumn(
                    each["name"], each["kind"], tuple(each["names"]), each["parameters"],
                    {name: arrays[f"{number}.{name}"] for name in each["arrays"]},
                )
                for number, each in enumerate(content["columns"])
            )  # fmt: skip
            unknown = [column.kind for column in columns if column.kind not in KINDS]
            if unknown:
                raise ValueError(f"there is no kind of columns {unknown[0]!r}")
            for column in columns:
                _try_out(column)
            return cls(columns, content["dropped"], content["roles"])
        # Of trying out what a damaged file describes.
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
                pa.ArrowException) as error:  # fmt: skip
            raise StoreError(f"The preparation in `{folder}` is damaged: {error}") from None


def _try_out(column: FittedColumn) -> None:
    """Raise if what is stored of a column does not do what it says."""
    rows = transform_column(column, pa.chunked_array([pa.nulls(1, pa.string())]))
    if rows.shape != (1, len(column.names)) or not np.isfinite(rows).all():
        raise ValueError(f"the column {column.name!r} does not become {len(column.names)} numbers")


def _check_kinds(kinds: Mapping[str, str], table: pa.Table) -> None:
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ConfigError(f"columns.{name}", kind, f"one of {', '.join(KINDS)}")
    unknown = [name for name in kinds if name not in table.column_names]
    if unknown:
        listed = ", ".join(f"`{name}`" for name in unknown)
        known = ", ".join(f"`{name}`" for name in table.column_names)
        raise SourceError(f"There is no column {listed} to be named a kind of; columns are {known}")


def _sentence(problems: list[str]) -> str:
    text = "; ".join(problems)
    return text[0].upper() + text[1:]
