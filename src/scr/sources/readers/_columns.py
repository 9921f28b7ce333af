"""Columns of tables: from what a CSV or Parquet file has to ids, classes, splits and numbers.

CSV has no types, and guessing loses information: "007" becomes 7, a class "NA" becomes missing. So
ids, labels and splits are read as text and are made numbers only if that loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._arrow_files import read_parquet, readable_table, shown
from scr.storage import check_budget, check_plain

_NO_LABEL = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
"""How R, pandas and SQL write a missing value."""
_SPLITS = {"": -1, "train": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}
"""What a cell may say, and which part of the split that is, -1 for none."""


_TEXT_FACTOR = 4
"""Bytes of memory at the peak of reading for each byte of a text file; 4.7 to 5.2 were measured."""


class ColumnNames(list[str]):
    """Distinct names of columns; `repeated` are those that the table has more than once."""

    def __init__(self, stored: Iterable[str]) -> None:
        stored = list(stored)
        super().__init__(distinct_names(stored))
        self.repeated = {name: times for name, times in Counter(stored).items() if times > 1}

    def check_role(self, name: str, role: str, path: Path) -> None:
        """Refuse a column that has a meaning, if it is not certain which one it is."""
        if name in self.repeated:
            raise SourceError(
                f"`{path}` has {self.repeated[name]} columns named `{name}`; expected one, since "
                f"it is {role}",
                hint="rename all but one",
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided about equal names."""
        listed = ", ".join(f"`{name}`" for name in self.repeated)
        what = f"columns of the same name were numbered: {listed}, and those after it `NAME.1`"
        return (what,) if listed else ()


def column_names(path: Path) -> ColumnNames:
    """The names of a table's columns, without reading its rows."""
    with readable(path):
        check_plain(path)
        if path.suffix == ".parquet":
            return ColumnNames(pyarrow.parquet.read_schema(path).names)
        with pyarrow.csv.open_csv(path) as reader:
            return ColumnNames(reader.schema.names)


def read_table(path: Path, *, texts: Iterable[str] = ()) -> pa.Table:
    """Read a CSV or Parquet file; the columns `texts` of a CSV are read as text."""
    with readable(path):
        if path.suffix == ".parquet":
            table = read_parquet(path)
        else:
            check_plain(path)
            check_budget(f"Reading `{path}`", _TEXT_FACTOR * path.stat().st_size, None)
            options = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in texts})
            table = pyarrow.csv.read_csv(path, convert_options=options)
        return table.rename_columns(distinct_names(table.column_names))


def readable(path: Path) -> AbstractContextManager[None]:
    """Say in one sentence that a table cannot be read."""
    return readable_table(f"`{path}`")


def distinct_names(names: Iterable[str]) -> list[str]:
    """Names of columns, those that repeat numbered as pandas does.

    >>> distinct_names(["a", "b", "a", "a"])
    ['a', 'b', 'a.1', 'a.2']
    """
    listed = list(names)
    taken, counts, distinct = set(listed), Counter[str](), list[str]()
    for name in listed:
        chosen = name
        while counts[name] and chosen in taken:
            chosen = f"{name}.{counts[name]}"
            counts[name] += 1
        counts[name] += not counts[name]
        taken.add(chosen)
        distinct.append(chosen)
    return distinct


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
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return column


def end_column(column: pa.ChunkedArray, name: str, path: Path) -> pa.ChunkedArray:
    """Ids of the ends of edges, whole numbers if all are and text if not."""
    column = plain_integers(column)
    return column if pa.types.is_integer(column.type) else _as_text(column, name, path)


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
    cells = pc.fill_null(_as_text(column, "split", path), "")
    text = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    numbers = pc.index_in(text, value_set=pa.array(list(_SPLITS)))
    if numbers.null_count:
        row = first_null(numbers)
        raise SourceError(
            f"`{path}`, row {row + 1}: the split is `{cells[row].as_py()}`; "
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
        example = next((f" such as {shown(value)}" for value in column if value.is_valid), "")
        raise SourceError(
            f"`{path}`: the column `{name}` holds {kind}{example}; expected numbers",
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
