"""What all kinds of columns share: fitted columns as plain data, and missing cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A")
"""How R, pandas, SQL and spreadsheets write a missing value."""
SHOWN_ROWS = 3
"""Rows that a message names, of all that it counts."""


@dataclass(frozen=True, eq=False)
class FittedColumn:
    """A column of a table and how it becomes features: plain data, no code."""

    name: str
    kind: str
    """number, category, text, date or boolean."""
    names: tuple[str, ...]
    """Of the feature columns that it becomes."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What was fitted, as JSON can hold it."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What was fitted, where it is large."""

    def describe(self) -> str:
        """One short line, such as `price: number, 12 missing`."""
        details = [self.kind, *self.parameters.get("details", ())]
        missing = self.parameters.get("missing", 0)
        if missing:
            details.append(f"{missing:,} missing")
        return f"{self.name}: {', '.join(details)}"


class UnfitColumn(Exception):
    """A column does not hold what its kind needs; the message continues "the column `x` ..."."""


def is_text(column: pa.ChunkedArray) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(column.type))


def is_number(column: pa.ChunkedArray) -> bool:
    """Whether a column holds numbers by its type."""
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def present_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells of text without spaces around them; null where a cell says that it is missing."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as text, whole numbers without a point; null where missing.

    Raises:
        UnfitColumn: The type has no plain text.
    """
    if is_text(column):
        return present_texts(column)
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        numbers = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
        try:
            return numbers.cast(pa.int64()).cast(pa.string())
        except pa.ArrowInvalid:
            return numbers.cast(pa.string())
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UnfitColumn(f"holds {column.type}; expected text or numbers") from None


def refuse_rows(column: pa.ChunkedArray, wrong: NDArray[np.bool_], expected: str) -> None:
    """Raise an `UnfitColumn` that counts and shows cells, if there are wrong ones."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        shown = ", ".join(
            f"{column[int(row)].as_py()!r} in row {row + 1}" for row in rows[:SHOWN_ROWS]
        )
        raise UnfitColumn(f"holds {len(rows):,} cells such as {shown}; expected {expected}")


def mask_of(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """A column of booleans without nulls as a mask."""
    return np.asarray(column.to_numpy(), bool)
