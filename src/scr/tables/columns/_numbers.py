"""Columns of numbers: missing cells get the median and a column that says so.

Numbers are brought to mean 0 and deviation 1, but for counts that are mostly 0. Where a few are far
from all others (prices, populations), logarithms of the distance to the median are taken first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

HEAVY = 20.0
"""Distances to the median, in interquartile ranges, beyond which tails are heavy; of a normal
distribution even a million rows stay below 4."""
FARTHEST = 10.0
"""Deviations beyond which numbers are cut off, those of nodes to come included."""
SPARSE_SHARE = 0.25
"""Columns with fewer numbers that are not 0, none of them negative, are counts such as those of
words: 0 stays 0, and they are scaled with all others later (`scr.features`)."""
_LARGEST = 1e150
"""Numbers are cut off there so that their squares are finite."""
PLAIN, THOUSANDS, DECIMAL_COMMA = "plain", "thousands", "decimal comma"
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
_THOUSANDS = r"^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$"
_DECIMAL_COMMA = r"^[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+$"
_DOTTED_THOUSANDS = r"^[-+]?\d{1,3}(\.\d{3})+$"
"""Whole numbers of columns with decimal commas; elsewhere a dot is before decimals."""
_INFINITE = r"^[-+]?(inf|infinity)$"
MOST_MARKS = 3
"""Different words for a missing number, such as `?` or `unknown`, that a column may have."""
MARKED_SHARE = 0.2


def parse_numbers(
    column: pa.ChunkedArray, style: str = PLAIN, marks: Sequence[str] = ()
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers, NaN where missing, and which cells are neither; `marks` stand for missing ones.

    Raises:
        UnfitColumn: The column holds something else by its type.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    if is_number(column) or pa.types.is_boolean(column.type):
        numbers = column.cast(pa.float64(), safe=False)
        return _finite(numbers), np.zeros(len(column), bool)
    if pa.types.is_duration(column.type):
        return _finite(column.cast(pa.int64()).cast(pa.float64(), safe=False)), np.zeros(
            len(column), bool
        )
    if not is_text(column):
        raise UnfitColumn(f"holds {column.type}; expected numbers")
    texts = present_texts(column)
    if marks:
        marked = pc.is_in(texts, value_set=pa.array(list(marks), pa.string()))
        texts = pc.if_else(marked, pa.scalar(None, pa.string()), texts)
    plain = texts
    if style == THOUSANDS:
        grouped = pc.fill_null(pc.match_substring_regex(texts, _THOUSANDS), False)
        plain = pc.if_else(grouped, pc.replace_substring(texts, ",", ""), texts)
    elif style == DECIMAL_COMMA:
        either = f"{_DECIMAL_COMMA}|{_DOTTED_THOUSANDS}"
        decimal = pc.fill_null(pc.match_substring_regex(texts, either), False)
        pointed = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
        plain = pc.if_else(decimal, pointed, texts)
    fits = pc.match_substring_regex(plain, _NUMBER)
    infinite = pc.match_substring_regex(plain, _INFINITE, ignore_case=True)
    wrong = mask_of(pc.fill_null(pc.invert(pc.or_(fits, infinite)), False))
    numbers = pc.if_else(pc.fill_null(fits, False), plain, pa.scalar(None, pa.string()))
    return _finite(pc.replace_substring_regex(numbers, r"^\+", "").cast(pa.float64())), wrong


def _finite(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values = np.array(pc.fill_null(column, np.nan).to_numpy(), np.float64)
    values[~np.isfinite(values)] = np.nan
    return np.clip(values, -_LARGEST, _LARGEST)


def style_of(column: pa.ChunkedArray) -> tuple[str, tuple[str, ...]]:
    """How numbers are written in a column of text, and which words stand for missing ones."""
    if not is_text(column):
        return PLAIN, ()
    texts = pc.drop_null(present_texts(column))
    styles = {PLAIN: _NUMBER, THOUSANDS: _THOUSANDS, DECIMAL_COMMA: _DECIMAL_COMMA}
    counts = {
        style: pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0
        for style, pattern in styles.items()
    }
    other = max((THOUSANDS, DECIMAL_COMMA), key=lambda style: counts[style])
    style = other if counts[other] else PLAIN
    _, wrong = parse_numbers(texts, style)
    if not wrong.any():
        return style, ()
    odd = pc.unique(texts.filter(pa.array(wrong)))
    is_mark = len(odd) <= MOST_MARKS and wrong.sum() <= MARKED_SHARE * len(texts)
    return style, tuple(sorted(odd.to_pylist())) if is_mark else ()


def fit(name: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None) -> FittedColumn:
    """Median, scale and deviation of the numbers in some rows; none: in all."""
    style, marks = style_of(column)
    values, wrong = parse_numbers(column, style, marks)
    refuse_rows(column, wrong, "numbers")
    missing = np.isnan(values)
    seen = values if rows is None else values[rows]
    seen = seen[~np.isnan(seen)]
    if len(seen) == 0:
        raise UnfitColumn("has no numbers")
    median = float(np.median(seen))
    low, high = np.quantile(seen, [0.25, 0.75])
    spread = float(high - low) or float(np.abs(seen - median).mean())
    is_heavy = bool(spread > 0 and np.abs(seen - median).max() > HEAVY * spread)
    parameters: dict[str, Any] = {
        "style": style, "marks": list(marks), "median": median, "missing": int(missing.sum()),
        "spread": spread if is_heavy else 0.0, "details": [],
    }  # fmt: skip
    curved = _curved(seen, parameters)
    if low == 0 and seen.min() == 0 and np.count_nonzero(seen) < SPARSE_SHARE * len(seen):
        is_small = curved.max() <= FARTHEST
        parameters["mean"], parameters["deviation"] = 0.0, 1.0 if is_small else float(curved.std())
    else:
        parameters["mean"], parameters["deviation"] = float(curved.mean()), float(curved.std())
    if is_heavy:
        parameters["details"].append("heavy tails, logarithm taken")
    if marks:
        parameters["details"].append(f"missing where it says {', '.join(map(repr, marks))}")
    if style != PLAIN:
        parameters["details"].append(
            "comma before decimals" if style == DECIMAL_COMMA else "commas between thousands"
        )
    names = (name, f"{name} missing") if missing.any() else (name,)
    return FittedColumn(name, "number", names, parameters)


def transform(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Standardized numbers and, if some were missing when it was fitted, which are missing."""
    settings = fitted.parameters
    values, wrong = parse_numbers(column, settings["style"], settings["marks"])
    refuse_rows(column, wrong, "numbers")
    missing = np.isnan(values)
    curved = _curved(np.where(missing, settings["median"], values), settings)
    deviation = settings["deviation"] or 1.0
    with np.errstate(over="ignore"):  # what is too far away is cut off
        scaled = np.clip((curved - settings["mean"]) / deviation, -FARTHEST, FARTHEST)
    return np.column_stack([scaled, missing][: len(fitted.names)]).astype(np.float32)


def _curved(values: NDArray[np.float64], settings: Any) -> NDArray[np.float64]:
    if not settings["spread"]:
        return values
    with np.errstate(over="ignore"):
        distances = (values - settings["median"]) / settings["spread"]
    distances = np.clip(distances, -_LARGEST, _LARGEST)
    return np.asarray(np.sign(distances) * np.log1p(np.abs(distances)))
