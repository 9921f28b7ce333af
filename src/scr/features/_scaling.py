"""Bring features to one scale: by columns with factors that are fitted, by rows without.

`choose_scale` is the rule for features whose scale nobody has chosen; it looks at a sample of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.storage import ranges, region_of, sample_rows, stream_rows

Matrix = NDArray[Any] | sp.csr_array
Scale = Literal["none", "row", "unit", "standard", "tfidf"]
ColumnFactors = tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]

SCALE_STEPS: dict[str, tuple[str, ...]] = {
    "none": (),
    "row": ("scaled rows to sum 1",),
    "unit": ("scaled rows to length 1",),
    "standard": ("scaled columns to mean 0 and deviation 1",),
    "tfidf": ("weighted columns by TF-IDF", "scaled rows to length 1"),
}
"""What each scaling does, in words."""

_SPARSE_DENSITY = 0.25
"""Dense features with fewer non-zeros than this, none negative, are scaled like sparse ones."""
_EVEN_SPREAD = 10.0
"""Dense features stay as they are while no value and no ratio of spreads exceeds this."""
_SAMPLE_ROWS = 20_000
"""Rows looked at to choose a scaling, evenly spaced."""
_LARGE_BYTES = 2**24
"""Features on disk beyond this are fitted by parts; smaller ones as if they were in memory."""
_PART_VALUES = 1 << 20
"""Values in float64 at once, where features are fitted by parts."""
_CONSTANT = 1e-12
"""A column with a smaller deviation is constant but for rounding, and becomes 0."""


def choose_scale(features: Matrix, *, is_reduced: bool) -> Scale:
    """How to scale features, by the rule that `scr.features._prepare.fit_features` states."""
    step = max(1, features.shape[0] // _SAMPLE_ROWS)
    sample = sample_rows(features, step) if isinstance(features, np.ndarray) else features[::step]
    if isinstance(sample, np.ndarray):
        is_sparse_like = np.count_nonzero(sample) < _SPARSE_DENSITY * sample.size
        if not (is_sparse_like and sample.min(initial=0) >= 0):
            return "none" if _is_even(sample) else "standard"
    elif sample.nnz and sample.data.min() < 0:
        return "unit"
    return "tfidf" if is_reduced else "row"


def _is_even(sample: NDArray[Any]) -> bool:
    spreads = sample.std(axis=0, dtype=np.float64)
    spreads = spreads[spreads > 0]
    if len(spreads) == 0:
        return True
    ratio = spreads.max() / np.median(spreads)
    return bool(np.abs(sample).max() <= _EVEN_SPREAD and ratio <= _EVEN_SPREAD)


def fit_columns(features: Matrix, scale: Scale) -> ColumnFactors:
    """What a scaling subtracts from each column and multiplies it with; none where it does not.

    - standard: the mean, and one over the deviation.
    - tfidf: nothing, and log((1 + n) / (1 + rows with the column)) + 1, as scikit-learn does.
    """
    count = features.shape[0]
    is_large = sp.issparse(features) or (
        features.nbytes > _LARGE_BYTES and region_of(features) is not None
    )
    if scale == "standard":
        if is_large and features.shape[1] > 1:  # NumPy sums a single column in another order
            means = _column_sums(features, lambda rows: rows.astype(np.float64)) / count
            squares = _column_sums(features, lambda rows: np.square(rows - means))
            spreads = np.sqrt(squares / count)
        else:
            dense = features if isinstance(features, np.ndarray) else features.toarray()
            means = dense.mean(axis=0, dtype=np.float64)
            spreads = dense.std(axis=0, dtype=np.float64)
        factors = np.divide(1, spreads, out=np.zeros_like(spreads), where=spreads > _CONSTANT)
        return means.astype(np.float32), factors.astype(np.float32)
    if scale == "tfidf":
        counts: NDArray[Any] = np.zeros(features.shape[1], np.int64)
        if sp.issparse(features):
            for part in (slice(*bounds) for bounds in ranges(features.nnz, _PART_VALUES)):
                present = features.indices[part][features.data[part] != 0]
                counts += np.bincount(present, minlength=len(counts))
        elif is_large:
            counts = _column_sums(features, lambda rows: (rows != 0).astype(np.float64))
        else:
            counts = np.count_nonzero(features, axis=0)
        return None, (np.log((1 + count) / (1 + counts)) + 1).astype(np.float32)
    return None, None


def part_rows(values: int) -> int:
    """Rows of so many values handled at once, where copies of all would take too much memory."""
    return max(_PART_VALUES // max(values, 1), 1)


def _dense_parts(features: Matrix, parts: list[tuple[int, int]]) -> Iterator[NDArray[Any]]:
    if isinstance(features, np.ndarray):
        yield from (rows for (rows,) in stream_rows([features], parts))
    else:
        yield from (features[start:stop].toarray() for start, stop in parts)


def _column_sums(
    features: Matrix, values: Callable[[NDArray[Any]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Sums of columns of features, sparse or on disk, of which a part is dense in memory at once.

    NumPy sums columns row after row, so sums that are handed on from part to part are the same.
    """
    parts = ranges(features.shape[0], part_rows(features.shape[1]))
    sums: NDArray[np.float64] | None = None
    for rows in _dense_parts(features, parts):
        part = values(rows)
        if sums is not None:
            part[0] = sums + part[0]
        sums = np.add.reduce(part, axis=0)
    return np.zeros(features.shape[1]) if sums is None else sums


def apply_scale(features: Matrix, scale: Scale, columns: ColumnFactors) -> Matrix:
    """Scale by columns, then by rows; sparse features stay sparse unless a mean is subtracted."""
    shift, factor = columns
    if shift is not None:
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        features = np.subtract(dense, shift, dtype=np.float32)
    if factor is not None and isinstance(features, np.ndarray):
        features = np.multiply(features, factor, dtype=np.float32)
    elif factor is not None:
        features = sp.csr_array(features @ sp.diags_array(factor))
    if scale in ("row", "unit", "tfidf"):
        features = _divide_rows(features, "sum" if scale == "row" else "length")
    return features


def _divide_rows(features: Matrix, by: Literal["sum", "length"]) -> Matrix:
    """Divide rows by the sum of absolute values or by the Euclidean length; zero rows stay zero."""
    if isinstance(features, np.ndarray):
        features = features.astype(np.float32, copy=False)
    values: Any = abs(features) if by == "sum" else features * features
    sizes = np.asarray(values.sum(axis=1, dtype=np.float64)).ravel()
    sizes = sizes if by == "sum" else np.sqrt(sizes)
    factors = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 0).astype(np.float32)
    if isinstance(features, np.ndarray):
        scaled: NDArray[np.float32] = np.multiply(features, factors[:, None])
        return scaled
    return sp.csr_array(sp.diags_array(factors) @ features)
