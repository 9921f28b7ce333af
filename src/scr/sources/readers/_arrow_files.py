"""Read Parquet and Arrow files that somebody else may have made or damaged.

Both are compressed, so that a few bytes may declare more rows than any memory has: what the
metadata declare is counted against the memory before anything is unpacked. Arrow's readers trust
offsets inside the data; they are checked whole before anything uses them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet

from scr.compute import memory_errors
from scr.errors import SCRError, SourceError
from scr.storage import DAMAGE, check_budget, check_plain

_FILE_MAGIC, _OLD_FEATHER_MAGIC = b"ARROW1\0\0", b"FEA1"
_CELL_BYTES = 8
"""Of a cell whose width the type does not say: offsets and marks of missing ones."""
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
"""Kinds of messages (format/Message.fbs of Apache Arrow)."""


@contextmanager
def readable_table(what: str) -> Iterator[None]:
    """Say in one sentence that a table cannot be read."""
    try:
        with memory_errors(what):
            yield
    except SCRError:
        raise
    except OSError as error:  # Arrow's are long and have no number
        reason = error.strerror or str(error).partition("\n")[0]
        raise SourceError(f"{what} cannot be read as a table: {reason}") from None
    except (pa.ArrowException, UnicodeError, *DAMAGE) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise SourceError(f"{what} cannot be read as a table: {reason}") from None


def read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file whole; columns of dictionaries come as what they stand for.

    Raises what `readable_table` turns into a sentence, or a `MemoryBudgetError`.
    """
    check_plain(path)
    with pyarrow.parquet.ParquetFile(path) as file:
        _check_parquet(file, path)
        schema = file.schema_arrow
        types = dict(zip(schema.names, schema.types, strict=True))
    with pyarrow.parquet.ParquetFile(path, read_dictionary=_text_columns(schema)) as file:
        table = file.read()
    table.validate(full=True)
    return _without_dictionaries(table, types, path)


def _check_parquet(file: pyarrow.parquet.ParquetFile, path: Path) -> None:
    """Compare what metadata declare with each other and with the memory.

    Those of columns are not asked for: damaged ones make Arrow end the process.
    """
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise ValueError(f"it declares {metadata.num_rows:,} rows, and its groups have {rows[:5]}")
    needed = sum(metadata.num_rows * _width(field.type) for field in file.schema_arrow)
    needed += sum(max(group.total_byte_size, 0) for group in groups)
    check_budget(f"Reading `{path}`", needed, None)


def _width(kind: pa.DataType) -> int:
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return _CELL_BYTES


def _text_columns(schema: pa.Schema) -> list[str]:
    """Columns of text, of which a few values may stand for many rows.

    They are read as dictionaries, so that it is known how long the texts are before they are made.
    """
    return [
        field.name
        for field in schema
        if (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
        and schema.names.count(field.name) == 1
    ]


def _without_dictionaries(table: pa.Table, types: dict[str, pa.DataType], path: Path) -> pa.Table:
    for place, field in enumerate(table.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column, target = table.column(place), field.type.value_type
        if pa.types.is_binary(target) or pa.types.is_string(target):
            check_budget(f"The column `{field.name}` of `{path}`", _dense_bytes(column), None)
        stored = types[field.name]  # a column of text that was read in this way, or a dictionary
        column = column.cast(target if pa.types.is_dictionary(stored) else stored)
        table = table.set_column(place, field.name, column)
    return table


def _dense_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of the texts of a column of dictionaries."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def read_arrow_file(path: Path) -> pa.Table:
    """Read an Arrow or feather file, or a stream; see `read_parquet`."""
    check_plain(path)
    check_budget(f"Reading `{path}`", path.stat().st_size, None)
    content = pa.py_buffer(path.read_bytes())
    if content[:4].to_pybytes() == _OLD_FEATHER_MAGIC:
        table = pyarrow.feather.read_table(pa.BufferReader(content), memory_map=False)
    else:
        # A file is a stream between a magic word and an index, which need not agree with it.
        begin = len(_FILE_MAGIC) if content[:8].to_pybytes() == _FILE_MAGIC else 0
        stream = content.slice(begin)
        check_budget(f"Reading `{path}`", sum(_declared_sizes(stream)), None)
        with pa.ipc.open_stream(pa.BufferReader(stream)) as reader:
            table = reader.read_all()
    table.validate(full=True)
    return table


def _declared_sizes(stream: pa.Buffer) -> Iterator[int]:
    """Bytes that each message of a stream takes, unpacked."""
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        yield _batch_bytes(message.metadata.to_pybytes(), message.body)


def _batch_bytes(metadata: bytes, body: pa.Buffer | None) -> int:
    """By the metadata of a message, which are a FlatBuffer."""
    root = _Table(metadata, *struct.unpack_from("<I", metadata, 0))
    kind, batch = root.number(1, "<B"), root.table(2)
    if kind == _DICTIONARY_BATCH and batch is not None:
        batch = batch.table(1)
    elif kind != _RECORD_BATCH:
        return 0
    if batch is None:
        return 0
    rows, is_packed = batch.number(0, "<q"), batch.table(3) is not None
    if rows < 0:
        raise ValueError(f"a batch declares {rows:,} rows")
    size = rows  # a column of nothing has rows without any bytes
    for place in batch.vector(2, 16):
        offset, length = struct.unpack_from("<qq", metadata, place)
        if not is_packed or length == 0:
            size += max(length, 0)
            continue
        (unpacked,) = struct.unpack_from("<q", body or b"", offset)
        size += length if unpacked == -1 else max(unpacked, 0)
    return size


class _Table:
    """A table of a FlatBuffer: fields by number, each perhaps missing."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        (back,) = struct.unpack_from("<i", data, place)
        self._fields = place - back

    def _field(self, number: int) -> int | None:
        """Where the value of a field is."""
        (size,) = struct.unpack_from("<H", self._data, self._fields)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * number)
        return self._place + offset if offset else None

    def number(self, number: int, form: str) -> int:
        """A field that is a number; 0 where it is missing."""
        place = self._field(number)
        return 0 if place is None else int(struct.unpack_from(form, self._data, place)[0])

    def _target(self, number: int) -> int | None:
        """Where a field points to."""
        place = self._field(number)
        return None if place is None else place + struct.unpack_from("<I", self._data, place)[0]

    def table(self, number: int) -> _Table | None:
        """A field that is a table."""
        place = self._target(number)
        return None if place is None else _Table(self._data, place)

    def vector(self, number: int, width: int) -> range:
        """Where the entries of a field that is a list are."""
        place = self._target(number)
        if place is None:
            return range(0)
        (count,) = struct.unpack_from("<I", self._data, place)
        if place + 4 + width * count > len(self._data):
            raise ValueError("a list of its metadata is longer than they are")
        return range(place + 4, place + 4 + width * count, width)


def shown(value: Any) -> str:
    """A cell for messages, also where Python has no such date or text."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, KeyError, TypeError, ImportError, OSError):
        return f"a {value.type}"
    return text if len(text) <= 80 else f"{text[:80]}..."
