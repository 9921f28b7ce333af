"""Read gzipped CSV files of plain numbers, without a header, into arrays whose size is known.

Arrow unpacks and parses the file a block at a time, so that memory holds the result and one block,
and reading takes about as long as unpacking. A file that is cut off, has other rows or columns than
expected, or holds anything but numbers is refused with its name.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from scr.compute import memory_errors
from scr.errors import SCRError, SourceError
from scr.storage import DEFLATE_RATIO, check_budget, check_plain

BLOCK_BYTES = 1 << 20
"""Text parsed at a time: larger blocks fall out of the processor's cache and are slower."""
SMALL_TEXT_BYTES = 1 << 24
"""Most text of files that list names: 16 MiB unpacked."""
_NO_NUMBER = ["", "nan", "NaN"]
"""How pandas and NumPy write a missing number."""


def fill_matrix(path: Path, matrix: NDArray[Any], *, counted_by: str) -> None:
    """Read a whole file into an array of shape (rows, columns), with any strides.

    Missing numbers become NaN in floats and are refused in integers. `counted_by` is the file that
    says how many rows there must be, for messages.
    """
    rows, columns = matrix.shape
    start = 0
    for batch in _batches(path, columns, matrix.dtype):
        if start + batch.num_rows > rows:
            raise _wrong_rows(path, f"more than {rows:,}", rows, counted_by)
        for place, column in enumerate(batch.columns):
            matrix[start : start + batch.num_rows, place] = _numbers(column, path, start)
        start += batch.num_rows
    if start < rows:
        raise _wrong_rows(path, f"{start:,}", rows, counted_by)


def read_column(path: Path) -> NDArray[np.int64]:
    """Read a file of one whole number per row, of any length."""
    start, parts = 0, [np.zeros(0, np.int64)]
    for batch in _batches(path, 1, np.dtype(np.int64)):
        check_budget(f"Reading `{path}`", 2 * 8 * (start + batch.num_rows), None)
        parts.append(_numbers(batch.column(0), path, start))
        start += batch.num_rows
    return np.concatenate(parts)


def read_cells(path: Path) -> list[list[str]]:
    """Read a small file of text, such as a list of names, row by row."""
    with _readable(path):
        check_plain(path)
        with gzip.open(path, "rb") as file:
            content = file.read(SMALL_TEXT_BYTES + 1)
        if len(content) > SMALL_TEXT_BYTES:
            raise SourceError(f"`{path}` has more than {SMALL_TEXT_BYTES:,} bytes of names")
        text = io.StringIO(content.decode("utf-8"), newline="")
        return [row for row in csv.reader(text) if row]


def check_matrix(path: Path, rows: int, columns: int, dtype: Any) -> None:
    """Refuse more numbers than can be in a file, or than fit the memory."""
    with _readable(path):
        check_plain(path)
        # A cell has a character and a separator at least, but for one that is missing.
        most = DEFLATE_RATIO * path.stat().st_size
    if rows * columns > most:
        raise SourceError(f"`{path}` cannot have {rows:,} rows of {columns:,} numbers: it is short")
    check_budget(f"Reading `{path}`", rows * columns * np.dtype(dtype).itemsize, None)


def count_columns(path: Path) -> int:
    """How many columns the first row has; 0 in an empty file."""
    with _readable(path):
        check_plain(path)
        with gzip.open(path, "rb") as file:
            line = file.readline(BLOCK_BYTES + 1).strip()
        if len(line) > BLOCK_BYTES:
            raise SourceError(f"`{path}` begins with a line of more than {BLOCK_BYTES:,} bytes")
    return line.count(b",") + 1 if line else 0


def _batches(path: Path, columns: int, dtype: np.dtype[Any]) -> Iterator[pa.RecordBatch]:
    found = count_columns(path)
    if found == 0:
        return
    if found != columns:
        raise SourceError(f"`{path}` has {found:,} columns; expected {columns:,}")
    names = [str(number) for number in range(columns)]
    kind = pa.from_numpy_dtype(dtype)
    with _readable(path), pa.input_stream(path, compression="gzip") as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, kind), null_values=_NO_NUMBER
            ),
        )
        yield from reader


def _numbers(column: pa.Array, path: Path, start: int) -> NDArray[Any]:
    if column.null_count and not pa.types.is_floating(column.type):
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise SourceError(f"`{path}`, row {row + 1}: a number is missing")
    return np.asarray(column.to_numpy(zero_copy_only=False))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        with memory_errors(f"`{path}`"):
            yield
    except FileNotFoundError:
        raise SourceError(f"`{path}` is missing", hint="unpack the archive again") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"`{path}` is damaged or cut off: {error}") from None
    except pa.ArrowInvalid as error:
        raise SourceError(f"`{path}` is not a table of numbers: {error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"`{path}` cannot be read as text: {error}") from None
    except SCRError:
        raise
    except (ValueError, pa.ArrowException) as error:
        raise SourceError(f"`{path}` cannot be read: {error}") from None
    except OSError as error:
        raise SourceError(
            f"`{path}` cannot be read, or is damaged or cut off: {error.strerror or error}"
        ) from None


def _wrong_rows(path: Path, found: str, expected: int, counted_by: str) -> SourceError:
    return SourceError(f"`{path}` has {found} rows; expected {expected:,}, as `{counted_by}` says")
