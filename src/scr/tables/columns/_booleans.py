"""Columns of yes and no: 1 and 0; missing cells get the share of yes and a column that says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.tables.columns._base import (
    FittedColumn,
    UnfitColumn,
    is_number,
    is_text,
    mask_of,
    present_texts,
    refuse_rows,
)

WORDS = {"yes": "no", "true": "false", "t": "f", "y": "n"}
"""Words for yes and no, in lower case."""
_YES, _NO = (*WORDS, "1", "1.0"), (*WORDS.values(), "0", "0.0")


def parse(column: pa.ChunkedArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """1, 0, or NaN where missing, and which cells are none of these."""
    if pa.types.is_boolean(column.type):
        numbers = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy()
        return np.array(numbers), np.zeros(len(column), bool)
    if is_number(column):
        numbers = np.array(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy())
        return numbers, ~(np.isnan(numbers) | np.isin(numbers, (0.0, 1.0)))
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    if not is_text(column):
        raise UnfitColumn(f"holds {column.type}; expected yes or no")
    texts = pc.utf8_lower(present_texts(column))
    yes, no = (mask_of(pc.is_in(texts, value_set=pa.array(words))) for words in (_YES, _NO))
    values = np.where(yes, 1.0, np.where(no, 0.0, np.nan))
    return values, ~(yes | no) & mask_of(pc.is_valid(texts))


def fit(name: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None) -> FittedColumn:
    """The share of yes among the cells that are there."""
    values, wrong = parse(column)
    refuse_rows(column, wrong, "yes or no, true or false, 1 or 0")
    missing = np.isnan(values)
    seen = values if rows is None else values[rows]
    share = float(np.nanmean(seen)) if not np.isnan(seen).all() else 0.5
    names = (name, f"{name} missing") if missing.any() else (name,)
    return FittedColumn(name, "boolean", names, {"share": share, "missing": int(missing.sum())})


def transform(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """1 and 0 and, if some were missing when it was fitted, which are missing."""
    values, wrong = parse(column)
    refuse_rows(column, wrong, "yes or no, true or false, 1 or 0")
    missing = np.isnan(values)
    filled = np.where(missing, fitted.parameters["share"], values)
    return np.column_stack([filled, missing][: len(fitted.names)]).astype(np.float32)
