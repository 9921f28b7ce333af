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
from scr.sources.readers._columns import plain_integers, readable

LARGE_BYTES = 1 << 28
"""Tables of edges from this size on are read by batches: 256 MiB."""
EDGES_PER_SECOND = 1e6
"""Measured on one busy core with CSV and numbers for ids, a third of it with text; for estimates of
time only."""
_BLOCK_BYTES = 1 << 24
"""Of a CSV file, parsed at a time."""


class TableEdges(EdgeSource):
    """Two columns of a CSV or Parquet file."""

    dtype = np.dtype(np.int64)

    def __init__(self, path: Path, ends: list[str], ids: pa.Array, nodes_path: Path) -> None:
        """Count the edges of a table.

        Args:
            path: Ends in `.csv` or `.parquet`.
            ends: The columns of sources and targets.
            ids: Of the nodes, in the order of their numbers.
            nodes_path: The table that the ids are from, for messages.
        """
        self._path, self._ends = path, ends
        self._numbers_of = id_mapper(ids, path, nodes_path)
        with readable(path):
            if path.suffix == ".parquet":
                self.num_edges = pyarrow.parquet.read_metadata(path).num_rows
            else:
                self.num_edges = sum(batch.num_rows for batch in self._csv_batches())

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Read, and look up the ids, by batches of rows."""
        row = 0
        with readable(self._path):
            for batch in self._batches(size):
                for start in range(0, batch.num_rows, size):
                    part = batch.slice(start, size)
                    columns = zip(self._ends, part.columns, strict=True)
                    yield np.stack([self._numbers_of(each, name, row) for name, each in columns])
                    row += part.num_rows

    def _batches(self, size: int) -> Iterator[pa.RecordBatch]:
        if self._path.suffix == ".csv":
            yield from self._csv_batches()
            return
        with pyarrow.parquet.ParquetFile(self._path) as file:
            for batch in file.iter_batches(size, columns=self._ends):
                yield batch.select(self._ends)

    def _csv_batches(self) -> Iterator[pa.RecordBatch]:
        texts = {name: pa.string() for name in self._ends}
        options = pyarrow.csv.ConvertOptions(column_types=texts, include_columns=self._ends)
        blocks = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES)
        with pyarrow.csv.open_csv(self._path, read_options=blocks, convert_options=options) as file:
            yield from file

    @property
    def read_seconds(self) -> float:
        """As fast as text is parsed and looked up."""
        return self.num_edges / EDGES_PER_SECOND


Mapper = Callable[[pa.Array, str, int], NDArray[np.int64]]
"""From a column of ids, its name and the row that it begins at to node numbers."""


def id_mapper(ids: pa.Array, path: Path, nodes_path: Path) -> Mapper:
    """How ids become node numbers; what takes long is done once.

    Args:
        ids: Of the nodes, in the order of their numbers.
        path: The table of edges, for messages.
        nodes_path: The table of nodes, for messages.
    """
    if not pa.types.is_integer(ids.type) or ids.type == pa.uint64():  # beyond int64, some of them
        look_up: Callable[[pa.Array], pa.Array] = _by_hash(ids)
    else:
        look_up = _by_order(ids)

    def numbers_of(column: pa.Array, name: str, first_row: int) -> NDArray[np.int64]:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        plain = plain_integers(pa.chunked_array([column])).combine_chunks()
        numbers = look_up(plain)
        if numbers.null_count:
            place = pc.index(pc.is_null(numbers), True).as_py()
            raise unknown_id(path, first_row + place, name, plain[place].as_py(), nodes_path)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)

    return numbers_of


def unknown_id(path: Path, row: int, name: str, found: Any, nodes_path: Path) -> SourceError:
    """The error for an edge with an end that no node has as its id."""
    value = "empty" if found is None or found == "" else f"`{found}`"
    return SourceError(
        f"`{path}`, row {row + 1}: the {name} is {value}, which is no id in `{nodes_path}`",
        hint="add the node to the table of nodes, or remove the edge",
    )


def _by_hash(ids: pa.Array) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pc.index_in(column.cast(ids.type), value_set=ids)


def _by_order(ids: pa.Array) -> Callable[[pa.Array], pa.Array]:
    """Arrow would make its table of all ids again for each batch; numbers can be searched for."""
    values = ids.to_numpy().astype(np.int64)
    order = None if bool((values[1:] > values[:-1]).all()) else np.argsort(values, kind="stable")
    ordered = values if order is None else values[order]

    def look_up(column: pa.Array) -> pa.Array:
        if not pa.types.is_integer(column.type):  # some text that is no number: no id either
            return pc.index_in(column.cast(pa.string()), value_set=ids.cast(pa.string()))
        is_missing = column.is_null().to_numpy(zero_copy_only=False)
        wanted = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        is_missing = is_missing | (ordered[places] != wanted)
        return pa.array(places if order is None else order[places], mask=is_missing)

    return look_up
