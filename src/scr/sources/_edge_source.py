"""Edges that are read a chunk at a time, so that a list of them may be larger than memory.

A reader hands over an `EdgeSource` instead of an array where it can. Whatever fits memory asks for
`np.asarray` of it; everything else goes through `chunks`, which may be called again and again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import DTypeLike, NDArray

from scr.errors import SourceError
from scr.storage import READ_SPEED, FileRegion, fill, open_for_reading, region_of

CHUNK_EDGES = 1 << 21
"""Edges read at a time: 16 MiB of 32-bit numbers."""
PARQUET_EDGES_PER_SECOND = 9e6
"""Measured on one busy core; for estimates of time only."""


class EdgeSource(ABC):
    """A list of edges by node number, of shape (2, edges)."""

    num_edges: int
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """The edges in order, at most `size` at a time. Shape (2, edges of the chunk)."""

    @property
    def read_seconds(self) -> float:
        """About how long it takes to read all edges once from a disk."""
        return 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Of the edges as one array."""
        return 2, self.num_edges

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """All edges in memory."""
        edges = np.empty(self.shape, self.dtype)
        start = 0
        for chunk in self.chunks():
            edges[:, start : start + chunk.shape[1]] = chunk
            start += chunk.shape[1]
        return edges if dtype is None else edges.astype(dtype, copy=False)


class ArrayEdges(EdgeSource):
    """Edges that are in memory already."""

    def __init__(self, edges: NDArray[Any]) -> None:
        self._edges = edges
        self.num_edges, self.dtype = edges.shape[1], edges.dtype

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Views of the array."""
        for start in range(0, self.num_edges, size):
            yield self._edges[:, start : start + size]


class FileEdges(EdgeSource):
    """Edges of a region of a file: sources and then targets, or pairs one after the other."""

    def __init__(self, region: FileRegion, *, is_pairs: bool) -> None:
        """Plan to read a region.

        Args:
            region: Of shape (2, edges) or, if they are pairs, (edges, 2).
            is_pairs: Whether each source lies beside its target.
        """
        self._region, self._is_pairs = region, is_pairs
        self.num_edges = region.shape[0] if is_pairs else region.shape[1]
        self.dtype = region.dtype

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Read with plain reads."""
        for start in range(0, self.num_edges, size):
            stop = min(start + size, self.num_edges)
            try:
                yield self._read(start, stop)
            except (OSError, EOFError) as error:
                raise SourceError(f"`{self._region.path}` cannot be read: {error}") from None

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._is_pairs:
            return self._region.read(start, stop).T
        chunk = np.empty((2, stop - start), self.dtype)
        with open_for_reading(self._region.path) as descriptor:
            for end, part in enumerate(chunk):
                first = end * self.num_edges + start
                fill(descriptor, self._region.offset + first * self.dtype.itemsize, part)
        return chunk

    @property
    def read_seconds(self) -> float:
        """As fast as the disk."""
        return self._region.bytes / READ_SPEED


class ParquetEdges(EdgeSource):
    """Columns `source` and `target` of a Parquet file, else its first two, by batches of rows."""

    dtype = np.dtype(np.int64)

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                schema, self.num_edges = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"`{path}` cannot be read as a table: {error}") from None
        is_named = {"source", "target"} <= set(schema.names)
        self._columns = ["source", "target"] if is_named else schema.names[:2]
        kinds = [schema.field(name).type for name in self._columns]
        if len(kinds) < 2 or not all(pa.types.is_integer(kind) for kind in kinds):
            raise SourceError(
                f"`{path}` has the columns {schema.names}; expected two columns of node numbers"
            )

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Read by batches of rows."""
        try:
            with pyarrow.parquet.ParquetFile(self._path) as file:
                for batch in file.iter_batches(size, columns=self._columns):
                    yield np.stack([self._numbers(batch.column(name)) for name in self._columns])
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"`{self._path}` cannot be read as a table: {error}") from None

    def _numbers(self, column: pa.Array) -> NDArray[np.int64]:
        if column.null_count:
            raise SourceError(f"`{self._path}` has an edge without both ends; expected two numbers")
        numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    @property
    def read_seconds(self) -> float:
        """As fast as one core unpacks."""
        return self.num_edges / PARQUET_EDGES_PER_SECOND


class JoinedEdges(EdgeSource):
    """Several lists of edges, one after the other."""

    def __init__(self, parts: Sequence[EdgeSource]) -> None:
        self._parts = parts
        self.num_edges = sum(part.num_edges for part in parts)
        common = np.result_type(*(part.dtype for part in parts))
        # NumPy takes floats for int64 with uint64; no node has a number beyond int64.
        self.dtype = common if common.kind in "iu" else np.dtype(np.int64)

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """The chunks of each part in turn."""
        for part in self._parts:
            yield from part.chunks(size)

    @property
    def read_seconds(self) -> float:
        """Of all parts."""
        return sum(part.read_seconds for part in self._parts)


def as_edge_source(edges: NDArray[Any] | EdgeSource) -> EdgeSource:
    """Edges to be read by chunks; memory maps by reads of their files."""
    if isinstance(edges, EdgeSource):
        return edges
    for array, is_pairs in ((edges, False), (edges.T, True)):
        region = region_of(array)
        if region is not None:
            return FileEdges(region, is_pairs=is_pairs)
    return ArrayEdges(edges)
