"""Columns of tables: from what a CSV or Parquet file has to ids, classes, splits and numbers.

CSV has no types, and guessing loses information: "007" becomes 7, a class "NA" becomes missing. So
ids, labels and splits are read as text and are made numbers only if that loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from scr.errors import SourceError

_NO_LABEL = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
"""How R, pandas and SQL write a missing value."""
_SPLITS = {"": -1, "train": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}
"""What a cell may say, and which part of the split that is, -1 for none."""


def column_names(path: Path) -> list[str]:
    """The names of a table's columns, without reading its rows."""
    with readable(path):
        if path.suffix == ".parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        with pyarrow.csv.open_csv(path) as reader:
            return list(reader.schema.names)


def read_table(path: Path, *, texts: Iterable[str] = ()) -> pa.Table:
    """Read a CSV or Parquet file; the columns `texts` of a CSV are read as text."""
    with readable(path):
        if path.suffix == ".parquet":
            return _without_dictionaries(pyarrow.parquet.read_table(path))
        options = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in texts})
        return pyarrow.csv.read_csv(path, convert_options=options)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say in one sentence that a table cannot be read."""
    try:
        yield
    except MemoryError:  # Arrow's is one of its exceptions too
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"`{path}` cannot be read as a table: {error}") from None


def _without_dictionaries(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, column)
    return table


def plain_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn text into whole numbers if that loses nothing; floats too (pandas makes them of nulls).

    >>> plain_integers(pa.chunked_array([["1", "20"]])).type
    DataType(int64)
    >>> plain_integers(pa.chunked_array([["1", "007"]])).type
    DataType(string)
    """
    kind = column.type
    try:
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return column.cast(pa.int64())
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            numbers = column.cast(pa.int64())
            return numbers if numbers.cast(kind).equals(column) else column
    except pa.ArrowInvalid:
        pass
    return column


def id_column(column: pa.ChunkedArray, path: Path) -> pa.Array:
    """Ids of the nodes, whole numbers if all are and text if not; distinct and never missing."""
    column = plain_integers(column)
    if not pa.types.is_integer(column.type):
        column = _as_text(column, "id", path)
    if column.null_count:
        raise SourceError(f"`{path}`, row {first_null(column) + 1}: the id is missing")
    ids = column.combine_chunks()
    if len(pc.unique(ids)) < len(ids):
        values = ids.to_numpy(zero_copy_only=False)
        order = np.argsort(values, kind="stable")
        same = np.flatnonzero(values[order][1:] == values[order][:-1])[0]
        first, second = int(order[same]), int(order[same + 1])
        raise SourceError(
            f"`{path}` has the id `{values[first]}` twice, in rows {first + 1} and {second + 1}; "
            "expected every node once"
        )
    return ids


def class_column(column: pa.ChunkedArray, path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels, -1 where missing or the number -1, and the names of the classes in sorted order."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing = pc.is_in(column, value_set=pa.array(_NO_LABEL, type=column.type))
        column = _integral_texts(pc.if_else(missing, pa.scalar(None, column.type), column))
    column = plain_integers(column)
    if pa.types.is_integer(column.type):
        column = pc.if_else(pc.equal(column, -1), pa.scalar(None, column.type), column)
    elif not pa.types.is_floating(column.type):
        column = _as_text(column, "label", path)
    classes = pc.drop_null(pc.unique(column))
    classes = classes.take(pc.sort_indices(classes))
    labels = pc.fill_null(pc.index_in(column, value_set=classes), -1)
    # Arrow counts a null as "not found", so both kinds of null end as -1.
    names = tuple(str(value) for value in classes.to_pylist())
    return labels.to_numpy().astype(np.int64), names


def _integral_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read "1.0" as 1, which is how pandas writes whole numbers beside missing ones."""
    whole = pc.fill_null(pc.match_substring_regex(column, r"^-?(0|[1-9]\d*)(\.0)?$"), True)
    if len(column) and pc.all(whole).as_py() and column.null_count < len(column):
        return pc.replace_substring_regex(column, r"\.0$", "")
    return column


def split_column(column: pa.ChunkedArray, path: Path) -> dict[str, NDArray[np.int64]]:
    """Node numbers of each split that a column names; empty cells belong to none."""
    text = _as_text(column, "split", path)
    text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(text, "")))
    numbers = pc.index_in(text, value_set=pa.array(list(_SPLITS)))
    if numbers.null_count:
        row = first_null(numbers)
        raise SourceError(
            f"`{path}`, row {row + 1}: the split is `{column[row].as_py()}`; "
            "expected train, valid, test or nothing"
        )
    parts = np.array(list(_SPLITS.values()))[numbers.to_numpy()]
    split = {name: np.flatnonzero(parts == i) for i, name in enumerate(("train", "valid", "test"))}
    return {name: nodes for name, nodes in split.items() if len(nodes)}


def number_column(column: pa.ChunkedArray, name: str, path: Path, *, hint: str) -> NDArray[Any]:
    """A column of numbers as float32; text and missing values are refused."""
    kind = column.type
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not numeric and not pa.types.is_null(kind):
        example = next((v for v in column.to_pylist() if v is not None), None)
        raise SourceError(
            f"`{path}`: the column `{name}` holds {kind} such as {example!r}; expected numbers",
            hint=hint,
        )
    if column.null_count:
        row = first_null(column) + 1
        raise SourceError(f"`{path}`, row {row}: `{name}` is missing; expected a number", hint=hint)
    return np.asarray(column.cast(pa.float32(), safe=False).to_numpy())


def first_null(column: pa.Array | pa.ChunkedArray) -> int:
    """The first row without a value, or -1."""
    row: int = pc.index(pc.is_null(column), True).as_py()
    return row


def _as_text(column: pa.ChunkedArray, role: str, path: Path) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SourceError(
            f"`{path}`: the {role} column holds {column.type}; expected text or whole numbers"
        ) from None
