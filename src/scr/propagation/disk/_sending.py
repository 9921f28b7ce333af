"""Send what is to be propagated to the workers of a cluster.

Arrays in files are not sent: a worker opens the same file, so all machines must see it under the
same path; of those of a store, it may open copies on its own disk (`_copies.py`). Arrays in memory
go through the engine, once to each machine. What was fitted to the features is small and goes
along.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.features import LazyFeatures
from scr.graph import Graph
from scr.propagation.disk._copies import StoreCopy
from scr.propagation.disk._plan import DiskRequest
from scr.storage import FileRegion, fill, open_for_reading, region_of

PROBE_BYTES = 1 << 16
"""Read from both ends of a file to tell whether a worker sees the same one."""


class _SentFile(NamedTuple):
    """An array that lies in a file."""

    region: FileRegion
    probe: int
    """Checksum of both ends."""


class _SentRows(NamedTuple):
    """Features that are sparse, or prepared when they are read."""

    arrays: tuple[Any, ...]
    shape: tuple[int, int]
    fitted: Any = None


class SentRequest(NamedTuple):
    """A request without maps of files, as far as blocks of columns are computed from it."""

    graph: dict[str, Any]
    source: Any
    settings: dict[str, Any]
    copy: StoreCopy | None
    """What each machine copies first; workers then open the copies of these arrays."""


def sendable(request: DiskRequest, threads: int) -> SentRequest:
    """What `received` makes a request of again, for workers with so many threads."""
    graph = request.graph
    sent: dict[str, Any] = {
        name: _sent(array)
        for name in ("indptr", "indices", "weights", "edge_types")
        if (array := getattr(graph, name)) is not None
    }
    sent |= {name: getattr(graph, name) for name in ("directed", "relations")}
    sent["node_types"] = dict(graph.node_types)
    settings: dict[str, Any] = {"config": request.config, "subsets": request.subsets}
    settings["threads"] = threads
    settings["rows"] = None if request.rows is None else np.asarray(request.rows)
    return SentRequest(sent, _sent_rows(request.source), settings, store_copy(request))


def store_copy(request: DiskRequest) -> StoreCopy | None:
    """What each machine copies of the store before it computes; none: nothing."""
    if request.copy_to is None:
        return None
    graph, source = request.graph, request.source
    arrays = [graph.indptr, graph.indices, graph.weights, graph.edge_types, *_parts(source)]
    return StoreCopy.of(
        graph, [np.asarray(array) for array in arrays if array is not None], request.copy_to
    )


def received(sent: SentRequest) -> DiskRequest:
    """The request in a worker.

    Raises:
        StoreError: The worker does not see a file, or another one under its path, or the store
            cannot be copied.
    """
    copies = {} if sent.copy is None else sent.copy.arrays()
    fields = {name: _received(field, copies) for name, field in sent.graph.items()}
    targets = next(iter(fields["node_types"].values()))
    graph = Graph(**fields, labels=np.broadcast_to(np.int64(-1), (targets,)))
    return DiskRequest(graph, source=_received_rows(sent.source, copies), **sent.settings)


def _parts(source: Any) -> tuple[Any, ...]:
    """The arrays that features are read from; none of features that are only planned with."""
    if isinstance(source, LazyFeatures):
        return (source.source,)
    if isinstance(source, sp.csr_array):
        return source.data, source.indices, source.indptr
    return (source,) if isinstance(source, np.ndarray) else ()


def _sent_rows(source: Any) -> Any:
    if isinstance(source, np.ndarray):
        return _sent(source)
    arrays = tuple(_sent(np.asarray(part)) for part in _parts(source))
    fitted = source.fitted if isinstance(source, LazyFeatures) else None
    return _SentRows(arrays, source.shape, fitted)


def _received_rows(sent: Any, copies: Mapping[FileRegion, NDArray[Any]]) -> Any:
    if not isinstance(sent, _SentRows):
        return _received(sent, copies)
    arrays = tuple(_received(array, copies) for array in sent.arrays)
    if sent.fitted is not None:
        return LazyFeatures(arrays[0], sent.fitted)
    return sp.csr_array(arrays, shape=sent.shape)


def _sent(array: NDArray[Any]) -> Any:
    region = region_of(array)
    if region is not None and region.bytes:
        return _SentFile(region, _probe(region))
    return np.array(array) if isinstance(array, np.memmap) else np.asarray(array)


def _received(sent: Any, copies: Mapping[FileRegion, NDArray[Any]]) -> Any:
    """An array that was sent, or its copy; all else as it is."""
    if not isinstance(sent, _SentFile):
        return sent
    if sent.region in copies:
        return copies[sent.region]
    region, host = sent.region, socket.gethostname()
    try:
        is_same = _probe(region) == sent.probe
    except OSError as error:
        raise StoreError(
            f"A worker on `{host}` cannot read `{region.path}`: {error.strerror}",
            hint="put the graph where all machines of the cluster see it under the same path",
        ) from None
    except EOFError:
        is_same = False
    if not is_same:
        raise StoreError(
            f"A worker on `{host}` sees another `{region.path}` than this process",
            hint="copy the graph there again, or put it on a file system that all machines share",
        )
    return np.memmap(region.path, region.dtype, "r", region.offset, region.shape)


def _probe(region: FileRegion) -> int:
    """Checksum of both ends of an array in a file."""
    size, crc32 = min(PROBE_BYTES, region.bytes), 0
    with open_for_reading(region.path) as descriptor:
        for start in (region.offset, region.offset + region.bytes - size):
            piece = np.empty(size, np.uint8)
            fill(descriptor, start, piece)
            crc32 = zlib.crc32(piece.data, crc32)
    return crc32
