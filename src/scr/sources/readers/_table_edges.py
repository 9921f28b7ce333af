"""Edges of a table that is larger than memory: record batches, with ids mapped one batch at a time.

Memory holds the ids of the nodes and one batch. What a batch of text or numbers means is what the
whole column would mean: numbers and their plain decimal text are the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._edge_source import CHUNK_EDGES, EdgeSource
from scr.sources.readers._columns import end_column, first_null, readable
from scr.storage import check_plain

EDGES_PER_SECOND = 1e6
"""Measured on one busy core with CSV and numbers for ids, a third of it with text; for estimates of
time only."""
_BLOCK_BYTES = 1 << 24
"""Of a CSV file, parsed at a time."""

Mapper = Callable[[pa.ChunkedArray, str, int], NDArray[np.int64]]
"""From a column of ids, its name and the row that it begins at to node numbers."""


class TableEdges(EdgeSource):
    """Two columns of a CSV or Parquet file."""

    dtype = np.dtype(np.int64)

    def __init__(
        self, path: Path, ends: list[str], numbers_of: Mapper, edges_per_second: float
    ) -> None:
        """Count the edges of a table, of which the columns `ends` hold sources and targets."""
        self._path, self._ends, self._numbers_of = path, ends, numbers_of
        with readable(path):
            if path.suffix == ".parquet":
                check_plain(path)
                self.num_edges = pyarrow.parquet.read_metadata(path).num_rows
            else:
                self.num_edges = sum(batch.num_rows for batch in self._csv_batches())
        self.read_seconds = self.num_edges / edges_per_second

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Read, and look up the ids, by batches of rows."""
        row = 0
        with readable(self._path):
            for batch in self._batches(size):
                for start in range(0, batch.num_rows, size):
                    part = pa.Table.from_batches([batch.slice(start, size)])
                    yield np.stack([self._numbers_of(part[end], end, row) for end in self._ends])
                    row += part.num_rows

    def _batches(self, size: int) -> Iterator[pa.RecordBatch]:
        if self._path.suffix == ".csv":
            yield from self._csv_batches()
            return
        with pyarrow.parquet.ParquetFile(self._path) as file:
            yield from file.iter_batches(size, columns=self._ends)

    def _csv_batches(self) -> Iterator[pa.RecordBatch]:
        texts = {name: pa.string() for name in self._ends}
        options = pyarrow.csv.ConvertOptions(column_types=texts, include_columns=self._ends)
        blocks = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES)
        with pyarrow.csv.open_csv(self._path, read_options=blocks, convert_options=options) as file:
            yield from file


def id_mapper(ids: pa.Array, path: Path, nodes_path: Path) -> Mapper:
    """How ids become node numbers, which are their places; what takes long is done once.

    Both tables, of edges and of nodes, are for messages.
    """
    # Numbers beyond int64 are looked up as they are.
    is_ordered = pa.types.is_integer(ids.type) and ids.type != pa.uint64() and len(ids) > 0
    look_up = _by_order(ids) if is_ordered else lambda column: _by_hash(column, ids)

    def numbers_of(column: pa.ChunkedArray, name: str, first_row: int) -> NDArray[np.int64]:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        plain = end_column(column, name, path)
        numbers = look_up(plain)
        if numbers.null_count:
            row = first_null(numbers)
            unknown = plain[row].as_py()
            value = "empty" if unknown in (None, "") else f"`{unknown}`"
            raise SourceError(
                f"`{path}`, row {first_row + row + 1}: the {name} is {value}, which is not an id "
                f"in `{nodes_path}`",
                hint="add the node to the table of nodes, or remove the edge",
            )
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)

    return numbers_of


def _by_hash(column: pa.ChunkedArray, ids: pa.Array) -> Any:
    if column.type != ids.type:
        # Numbers on one side and text on the other meet as text.
        column, ids = column.cast(pa.string()), ids.cast(pa.string())
    return pc.index_in(column, value_set=ids)


def _by_order(ids: pa.Array) -> Callable[[pa.ChunkedArray], Any]:
    """Arrow would make its table of all ids again for each batch; numbers can be searched for."""
    values = ids.to_numpy().astype(np.int64)
    order = None if bool((values[1:] > values[:-1]).all()) else np.argsort(values, kind="stable")
    ordered = values if order is None else values[order]

    def look_up(column: pa.ChunkedArray) -> Any:
        if not pa.types.is_integer(column.type):  # text that is not a number, and so not an id
            return _by_hash(column, ids)
        is_missing = column.is_null().to_numpy()
        wanted = pc.fill_null(column, 0).to_numpy()
        rows = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        is_missing = is_missing | (ordered[rows] != wanted)
        return pa.array(rows if order is None else order[rows], mask=is_missing)

    return look_up
