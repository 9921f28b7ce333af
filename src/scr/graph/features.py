"""Bring features into the form that propagation wants: scaled, dense float32, not too wide.

Bags of words come as sparse matrices of thousands of columns. Scaled by rows and reduced to a few
hundred dense columns they lose little and train fast. What is done is a stated rule
(`prepare_features`) and is told in words, so that a run can record it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.config import check
from scr.errors import GraphError

Matrix = NDArray[Any] | sp.csr_array

WIDE_COLUMNS = 2048
"""Sparse features with more columns are reduced; wider dense rows cost more than they tell."""
SVD_WORK = 2e11
"""Most stored values times columns for which an SVD is made: some minutes on two cores."""
SVD_COLUMNS = 1_000_000
"""Most columns for which an SVD is made: its basis is dense."""
_SPARSE_DENSITY = 0.25
"""Dense features with fewer non-zeros than this, none negative, are scaled like sparse ones."""
_EVEN_SPREAD = 10.0
"""Dense features stay as they are while no value and no ratio of spreads exceeds this."""
_SAMPLE_ROWS = 20_000
"""Rows looked at to choose a scaling, evenly spaced."""
_ITERATIONS = 5
_OVERSAMPLES = 16
"""Halko et al. 2011, arXiv:0909.4061, section 1.4: a few extra columns and iterations suffice."""


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """How features are scaled and reduced before they are propagated (recipe section `data`)."""

    scale: Literal["auto", "none", "row", "unit", "standard", "tfidf"] = "auto"
    """Rows to sum 1 (`row`) or length 1 (`unit`), columns to mean 0 and deviation 1 (`standard`),
    rare columns up and then rows to length 1 (`tfidf`)."""
    reduce: Literal["auto", "none", "svd", "random"] = "auto"
    """Fewer columns by a truncated SVD or by a random projection."""
    reduce_to: int = 512
    """Columns that are left after a reduction."""

    def __post_init__(self) -> None:
        check(self.reduce_to >= 1, "data.reduce_to", self.reduce_to, "1 or more")


@dataclass(frozen=True)
class PreparedFeatures:
    """Features ready to be propagated."""

    matrix: NDArray[np.float32]
    """Dense rows of shape (nodes, columns); the input itself where nothing had to be done."""
    steps: tuple[str, ...]
    """What was done, in words."""


def prepare_features(
    features: Matrix | None, config: FeatureConfig | None = None, seed: int = 0
) -> PreparedFeatures:
    """Scale, then reduce, then make dense.

    Where the config says ``auto``:

    - reduce: sparse features with more than 2048 columns are reduced, by an SVD, or by a random
      projection where the SVD would take more than 2e11 multiplications or a million columns.
      All other features keep their columns.
    - scale: sparse features that are reduced get `tfidf`, other sparse ones `row`; if some value is
      negative, `unit`. Dense features without negative values and with less than a quarter of
      non-zeros count as sparse. Other dense features stay as they are if no value exceeds 10 and
      the spreads of their columns differ by less than a factor 10; otherwise `standard`.

    Args:
        features: Dense or sparse rows of finite numbers.
        config: What to do; all ``auto`` if none is given.
        seed: For the random start of the SVD and for the random projection.
    """
    if features is None:
        raise GraphError(
            "The graph has no features; expected a matrix of shape (nodes, features)",
            hint="give a feature file, or features of the nodes' own such as their degrees",
        )
    config = config or FeatureConfig()
    reduce = choose_reduction(features, config)
    scale = choose_scale(features, reduce) if config.scale == "auto" else config.scale
    scaled, steps = _scale(features, scale)
    if reduce != "none":
        kind = "truncated SVD" if reduce == "svd" else "sparse random projection"
        steps += (f"reduced {features.shape[1]:,} columns to {config.reduce_to} by {kind}",)
        project = truncated_svd if reduce == "svd" else random_projection
        scaled = project(scaled, config.reduce_to, seed)
    elif sp.issparse(scaled):
        steps += (f"made {features.shape[1]:,} sparse columns dense",)
        scaled = scaled.toarray()
    return PreparedFeatures(np.ascontiguousarray(scaled, np.float32), steps)


def choose_reduction(features: Matrix, config: FeatureConfig) -> Literal["none", "svd", "random"]:
    """How features will be reduced, by the rule of `prepare_features`."""
    columns = features.shape[1]
    if config.reduce_to >= min(features.shape):
        return "none"
    if config.reduce != "auto":
        return config.reduce
    if isinstance(features, np.ndarray) or columns <= WIDE_COLUMNS:
        return "none"
    is_cheap = features.nnz * config.reduce_to <= SVD_WORK and columns <= SVD_COLUMNS
    return "svd" if is_cheap else "random"


def choose_scale(
    features: Matrix, reduce: str
) -> Literal["none", "row", "unit", "standard", "tfidf"]:
    """How features will be scaled, by the rule of `prepare_features`."""
    step = max(1, features.shape[0] // _SAMPLE_ROWS)
    sample = features[::step]
    if isinstance(sample, np.ndarray):
        is_sparse_like = np.count_nonzero(sample) < _SPARSE_DENSITY * sample.size
        if not (is_sparse_like and sample.min(initial=0) >= 0):
            return "none" if _is_even(sample) else "standard"
    elif sample.nnz and sample.data.min() < 0:
        return "unit"
    return "row" if reduce == "none" else "tfidf"


def _is_even(sample: NDArray[Any]) -> bool:
    spreads = sample.std(axis=0, dtype=np.float64)
    spreads = spreads[spreads > 0]
    if len(spreads) == 0:
        return True
    ratio = spreads.max() / np.median(spreads)
    return bool(np.abs(sample).max() <= _EVEN_SPREAD and ratio <= _EVEN_SPREAD)


def _scale(features: Matrix, scale: str) -> tuple[Matrix, tuple[str, ...]]:
    if scale == "none":
        return features, ()
    if scale == "standard":
        return _standardize(features), ("scaled columns to mean 0 and deviation 1",)
    if scale == "row":
        return _divide_rows(features, "sum"), ("scaled rows to sum 1",)
    if scale == "unit":
        return _divide_rows(features, "length"), ("scaled rows to length 1",)
    steps = ("weighted columns by TF-IDF", "scaled rows to length 1")
    return _divide_rows(_weigh_rare(features), "length"), steps


def _divide_rows(features: Matrix, by: Literal["sum", "length"]) -> Matrix:
    """Scale rows by the sum of absolute values or by the Euclidean length; zero rows stay zero."""
    values = abs(features) if by == "sum" else features * features
    sizes = np.asarray(values.sum(axis=1, dtype=np.float64)).ravel()
    sizes = sizes if by == "sum" else np.sqrt(sizes)
    factors = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 0).astype(np.float32)
    if isinstance(features, np.ndarray):
        return features.astype(np.float32) * factors[:, None]
    return sp.csr_array(sp.diags_array(factors) @ features)


def _weigh_rare(features: Matrix) -> Matrix:
    """Multiply each column by log((1 + n) / (1 + rows with it)) + 1, as scikit-learn does."""
    rows = features.shape[0]
    if isinstance(features, np.ndarray):
        counts = np.count_nonzero(features, axis=0)
    else:
        counts = np.bincount(features.indices[features.data != 0], minlength=features.shape[1])
    rarity = (np.log((1 + rows) / (1 + counts)) + 1).astype(np.float32)
    if isinstance(features, np.ndarray):
        return features.astype(np.float32) * rarity
    return sp.csr_array(features @ sp.diags_array(rarity))


def _standardize(features: Matrix) -> NDArray[np.float32]:
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    means, spreads = dense.mean(axis=0, dtype=np.float64), dense.std(axis=0, dtype=np.float64)
    spreads[spreads < 1e-12] = 1  # a constant column becomes 0
    return (dense.astype(np.float32) - means.astype(np.float32)) / spreads.astype(np.float32)


def truncated_svd(features: Matrix, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Project onto the leading right singular vectors: U S of the truncated SVD U S V^T.

    Block power iteration on V, orthonormalized on the side of the columns, which is the short one
    for text. Signs are fixed by the largest entry of each vector, so that equal seeds agree.

    Args:
        features: X, shape (nodes, features).
        columns: How many singular vectors.
        seed: For the random start.

    Returns:
        X V, shape (nodes, columns), ordered by singular value.
    """
    width = min(columns + _OVERSAMPLES, *features.shape)
    start = np.random.default_rng(seed).standard_normal((features.shape[1], width))
    basis = np.linalg.qr(start.astype(np.float32))[0]
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(features.T @ (features @ basis))[0]
    projected = features @ basis
    # X V = Q R would need a QR of the long side; the eigenvectors of (X V)^T (X V) do as well.
    _, rotation = np.linalg.eigh((projected.T @ projected).astype(np.float64))
    rotation = rotation[:, ::-1][:, :columns].astype(np.float32)
    vectors = basis @ rotation
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(columns)])
    return np.asarray(projected @ (rotation * signs), np.float32)


def random_projection(features: Matrix, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Multiply by a sparse random matrix of signs; keeps distances approximately (Li et al. 2006).

    Args:
        features: Shape (nodes, features).
        columns: How many columns are left.
        seed: For the matrix.
    """
    from sklearn.random_projection import SparseRandomProjection

    projection = SparseRandomProjection(columns, dense_output=True, random_state=seed)
    return np.asarray(projection.fit_transform(features), np.float32)
