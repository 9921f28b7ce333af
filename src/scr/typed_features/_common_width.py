"""Fit the features of each type that has some, so that all come out with one number of columns.

The width is the target type's after its own reduction, or that of the first type that has features
where the target has none. Every type is scaled by its own numbers: words of packages and
coordinates of cities have nothing to do with each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import scipy.sparse as sp

from scr.errors import GraphError
from scr.features import (
    SVD_COLUMNS,
    SVD_WORK,
    FeatureConfig,
    FittedFeatures,
    Matrix,
    choose_reduction,
    fit_features,
    orthonormal_directions,
    random_directions,
)
from scr.graph import Graph


def known_features(graph: Graph) -> dict[str, Matrix]:
    """Features of each type that has some, in the order of the types."""
    matrices = {graph.target: graph.features, **graph.other_features}
    found = {kind: matrices.get(kind) for kind in graph.node_types}
    return {kind: matrix for kind, matrix in found.items() if matrix is not None}


def rows_of(graph: Graph, kind: str) -> slice:
    """Rows of the nodes of a type."""
    numbers = graph.nodes_of(kind)
    return slice(numbers.start, numbers.stop)


def fit_to_one_width(
    features: Mapping[str, Matrix], config: FeatureConfig
) -> dict[str, FittedFeatures]:
    """Fit a preparation for each type; all give the width of the first one.

    Raises:
        GraphError: Widths differ and `data.project` is `none`.
    """
    widths = {
        kind: matrix.shape[1] if choose_reduction(matrix, config) == "none" else config.reduce_to
        for kind, matrix in features.items()
    }
    if config.project == "none" and len(set(widths.values())) > 1:
        shown = ", ".join(f"{kind} {width:,}" for kind, width in widths.items())
        raise GraphError(
            f"Types have features of different widths ({shown}); expected one width, since "
            "`data.project` is `none`",
            hint='set `data.project = "auto"`, so that all are projected to the first of them',
        )
    width = next(iter(widths.values()))
    return {
        kind: fit_features(matrix, config)
        if widths[kind] == width
        else _fit_to_width(matrix, config, width)
        for kind, matrix in features.items()
    }


def _fit_to_width(features: Matrix, config: FeatureConfig, width: int) -> FittedFeatures:
    rows, columns = features.shape
    if columns > width and width < rows:
        wanted = config.project
        if wanted not in ("svd", "random"):
            values = features.nnz if sp.issparse(features) else features.size
            wanted = "svd" if values * width <= SVD_WORK and columns <= SVD_COLUMNS else "random"
        reduced = dataclasses.replace(config, reduce=wanted, reduce_to=width)
        return fit_features(features, reduced)
    plain = fit_features(features, dataclasses.replace(config, reduce="none"))
    if columns == width:
        return plain
    if columns > width:
        # Fewer rows than columns: they do not have as many singular directions.
        projection: Matrix = random_directions(columns, width, seed=0)
        step = f"reduced {columns:,} columns to {width} by sparse random projection"
    else:
        projection = orthonormal_directions(columns, width, seed=0)
        step = f"turned {columns:,} columns into {width} by random orthonormal rows"
    kept = tuple(step for step in plain.steps if not step.startswith("made "))
    return dataclasses.replace(plain, projection=projection, steps=(*kept, step))
