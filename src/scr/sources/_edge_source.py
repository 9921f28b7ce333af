"""Edges that are read a chunk at a time, so that a list of them may be larger than memory.

A reader hands over an `EdgeSource` instead of an array where it can. Whatever fits memory asks for
`np.asarray` of it; everything else goes through `chunks`, which may be called again and again.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr.errors import SourceError
from scr.storage import READ_SPEED, FileRegion, ranges, region_of

CHUNK_EDGES = 1 << 21
"""Edges read at a time: 16 MiB of 32-bit numbers."""


class EdgeSource(ABC):
    """A list of edges by node number, of shape (2, edges)."""

    num_edges: int
    dtype: np.dtype[Any]
    read_seconds: float = 0.0
    """About how long it takes to read all edges once from a disk."""

    @abstractmethod
    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """The edges in order, at most `size` at a time. Shape (2, edges of the chunk)."""

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
        for start, stop in ranges(self.num_edges, size):
            yield self._edges[:, start:stop]


class FileEdges(EdgeSource):
    """Edges of a region of a file: sources and then targets, or pairs one after the other."""

    def __init__(self, region: FileRegion, *, is_pairs: bool) -> None:
        """Plan to read a region of shape (2, edges) or, if they are pairs, (edges, 2)."""
        self._region, self._is_pairs = region, is_pairs
        self.num_edges = region.shape[0] if is_pairs else region.shape[1]
        self.dtype, self.read_seconds = region.dtype, region.bytes / READ_SPEED

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """Read with plain reads."""
        for start, stop in ranges(self.num_edges, size):
            try:
                yield self._read(start, stop)
            except (OSError, EOFError) as error:
                raise SourceError(f"`{self._region.path}` cannot be read: {error}") from None

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._is_pairs:
            return self._region.read(start, stop).T
        flat = dataclasses.replace(self._region, shape=(2 * self.num_edges,))
        return np.stack([flat.read(end + start, end + stop) for end in (0, self.num_edges)])


class JoinedEdges(EdgeSource):
    """Several lists of edges, one after the other."""

    def __init__(self, parts: Sequence[EdgeSource]) -> None:
        self._parts = parts
        self.num_edges = sum(part.num_edges for part in parts)
        self.read_seconds = sum(part.read_seconds for part in parts)
        common = np.result_type(*(part.dtype for part in parts))
        # NumPy takes floats for int64 with uint64; no node has a number beyond int64.
        self.dtype = common if common.kind in "iu" else np.dtype(np.int64)

    def chunks(self, size: int = CHUNK_EDGES) -> Iterator[NDArray[Any]]:
        """The chunks of each part in turn."""
        for part in self._parts:
            yield from part.chunks(size)


def as_edge_source(edges: NDArray[Any] | EdgeSource) -> EdgeSource:
    """Edges to be read by chunks; memory maps by reads of their files."""
    if isinstance(edges, EdgeSource):
        return edges
    for array, is_pairs in ((edges, False), (edges.T, True)):
        region = region_of(array)
        if region is not None:
            return FileEdges(region, is_pairs=is_pairs)
    return ArrayEdges(edges)
