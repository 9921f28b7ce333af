"""What a reader hands over: the arrays of a source as they were found, before any cleaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources._edge_source import EdgeSource
from scr.storage import check_budget

MOST_COLUMNS = 2**31 - 1
"""Of sparse matrices, whose shape is only declared."""
MOST_TEXT_BYTES = 4
"""Of each character of an array of text, which gives all texts the room of the longest."""

Features = NDArray[Any] | scipy.sparse.csr_array


@dataclass(frozen=True, eq=False, kw_only=True)
class _RawNodes:
    """What both kinds of graphs say of the nodes that are classified."""

    name: str
    """Of the graph."""
    labels: NDArray[Any] | None = None
    """Class of each (target) node, -1 where unknown; of several targets, shape (nodes, targets)."""
    class_names: tuple[str, ...] | None = None
    ids: NDArray[Any] | None = None
    """The user's own ids of the (target) nodes; none: row numbers."""
    train: NDArray[np.int64] | None = None
    """Numbers of (target) nodes; none where the split has no such part."""
    valid: NDArray[np.int64] | None = None
    test: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()
    """What the reader had to decide or leave out, for the record of the ingest."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RawGraph(_RawNodes):
    """A graph as its files have it."""

    edges: NDArray[np.integer[Any]] | EdgeSource
    """Shape (2, edges): sources above targets, in the file's order, by row number of the node."""
    num_nodes: int
    features: Features | None = None
    weights: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class RawTypedGraph(_RawNodes):
    """A graph of several types of nodes and edges, as its files have it."""

    num_nodes: dict[str, int]
    """How many nodes each type has."""
    relations: Mapping[tuple[str, str, str], NDArray[np.integer[Any]]]
    """Of each source type, name and target type. Shape (2, edges): sources above targets, numbered
    within their types."""
    features: Mapping[str, Features]
    """Of the types that have any. Shape (nodes of the type, features)."""
    target: str
    """The type of the nodes that have labels."""
    weights: Mapping[tuple[str, str, str], NDArray[np.float32]] = field(default_factory=dict)
    """Of the edges of some relations."""


def unexpected_array(what: str, array: NDArray[Any], expected: str) -> SourceError:
    """The error for an array of another type or shape than expected."""
    return SourceError(f"{what} is {array.dtype} of shape {array.shape}; expected {expected}")


def as_array(values: Any, what: str) -> NDArray[Any]:
    """What a file holds under the name `what`, as one array; a memory map stays one."""
    if isinstance(values, np.ndarray):
        return values
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise SourceError(f"{what} is not an array: {error}") from None


def as_texts(values: Any, what: str) -> tuple[str, ...]:
    """Names that a file holds under the name `what`, which may be bytes, numbers or objects."""
    array = as_array(values, what)
    if array.ndim != 1 or array.dtype.kind not in "USOiu":
        raise unexpected_array(what, array, "a list of names")
    try:
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.tolist()]
        "".join(texts).encode()
    except UnicodeError as error:
        raise SourceError(f"{what} holds names that are no text: {error}") from None
    return tuple(texts)


def as_name_array(values: Any, what: str) -> NDArray[Any]:
    """Ids that a file holds under the name `what`: whole numbers, else text."""
    array = as_array(values, what)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    texts = as_texts(array, what)
    longest = max((len(text) for text in texts), default=0)
    check_budget(f"An array of {what}", MOST_TEXT_BYTES * longest * len(texts), None)
    return np.array(texts, np.str_)


def as_labels(labels: Any, what: str) -> NDArray[Any]:
    """Check that `what`, an array of a file, has one whole number per node, or one per target."""
    array = as_array(labels, what)
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "biuf":
        return array  # of several targets; their values are checked where the graph is made
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise unexpected_array(what, array, "one whole number per node, -1 where unknown")
    return array.astype(np.int64, copy=False)


def csr_from_parts(parts: Mapping[str, Any], *, what: str) -> scipy.sparse.csr_array:
    """Build a CSR matrix from untrusted ``data``, ``indices``, ``indptr`` and ``shape``.

    Every index is checked before compiled code runs.
    """
    try:
        rows, columns = (int(size) for size in np.asarray(parts["shape"]).ravel())
        data, indices, indptr = (np.asarray(parts[key]) for key in ("data", "indices", "indptr"))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"{what} is not a sparse matrix: {error}") from None
    kinds_fit = (
        data.dtype.kind in "fiub" and indices.dtype.kind in "iu" and indptr.dtype.kind in "iu"
    )
    flat = data.ndim == indices.ndim == indptr.ndim == 1 and rows >= 0
    if not (kinds_fit and flat and len(data) == len(indices) and len(indptr) == rows + 1):
        raise SourceError(
            f"{what} is not a sparse matrix: {data.size} values, {indices.size} indices and "
            f"{indptr.size} row offsets do not fit its shape ({rows}, {columns})"
        )
    if not 0 <= columns <= MOST_COLUMNS:
        raise SourceError(f"{what} has {columns:,} columns; expected 0 to {MOST_COLUMNS:,}")
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < columns)
    ordered = (
        indptr[0] == 0 and indptr[-1] == len(indices) and bool((indptr[1:] >= indptr[:-1]).all())
    )
    if not (inside and ordered):
        raise SourceError(f"{what} has indices outside its shape ({rows}, {columns})")
    return scipy.sparse.csr_array((data, indices, indptr), shape=(rows, columns))
