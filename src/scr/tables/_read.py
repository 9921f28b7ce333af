"""Open a table of any form as Arrow columns: files, pandas, polars, Arrow.

Cells of text files stay text, without spaces around them: what they mean depends on the role of the
column, and "007" must not become 7 before that is known. The delimiter and the encoding are found
by looking at the bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from scr.errors import SourceError
from scr.tables._options import Table, check_format

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", "|")
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "`|`"}
_SNIFFED_CHARACTERS = 1 << 16
_SNIFFED_ROWS = 50
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"
}  # fmt: skip
_LARGEST_BLOCK = 1 << 30
"""Arrow reads text by blocks, of which none may begin inside a cell that ends in another."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_WHOLE_NUMBER = r"-?\d+\Z"
SHOWN_ROWS = 3


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """A table, what to call it, and what had to be decided to read it."""

    rows: pa.Table
    name: str
    notes: tuple[str, ...] = ()


def read_any_table(
    table: Table, *, delimiter: str | None = None, encoding: str | None = None
) -> pa.Table:
    """Read a file, a pandas or polars DataFrame or an Arrow table as an Arrow table.

    Cells of text files (csv, tsv, txt) stay text; dictionaries and large text become plain text.

    Raises:
        SourceError: It cannot be read as a table; the message says why.
    """
    return open_table(table, "table", delimiter=delimiter, encoding=encoding).rows


def open_table(
    table: Table,
    role: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    is_edges: bool = False,
) -> OpenedTable:
    """As `read_any_table`, with what was decided; `role` names a table that has no path.

    Edges may lack a row of column names: then the names are the first edge, and may be equal.
    """
    check_format(delimiter, encoding)
    if isinstance(table, str | Path):
        opened = _open_file(Path(table).expanduser(), delimiter, encoding)
    else:
        with _readable(f"the {role}"):
            opened = OpenedTable(_from_memory(table, role), f"the {role}")
    with _readable(opened.name):
        rows = _plain_columns(opened.rows)
    if not (is_edges and lacks_header(rows)):
        _check_names(rows.column_names, opened.name)
    return OpenedTable(rows, opened.name, opened.notes)


def lacks_header(edges: pa.Table) -> bool:
    """Whether the names of the first two columns of edges are whole numbers, thus ids."""
    names = edges.column_names
    is_text = all(pa.types.is_string(column.type) for column in edges.columns)
    return is_text and len(names) > 1 and all(re.match(_WHOLE_NUMBER, each) for each in names[:2])


def _open_file(path: Path, delimiter: str | None, encoding: str | None) -> OpenedTable:
    name, suffixes = f"`{path}`", [each.lower() for each in path.suffixes]
    suffix = suffixes[-1] if suffixes else ""
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise SourceError(f"{name} {kind}; expected a file with a table")
    with _readable(name):
        if suffix == ".parquet":
            return OpenedTable(pyarrow.parquet.read_table(path, partitioning=None), name)
        if suffix in (".arrow", ".feather", ".ipc"):
            return OpenedTable(_read_arrow(path), name)
        if suffix == ".gz" and suffixes[-2:-1] and suffixes[-2] in TEXT_SUFFIXES:
            content = gzip.decompress(path.read_bytes())
        elif suffix in TEXT_SUFFIXES:
            content = path.read_bytes()
        else:
            raise SourceError(
                f"{name} has the ending `{suffix}`; expected .csv, .tsv or .txt, also with .gz, "
                ".parquet, .arrow or .feather"
            )
        return _read_text(content, name, delimiter, encoding)


def _read_arrow(path: Path) -> pa.Table:
    try:
        return pyarrow.feather.read_table(path, memory_map=False)
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            return stream.read_all()


def _read_text(
    content: bytes, name: str, delimiter: str | None, encoding: str | None
) -> OpenedTable:
    text, used = _decode(content, name, encoding)
    notes = []
    if used == "cp1252":
        notes.append(f"{name} is not UTF-8 and was read as Windows-1252")
    if "\0" in text:
        raise SourceError(f"{name} holds NUL characters; expected a text file")
    if not text.strip(" \t\r\n,;|"):
        raise SourceError(f"{name} is empty; expected a row of column names")
    found = delimiter or _sniff(text[:_SNIFFED_CHARACTERS])
    if delimiter is None and found != ",":
        notes.append(f"cells of {name} are separated by {DELIMITER_NAMES[found]}")
    content = content if used == "utf-8" else text.encode()
    rows, unnamed = _parse(content, next(_cells(text, found)), name, found)
    return OpenedTable(rows, name, (*notes, *unnamed))


