"""Other columns for features: the leading singular directions, or a random sketch.

All are matrices that rows are multiplied with, made from a seed. The SVD keeps most of what bags
of words tell in a few hundred columns; the random projection costs next to nothing and keeps
distances only approximately. More columns than there are come from a random rotation, which keeps
all distances.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.features._scaling import Matrix

_ITERATIONS = 5
OVERSAMPLES = 16
"""Halko et al. 2011, arXiv:0909.4061, section 1.4: a few extra columns and iterations suffice."""
_TINY = 1e-30
"""Keeps an all-zero block factorable."""
_SIGNS_PER_COLUMN = 8
"""Kane and Nelson 2014, arXiv:1012.1577: a handful of signs per column keeps distances."""


def singular_directions(features: Matrix, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Leading right singular vectors V of X: X V is U S of the truncated SVD U S V^T.

    Block power iteration with products and small factorizations only: they cost a fraction of a QR
    of the long side. The largest entry of each vector is positive, so that equal seeds agree.
    Shape (features, columns), ordered by singular value.
    """
    width = min(columns + OVERSAMPLES, *features.shape)
    basis = np.random.default_rng(seed).standard_normal((features.shape[1], width), np.float32)
    for _ in range(_ITERATIONS):
        # Both half-steps are orthonormalized: X^T X at once would square the condition, which
        # single precision does not bear.
        basis = _orthonormal(features.T @ _orthonormal(features @ basis))
    basis = _orthonormal(basis)
    projected = features @ basis
    _, rotation = np.linalg.eigh((projected.T @ projected).astype(np.float64))
    vectors = basis @ rotation[:, ::-1][:, :columns].astype(np.float32)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(columns)])
    return np.ascontiguousarray(vectors * signs, np.float32)


def _orthonormal(block: NDArray[np.float32]) -> NDArray[np.float32]:
    """Orthonormalize columns by the Cholesky factor of their products, up to single rounding.

    A second call on the result removes what rounding left in the first.
    """
    products = (block.T @ block).astype(np.float64)
    from scipy.linalg import solve_triangular  # slow to import, for every command

    # Lifts what rounding made negative, where columns depend on each other or are zero.
    products += np.eye(len(products)) * (np.trace(products) * np.finfo(np.float32).eps + _TINY)
    factor = np.linalg.cholesky(products)
    inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return np.asarray(block @ inverse.T.astype(np.float32))


def random_directions(features: int, columns: int, seed: int = 0) -> sp.csr_array:
    """A sparse matrix of random signs; rows multiplied with it keep their distances roughly.

    Shape (features, columns), with a few signs in each row and rows of length about 1.
    """
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, columns, (features, _SIGNS_PER_COLUMN))
    signs = generator.choice([-1.0, 1.0], targets.shape) / np.sqrt(_SIGNS_PER_COLUMN)
    rows = np.repeat(np.arange(features), _SIGNS_PER_COLUMN)
    shape = (features, columns)
    listed = sp.coo_array((signs.ravel().astype(np.float32), (rows, targets.ravel())), shape=shape)
    return sp.csr_array(listed)


def orthonormal_directions(features: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Random orthonormal rows; narrow features multiplied with them keep all distances.

    Shape (features, columns), with `features` at most `columns`.
    """
    normal = np.random.default_rng(seed).standard_normal((columns, features))
    basis, triangle = np.linalg.qr(normal)
    # Signs as the triangle's diagonal has them would depend on the library that factorized.
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return np.ascontiguousarray((basis * signs).T, np.float32)
