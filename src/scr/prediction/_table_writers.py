"""How a table of predictions is written: in parts, in the format that the file's suffix names."""

from __future__ import annotations

import functools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from scr.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


FORMULA = r"\A([=+\-@\t\r\n＝＋－＠])"
"""How a cell begins that spreadsheets compute (OWASP, "CSV Injection")."""


class TableWriter(Protocol):
    """Writes a table part by part."""

    def write(self, part: pa.Table) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


class _ParquetWriter:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(path, schema)

    def write(self, part: pa.Table) -> None:
        self._writer.write_table(part)

    def close(self) -> None:
        self._writer.close()


class _ArrowWriter:
    """Arrow's own file format, which Feather is as well."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, part: pa.Table) -> None:
        self._writer.write_table(part)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


class _LinesWriter(ABC):
    """Text, a line for each row; UTF-8."""

    first, between, last = b"", b"", b""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file, self._has_rows = path.open("wb"), False
        self._file.write(self.first)

    @abstractmethod
    def lines(self, part: pa.Table) -> bytes:
        """The rows as they stand in the file."""

    def write(self, part: pa.Table) -> None:
        if self._has_rows:
            self._file.write(self.between)
        self._file.write(self.lines(part))
        self._has_rows = True

    def close(self) -> None:
        self._file.write(self.last)
        self._file.close()


class _CsvWriter(_LinesWriter):
    """A value is quoted where it must be (RFC 4180); a null is empty, a list is JSON."""

    separator = ","
    _is_safe = False

    def __init__(self, path: Path, schema: pa.Schema, *, spreadsheet_safe: bool = False) -> None:
        import pyarrow as pa

        super().__init__(path, schema)
        self._is_safe = spreadsheet_safe
        header = pa.table({name: pa.array([name]) for name in schema.names})
        self._file.write(self.lines(header))

    def lines(self, part: pa.Table) -> bytes:
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = [self._cells(column.combine_chunks()) for column in part.columns]
        rows = pc.binary_join_element_wise(
            *cells, pa.scalar(self.separator, pa.large_string()), null_handling="replace"
        )
        return "".join(f"{row}\n" for row in rows.to_pylist()).encode()

    def _cells(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_list(column.type):
            lists = column.to_pylist()
            texts = [None if each is None else _json(each) for each in lists]
            column = pa.array(texts, pa.large_string())
        text = column.cast(pa.large_string())
        special = pc.match_substring_regex(text, f'["\r\n{self.separator}]')
        if self._is_safe and not pa.types.is_primitive(column.type):
            text = pc.replace_substring_regex(text, FORMULA, r"'\1")
            special = pc.is_valid(text)
        doubled = pc.replace_substring(text, '"', '""')
        mark, nothing = (pa.scalar(each, pa.large_string()) for each in ('"', ""))
        quoted = pc.binary_join_element_wise(mark, doubled, mark, nothing)
        return pc.if_else(special, quoted, text)


class _TsvWriter(_CsvWriter):
    separator = "\t"


class _JsonLinesWriter(_LinesWriter):
    """An object in each line."""

    separator = "\n"
    last = b"\n"
    between = b"\n"

    def lines(self, part: pa.Table) -> bytes:
        columns = [_plain(column) for column in part.columns]
        names = part.schema.names
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return self.separator.join(map(_json, rows)).encode()


class _JsonWriter(_JsonLinesWriter):
    """One array of objects."""

    first, separator, between, last = b"[\n", ",\n", b",\n", b"\n]\n"


def neutral(cell: Any) -> Any:
    """A cell that spreadsheets do not compute; numbers stay as they are."""
    return re.sub(FORMULA, r"'\1", cell) if isinstance(cell, str) else cell


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Values for JSON; of float32 the shortest numbers that are read back as the same."""
    import pyarrow as pa

    if pa.types.is_float32(column.type):
        return [float(text) for text in column.cast(pa.string()).to_pylist()]
    return list(column.to_pylist())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


WRITERS: dict[str, Callable[[Path, Any], TableWriter]] = {
    ".csv": _CsvWriter,
    ".tsv": _TsvWriter,
    ".parquet": _ParquetWriter,
    ".arrow": _ArrowWriter,
    ".feather": _ArrowWriter,
    ".json": _JsonWriter,
    ".jsonl": _JsonLinesWriter,
}
"""By suffix: given a path and the schema of the table."""


def table_writer(
    path: str | Path, *, spreadsheet_safe: bool = False
) -> Callable[[Path, Any], TableWriter]:
    """What writes a file of this name; other suffixes are refused.

    Args:
        path: The file.
        spreadsheet_safe: Quote every text and put an apostrophe before those that a spreadsheet
            would compute; CSV and TSV alone.
    """
    writer = WRITERS.get(Path(path).suffix.lower())
    if spreadsheet_safe and writer is not None:
        if not (isinstance(writer, type) and issubclass(writer, _CsvWriter)):
            raise ConfigError("spreadsheet_safe", True, "a file name that ends in .csv or .tsv")
        return functools.partial(writer, spreadsheet_safe=True)
    if writer is None:
        known = ", ".join(WRITERS)
        raise ConfigError("predictions", str(path), f"a file name that ends in one of {known}")
    return writer