def _decode(content: bytes, name: str, encoding: str | None) -> tuple[str, str]:
    """The text, and the encoding that it was read by."""
    marked = next((e for mark, e in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
    tried = [encoding] if encoding else [marked] if marked else ["utf-8", "cp1252", "latin-1"]
    for each in tried:
        try:
            return content.decode(each), "cp1252" if each == "latin-1" and not encoding else each
        except (UnicodeError, ValueError) as error:
            reason = error
    raise SourceError(f"{name} cannot be decoded as {tried[-1]}: {reason}")


def _sniff(text: str) -> str:
    """The delimiter by which most of the first rows have as many cells as the header."""
    best, most = ",", (0.0, 1)
    for delimiter in DELIMITERS:
        try:
            first = itertools.islice(_cells(text, delimiter), _SNIFFED_ROWS)
            widths = [len(cells) for cells in first]
        except csv.Error:
            continue
        # The last row may be cut off where the sample ends.
        counted = widths[:-1] if len(widths) > 2 else widths
        if not counted or counted[0] < 2:
            continue
        score = (sum(width == counted[0] for width in counted) / len(counted), counted[0])
        if score > most:
            best, most = delimiter, score
    return best


def _cells(text: str, delimiter: str) -> Iterator[list[str]]:
    """Cells of the rows of a text, without empty rows."""
    lines = (line.group() for line in _LINE.finditer(text))  # of which few are asked for
    rows = csv.reader(lines, delimiter=delimiter)
    return (cells for cells in rows if cells)


def _parse(
    content: bytes, header: list[str], name: str, delimiter: str
) -> tuple[pa.Table, list[str]]:
    """Text columns of a file; rows of another length than the header are refused, all at once."""
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
    )
    names = [f"column {number}" for number in range(1, len(header) + 1)]
    block = min(max(len(content) + 1, 1 << 16), _LARGEST_BLOCK)
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=block, column_names=names)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    rows = pyarrow.csv.read_csv(
        io.BytesIO(content), read_options=read, parse_options=parse, convert_options=convert
    )
    if wrong:
        shown = ", ".join(
            f"row {row.number - 1} with {row.actual_columns}" for row in wrong[:SHOWN_ROWS]
        )
        raise SourceError(
            f"{name} has {len(wrong):,} rows of another length than its header of {len(header)} "
            f"cells, first {shown}",
            hint="put cells that hold the delimiter into double quotes, or name the delimiter",
        )
    rows = rows.slice(1)
    rows = pa.table([pc.utf8_trim_whitespace(column) for column in rows.columns], names=names)
    return _name_columns(rows, [each.strip() for each in header], name)


def _name_columns(rows: pa.Table, names: list[str], name: str) -> tuple[pa.Table, list[str]]:
    """Give columns their names; an unnamed first one that counts the rows is an index of pandas."""
    if names and not names[0] and len(names) > 1 and rows.num_rows:
        counted = pa.array([str(number) for number in range(rows.num_rows)])
        if rows.column(0).combine_chunks().equals(counted):
            note = f"the unnamed first column of {name} counts its rows and was left out"
            return rows.remove_column(0).rename_columns(names[1:]), [note]
    unnamed = [number for number, each in enumerate(names, 1) if not each]
    named = [each or f"column {number}" for number, each in enumerate(names, 1)]
    notes = []
    if unnamed:
        listed = ", ".join(str(number) for number in unnamed[:SHOWN_ROWS])
        notes = [
            f"{len(unnamed)} columns of {name} have no name and are called by number: {listed}"
        ]
    return rows.rename_columns(named), notes


def _from_memory(table: Any, role: str) -> pa.Table:
    """An Arrow table from what has one of the usual methods; no library is imported for it."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    module = type(table).__module__.partition(".")[0]
    if module == "pandas" and hasattr(table, "columns"):
        if getattr(table.index, "name", None) is not None:
            table = table.reset_index()  # an index with a name is a column, such as that of ids
        named = table.rename(columns=str) if hasattr(table, "rename") else table
        _check_names(list(named.columns), f"the {role}")
        return pa.Table.from_pandas(named, preserve_index=False)
    if hasattr(table, "collect") and module == "polars":  # a LazyFrame
        table = table.collect()
    if hasattr(table, "to_arrow"):
        rows = table.to_arrow()
        if isinstance(rows, pa.Table):
            return rows
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    if isinstance(table, dict):
        return pa.table(table)
    raise SourceError(
        f"The {role} is a `{type(table).__name__}`; expected a path, a pandas or polars DataFrame, "
        "or a pyarrow Table"
    )


def _plain_columns(table: pa.Table) -> pa.Table:
    """Dictionaries become what they stand for, and all kinds of text the same one."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = column.type
        if pa.types.is_large_string(kind) or str(kind) == "string_view":
            column = column.cast(pa.string())
        elif pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        columns.append(column)
    return pa.table(columns, names=[str(name) for name in table.column_names])


def _check_names(names: list[str], name: str) -> None:
    repeated = sorted(each for each, times in Counter(names).items() if times > 1)
    if repeated:
        listed = ", ".join(f"`{each}`" for each in repeated)
        raise SourceError(f"{name} has columns of the same name: {listed}; expected distinct names")


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Say in one sentence that a table cannot be read."""
    try:
        yield
    except MemoryError:  # Arrow's is one of its exceptions too
        raise
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        reason = str(error).partition("\n")[0]
        raise SourceError(f"{name} cannot be read as a table: {reason}") from None
