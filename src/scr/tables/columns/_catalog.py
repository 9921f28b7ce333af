"""The kinds of columns and their modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scr.tables.columns import _booleans, _categories, _dates, _numbers, _texts
from scr.tables.columns._base import FittedColumn

_MODULES: dict[str, Any] = {
    "number": _numbers,
    "category": _categories,
    "text": _texts,
    "date": _dates,
    "boolean": _booleans,
}


def fit_column(
    name: str, kind: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None
) -> FittedColumn:
    """Fit a column of a kind to some rows; none: to all.

    Raises:
        UnfitColumn: The column does not hold what its kind needs.
    """
    fitted: FittedColumn = _MODULES[kind].fit(name, column, rows)
    return fitted


def transform_column(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """The features that a column becomes. Shape (rows, its feature columns)."""
    features: NDArray[np.float32] = _MODULES[fitted.kind].transform(fitted, column)
    return features
