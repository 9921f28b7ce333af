"""Bring features into the form that propagation wants: scaled, dense float32, not too wide.

Bags of words come as sparse matrices of thousands of columns. Scaled by rows and reduced to a few
hundred dense columns they lose little and train fast. What is done follows a stated rule
(`fit_features`), is described in words for the run, and can be stored and applied to new nodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.features._config import FeatureConfig
from scr.features._reduction import OVERSAMPLES, random_directions, singular_directions
from scr.features._scaling import (
    SCALE_STEPS,
    Matrix,
    Scale,
    apply_scale,
    choose_scale,
    fit_columns,
    part_rows,
)
from scr.storage import checksums, ranges, region_of

WIDE_COLUMNS = 2048
"""Sparse features with more columns are reduced; wider dense rows cost more than they tell."""
SVD_WORK = 2e11
"""Most stored values times columns for which an SVD is made: some minutes on two cores."""
SVD_COLUMNS = 1_000_000
"""Most columns for which an SVD is made: its basis is dense."""

SVD_COPIES = 3
"""Of sparse features while all of them are scaled: by columns, their squares, and by rows."""

Reduction = Literal["none", "svd", "random"]
_REDUCTIONS = {"svd": "truncated SVD", "random": "sparse random projection"}


@dataclass(frozen=True, eq=False)
class FittedFeatures:
    """A preparation fitted to one graph's features, for the same graph and for new nodes."""

    scale: Scale
    columns: int
    """Columns of the features that it was fitted to."""
    steps: tuple[str, ...]
    """What it does, in words."""
    shift: NDArray[np.float32] | None = None
    """Subtracted from each column."""
    factor: NDArray[np.float32] | None = None
    """Multiplied with each column, before rows are scaled."""
    projection: Matrix | None = None
    """Multiplied with scaled rows. Shape (columns, reduced columns)."""

    @property
    def width(self) -> int:
        """Columns of what `transform` gives."""
        return self.columns if self.projection is None else int(self.projection.shape[1])

    def transform(self, features: Matrix | None) -> NDArray[np.float32]:
        """Scale, reduce and make dense: float32 rows, C-contiguous."""
        parts = self._parts(features) if sp.issparse(features) else []
        if features is None or len(parts) <= 1:
            return _dense(self.scaled(features))
        dense = np.empty((features.shape[0], self.width), np.float32)
        for start, stop in parts:  # each step makes a copy, of a part only
            dense[start:stop] = _dense(self.scaled(features[start:stop]))
        return dense

    def _parts(self, features: sp.csr_array) -> list[tuple[int, int]]:
        """Rows of sparse features that are prepared together."""
        count = features.shape[0]
        values = self.columns if self.shift is not None else features.nnz // max(count, 1)
        return ranges(count, part_rows(max(values, self.width)))

    def scaled(self, features: Matrix | None) -> Matrix:
        """As `transform`, but sparse where nothing makes the numbers dense."""
        if features is None or features.shape[1] != self.columns:
            found = 0 if features is None else features.shape[1]
            raise GraphError(
                f"The features have {found:,} columns; expected {self.columns:,}, as in training"
            )
        scaled: Any = apply_scale(features, self.scale, (self.shift, self.factor))
        if self.projection is not None:
            scaled = scaled @ self.projection
        return cast(Matrix, scaled)

    def settings(self) -> dict[str, Any]:
        """The part to be stored as JSON; `arrays` is the rest."""
        settings = {"scale": self.scale, "columns": self.columns, "steps": list(self.steps)}
        if sp.issparse(self.projection):
            settings["reduced_columns"] = self.projection.shape[1]
        return settings

    @property
    def identity(self) -> tuple[str, ...]:
        """The steps and, where some were fitted, a hash of the numbers: other nodes have others."""
        named = sorted(self.arrays().items())
        if not named:
            return self.steps
        content = json.dumps([[name, list(array.shape), checksums(array)] for name, array in named])
        return (*self.steps, hashlib.blake2b(content.encode(), digest_size=8).hexdigest())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to be stored beside `settings`."""
        projection = self.projection
        named: dict[str, Any] = {"shift": self.shift, "factor": self.factor}
        if projection is None or isinstance(projection, np.ndarray):
            named["projection"] = projection
        else:
            for part in ("data", "indices", "indptr"):
                named[f"projection_{part}"] = getattr(projection, part)
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> FittedFeatures:
        """Make a preparation again from what `settings` and `arrays` gave.

        Raises:
            ValueError: They do not fit together.
        """
        columns, steps = settings["columns"], settings["steps"]
        if type(columns) is not int or not all(isinstance(step, str) for step in steps):
            raise ValueError(f"{columns!r} columns, and the steps {steps!r}")
        projection: Matrix | None = arrays.get("projection")
        if "reduced_columns" in settings:
            parts = [arrays[f"projection_{part}"] for part in ("data", "indices", "indptr")]
            shape = (columns, settings["reduced_columns"])
            projection = sp.csr_array(tuple(parts), shape=shape)
            projection.check_format(full_check=True)
        shift, factor = arrays.get("shift"), arrays.get("factor")
        if settings["scale"] not in SCALE_STEPS or columns < 0:
            raise ValueError(f"the scale {settings['scale']!r} of {columns} columns")
        if projection is not None and (projection.ndim != 2 or projection.shape[0] != columns):
            raise ValueError(f"a projection of shape {projection.shape} for {columns} columns")
        for array in (shift, factor):
            if array is not None and array.shape not in ((columns,), (1, columns)):
                raise ValueError(f"numbers of shape {array.shape} for {columns} columns")
        return cls(settings["scale"], columns, tuple(steps), shift, factor, projection)


def _dense(matrix: Matrix) -> NDArray[np.float32]:
    return np.ascontiguousarray(
        matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), np.float32
    )


class LazyFeatures:
    """Dense features of which rows are prepared when they are read, a part at a time."""

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, source: NDArray[Any], fitted: FittedFeatures) -> None:
        self.source, self.fitted = source, fitted
        """Rows as they are stored, and what is done to them."""

    @property
    def shape(self) -> tuple[int, int]:
        """As of the prepared matrix."""
        return self.source.shape[0], self.fitted.width

    def __getitem__(self, part: slice) -> NDArray[np.float32]:
        return self.fitted.transform(self.source[part])


def fit_features(
    features: Matrix | None, config: FeatureConfig | None = None, seed: int = 0
) -> FittedFeatures:
    """Decide how features are prepared, and fit what depends on them.

    Where the config says ``auto``:

    - reduce: sparse features with more than 2048 columns are reduced, by an SVD, or by a random
      projection where the SVD would take more than 2e11 multiplications or a million columns.
      All other features keep their columns.
    - scale: sparse features that are reduced get `tfidf`, other sparse ones `row`; if some value is
      negative, `unit`. Dense features without negative values and with less than a quarter of
      non-zeros count as sparse. Other dense features stay as they are if no value exceeds 10 and
      the spreads of their columns differ by less than a factor 10; otherwise `standard`.

    The seed is for the random start of the SVD and for the random projection.
    """
    if features is None:
        raise GraphError(
            "The graph has no features; expected a matrix of shape (nodes, features)",
            hint="give a feature file, or features of the nodes' own such as their degrees",
        )
    config = config or FeatureConfig()
    columns = features.shape[1]
    reduce = choose_reduction(features, config)
    scale: Scale = (
        choose_scale(features, is_reduced=reduce != "none")
        if config.scale == "auto"
        else config.scale
    )
    shift, factor = fit_columns(features, scale)
    steps = SCALE_STEPS[scale]
    projection: Matrix | None = None
    if reduce != "none":
        steps += (f"reduced {columns:,} columns to {config.reduce_to} by {_REDUCTIONS[reduce]}",)
        projection = (
            singular_directions(
                apply_scale(features, scale, (shift, factor)), config.reduce_to, seed
            )
            if reduce == "svd"
            else random_directions(columns, config.reduce_to, seed)
        )
    elif sp.issparse(features):
        steps += (f"made {columns:,} sparse columns dense",)
    return FittedFeatures(scale, columns, steps, shift, factor, projection)


def sparse_bytes(features: sp.csr_array, config: FeatureConfig) -> int:
    """Memory that preparing sparse features takes: of parts, of an SVD, and of the dense result."""
    rows, columns = features.shape
    stored = features.data.nbytes + features.indices.nbytes  # may be a memory map
    reduce = choose_reduction(features, config)
    width = columns if reduce == "none" else min(columns, config.reduce_to)
    needed = 4 * rows * width + 4 * 8 * min(rows, part_rows(columns)) * columns
    if reduce == "svd":
        blocks = 3 * 4 * (rows + columns) * (width + OVERSAMPLES)
        needed = max(needed, SVD_COPIES * stored + blocks)
    return int(stored + needed)


def choose_reduction(features: Matrix, config: FeatureConfig) -> Reduction:
    """How features will be reduced, by the rule of `fit_features`."""
    if config.reduce_to >= min(features.shape):
        return "none"
    if config.reduce != "auto":
        return config.reduce
    if isinstance(features, np.ndarray) or features.shape[1] <= WIDE_COLUMNS:
        return "none"
    return affordable_reduction(features, config.reduce_to)


def affordable_reduction(features: Matrix, width: int) -> Literal["svd", "random"]:
    """An SVD to so many columns, or a random projection where that would take too long."""
    values = features.nnz if sp.issparse(features) else features.size
    is_cheap = values * width <= SVD_WORK and features.shape[1] <= SVD_COLUMNS
    return "svd" if is_cheap else "random"


def transform_lazily(
    fitted: FittedFeatures, features: Matrix
) -> NDArray[np.float32] | NDArray[np.float16] | LazyFeatures:
    """As `FittedFeatures.transform`, but dense features on disk stay there.

    Features that are to be left as they are, are returned as they are.
    """
    if not isinstance(features, np.ndarray) or region_of(features) is None:
        return fitted.transform(features)
    nothing = fitted.scale == "none" and fitted.projection is None
    if nothing and features.dtype in (np.float32, np.float16):
        return features
    return LazyFeatures(features, fitted)
