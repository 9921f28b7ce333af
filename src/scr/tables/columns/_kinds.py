"""What kind a column is, by its type and, where it is text, by its cells.

A column that tells nodes apart and says nothing about them (an identifier, a constant) is dropped,
with a reason; the user's own word wins over all of this.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scr.tables.columns import _booleans, _dates, _numbers
from scr.tables.columns._base import is_number, is_text, present_texts
from scr.tables.columns._texts import WORDS_PATTERN

IDENTIFIER_ROWS = 50
"""Whole numbers that all differ are an identifier in tables of so many rows: in small ones, ages do
too."""
TEXT_WORDS, SHORT_TEXT_WORDS = 3.0, 2.0
"""Words per cell from which cells that rarely repeat are text; where hardly any repeats, two."""
REPEATED, RARELY_REPEATED = 0.5, 0.2
"""Different values per cell, up to which short cells are categories, and from which long ones are
text."""
_CODE = r"^0\d+$"
_SAMPLE = 5_000
"""Cells whose words are counted."""


def infer_kind(column: pa.ChunkedArray) -> tuple[str, str]:
    """The kind of a column, `drop` included, and why it is dropped."""
    kind = column.type
    if pa.types.is_null(kind) or column.null_count == len(column):
        return "drop", "it is empty"
    if pa.types.is_boolean(kind):
        return _unless_constant(column, "boolean")
    if is_number(column) or pa.types.is_duration(kind):
        return _number_kind(column)
    if pa.types.is_temporal(kind) and not pa.types.is_time(kind):
        return _unless_constant(column, "date")
    if not is_text(column):
        return "drop", f"it holds {kind}, which has no meaning here"
    texts = pc.drop_null(present_texts(column))
    if len(texts) == 0:
        return "drop", "it is empty"
    values = pc.unique(texts)
    if len(values) == 1:
        return _constant(len(texts) == len(column), "text", texts)
    lowered = set(pc.unique(pc.utf8_lower(values)).to_pylist())
    if any(lowered == {yes, no} for yes, no in _booleans.WORDS.items()):
        return "boolean", ""
    style, marks = _numbers.style_of(texts)
    if not _numbers.parse_numbers(texts, style, marks)[1].any():
        if pc.any(pc.match_substring_regex(values, _CODE)).as_py():
            return _word_kind(texts, len(values))  # "007" is a code
        return _number_kind(column)
    if _dates.format_of(texts) is not None:
        return "date", ""
    return _word_kind(texts, len(values))


def _number_kind(column: pa.ChunkedArray) -> tuple[str, str]:
    style, marks = _numbers.style_of(column)
    values, _ = _numbers.parse_numbers(column, style, marks)
    present = values[~np.isnan(values)]
    if len(present) == 0:
        return "drop", "it has no finite numbers"
    if np.ptp(present) == 0:
        return _constant(len(present) == len(column), "number", column)
    is_whole = bool((present == np.rint(present)).all())
    if is_whole and len(present) >= IDENTIFIER_ROWS and len(np.unique(present)) == len(present):
        return "drop", "its whole numbers all differ, as those of an identifier do"
    return "number", ""


def _word_kind(texts: pa.ChunkedArray, values: int) -> tuple[str, str]:
    sample = texts.slice(0, _SAMPLE)
    words = pc.mean(pc.count_substring_regex(sample, WORDS_PATTERN.removeprefix("(?u)"))).as_py()
    share = values / len(texts)
    if words >= TEXT_WORDS and share > RARELY_REPEATED:
        return "text", ""
    if share <= REPEATED:
        return "category", ""
    if words >= SHORT_TEXT_WORDS:
        return "text", ""
    if len(texts) < IDENTIFIER_ROWS and share < 1:
        return "category", ""
    return "drop", f"{values:,} of its {len(texts):,} values differ, as those of an identifier do"


def _unless_constant(column: pa.ChunkedArray, kind: str) -> tuple[str, str]:
    if len(pc.unique(pc.drop_null(column))) > 1:
        return kind, ""
    return _constant(column.null_count == 0, kind, column)


def _constant(is_complete: bool, kind: str, column: pa.ChunkedArray) -> tuple[str, str]:
    """A single value beside missing ones still says which are missing."""
    if not is_complete:
        return ("category" if kind == "text" else kind), ""
    return "drop", f"all its values are {pc.drop_null(column)[0].as_py()!r}"
