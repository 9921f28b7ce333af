"""Columns of categories: one column of 0 and 1 for each frequent value, one for all others.

Values are compared as text. Rare values, and those that were not there when the column was fitted,
count as `other`; a missing cell is a value of its own, if some were missing when it was fitted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.tables.columns._base import FittedColumn, UnfitColumn, as_texts, is_number, is_text

MOST_LEVELS = 100
"""Frequent values that get a column of their own."""
RARE, RARE_FROM_ROWS = 5, 500
"""Fewer rows than this make a value rare, in tables of so many rows; in smaller ones, one row."""
_NUMERIC = r"^-?\d+(\.\d+)?$"


def fit(name: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None) -> FittedColumn:
    """The frequent values, the most frequent first."""
    texts = as_texts(column)
    seen = pc.drop_null(texts if rows is None else texts.take(pa.array(rows)))
    if len(seen) == 0:
        raise UnfitColumn("has no values")
    counted = pc.value_counts(seen)
    values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    least = RARE if len(column) >= RARE_FROM_ROWS else 2
    # By count and then by value, so that the order of the rows does not matter.
    ranked = sorted(zip(values, counts, strict=True), key=lambda each: (-each[1], each[0]))
    levels = [value for value, count in ranked[:MOST_LEVELS] if count >= least]
    missing = int(texts.null_count)
    rare = len(values) - len(levels)
    details = [f"{len(values):,} values"] + ([f"{rare:,} of them rare"] if rare else [])
    parameters = {
        "levels": levels, "missing": missing, "details": details,
        "numeric": not is_text(column) or all(_is_numeric(pa.array(values))),
    }  # fmt: skip
    names = (*(f"{name}={level}" for level in levels), f"{name}=other")
    if missing:
        names = (*names, f"{name} missing")
    return FittedColumn(name, "category", names, parameters)


def _is_numeric(values: pa.Array) -> list[bool]:
    return list(pc.match_substring_regex(values, _NUMERIC).to_pylist())


def transform(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """One 1 in each row; a missing cell is `other` if none was missing when it was fitted."""
    if is_number(column) and not fitted.parameters["numeric"]:
        raise UnfitColumn(f"holds {column.type}; expected text")
    texts, levels = as_texts(column), fitted.parameters["levels"]
    places = pc.index_in(texts, value_set=pa.array(levels, pa.string()))
    numbers = np.array(pc.fill_null(places, len(levels)).to_numpy(), np.int64)
    missing = np.asarray(pc.is_null(texts).to_numpy(), bool)
    numbers[missing] = len(fitted.names) - 1
    matrix = np.zeros((len(column), len(fitted.names)), np.float32)
    matrix[np.arange(len(column)), numbers] = 1
    return matrix
