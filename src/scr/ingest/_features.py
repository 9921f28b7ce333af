"""Bring dense features into a store without having them in memory: copied by chunks, or linked.

Every value is looked at once, on its way: features that are not finite are refused here as they
are for graphs in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, ProgressCount, default_threads, map_in_order
from scr.errors import SourceError
from scr.graph import check_finite, stored_feature_type
from scr.storage import (
    ArrayEntry,
    RunningChecksums,
    StreamedArray,
    WorkFolder,
    as_bytes,
    linked_entry,
    row_chunks,
    whole_file,
)

FILE = "features.npy"


def store_features(
    features: NDArray[Any], work: WorkFolder, *, link: bool, on_progress: OnProgress | None = None
) -> ArrayEntry:
    """Check features and copy them to the work folder; or only read them, to link them."""
    known = work.finished("features")
    if known is not None:
        return ArrayEntry.from_json(known)
    dtype, threads = stored_feature_type(features), default_threads()

    def checked(piece: tuple[int, NDArray[Any]]) -> NDArray[Any]:
        first, rows = piece
        check_finite(rows, first)
        return rows.astype(dtype, copy=False)

    step, digests = "read features" if link else "copy features", RunningChecksums()
    progress = ProgressCount(step, len(features), on_progress)
    file, shape = work.file(FILE), features.shape
    copy = None if link else StreamedArray(file, shape, dtype, target=work.target)
    with nullcontext() if copy is None else closing(copy) as stream:
        pieces = _numbered(features)
        for rows in map_in_order(checked, pieces, threads=threads, ahead=threads + 1):
            if stream is None:
                digests.update(as_bytes(rows))
            else:
                stream.write(rows)
            progress.add(len(rows))
        entry = linked_entry(features, digests.digests()) if stream is None else stream.finish()
    work.finish("features", entry.as_json(), {} if link else {FILE: entry})
    return entry


def _numbered(features: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Chunks of rows, each with the number of its first row."""
    first = 0
    for rows in row_chunks(features):
        yield first, rows
        first += len(rows)


def check_linkable(features: Any) -> None:
    """Raise a `SourceError` unless features are float16 or float32 in a plain `.npy` file."""
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
