"""Bring dense features into a store without having them in memory: copied by chunks, or linked.

Every value is looked at once, on its way: features that are not finite are refused here as they
are for graphs in memory.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, default_threads, map_in_order
from scr.errors import SourceError
from scr.graph import check_finite, stored_feature_type
from scr.storage import (
    CHUNK_BYTES,
    COPY_BYTES,
    ArrayEntry,
    FileRegion,
    StreamedArray,
    WorkFolder,
    linked_entry,
    row_chunks,
    whole_file,
)

FILE = "features.npy"


def copy_features(
    features: NDArray[Any], work: WorkFolder, on_progress: OnProgress | None = None
) -> ArrayEntry:
    """Copy features to a file in the work folder, converted and checked chunk by chunk."""
    known = work.finished("features")
    if known is not None:
        return ArrayEntry.from_json(known)
    dtype, done = stored_feature_type(features), 0

    def work_on(piece: tuple[int, NDArray[Any]]) -> NDArray[Any]:
        first, rows = piece
        check_finite(rows, first)
        return rows.astype(dtype, copy=False)

    stream = StreamedArray(work.file(FILE), features.shape, dtype, target=work.target)
    with closing(stream):
        threads = default_threads()
        pieces = _numbered(features)
        for rows in map_in_order(work_on, pieces, threads=threads, ahead=threads + 1):
            stream.write(rows)
            done += len(rows)
            if on_progress is not None:
                on_progress("copy features", done, len(features))
        entry = stream.finish()
    work.finish("features", entry.as_json(), [FILE])
    return entry


def _numbered(features: NDArray[Any]) -> Any:
    first = 0
    for rows in row_chunks(features):
        yield first, rows
        first += len(rows)


def link_features(
    features: NDArray[Any], work: WorkFolder, on_progress: OnProgress | None = None
) -> ArrayEntry:
    """Read features once where they are, for their checksums and to check their values."""
    known = work.finished("features")
    if known is None:
        region = linkable(features)
        starts, digests = range(0, region.bytes, CHUNK_BYTES), []
        threads = default_threads()

        def work_on(start: int) -> str:
            return _checked_digest(region, start, min(start + CHUNK_BYTES, region.bytes))

        for digest in map_in_order(work_on, starts, threads=threads, ahead=threads + 1):
            digests.append(digest)
            if on_progress is not None:
                on_progress("read features", len(digests), len(starts))
        known = linked_entry(features, digests).as_json()
        work.finish("features", known)
    return ArrayEntry.from_json(known)


def linkable(features: Any) -> FileRegion:
    """The file of features that can be linked.

    Raises:
        SourceError: They are not float16 or float32 in a plain `.npy` file.
    """
    region = whole_file(features) if isinstance(features, np.ndarray) else None
    if region is None or features.dtype not in (np.float16, np.float32):
        actual = "sparse or not in a file of their own"
        if region is not None:
            actual = str(features.dtype)
        elif features is None:
            actual = "missing"
        raise SourceError(
            f"The features cannot be linked: they are {actual}; expected a `.npy` file of float16 "
            "or float32 with rows one after the other",
            hint="let them be copied instead",
        )
    return region


def _checked_digest(region: FileRegion, start: int, stop: int) -> str:
    """The checksum of some bytes of the features, whose values must be finite."""
    digest, columns = hashlib.blake2b(digest_size=8), region.shape[1]
    values = FileRegion(region.path, region.offset, (region.bytes // region.dtype.itemsize,),
                        region.dtype)  # fmt: skip
    for first in range(start, stop, COPY_BYTES):
        last = min(first + COPY_BYTES, stop)
        piece = values.read(first // region.dtype.itemsize, last // region.dtype.itemsize)
        digest.update(piece.view(np.uint8).data)
        _check_values(piece, first // region.dtype.itemsize, columns)
    return digest.hexdigest()


def _check_values(values: NDArray[Any], first: int, columns: int) -> None:
    """`check_finite` for values that need not begin or end with a row."""
    row, column = divmod(first, columns)
    head = min((columns - column) % columns, len(values))
    body = (len(values) - head) // columns * columns
    padded = np.zeros((1, columns), values.dtype)
    if head:
        padded[0, column : column + head] = values[:head]
        check_finite(padded, row)
        row += 1
    check_finite(values[head : head + body].reshape(-1, columns), row)
    tail = values[head + body :]
    if len(tail):
        padded[0] = 0
        padded[0, : len(tail)] = tail
        check_finite(padded, row + body // columns)
