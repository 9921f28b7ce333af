"""Write one matrix of features for all nodes: prepared rows, and something for types without any.

Types without features get averages of their neighbors, embeddings, or random rows: a Gaussian
projection of the identity of each node, which says nothing but which node it is. The random rows of
a type depend on the seed and the type's name only, so that nodes which are added later do not
change those that were there.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress
from scr.graph import Graph
from scr.typed_features._averages import fill_by_averages
from scr.typed_features._fitted import (
    FittedCompletion,
    known_features,
    parts_of,
    root_mean_square,
    rows_of,
)


def fill(
    matrix: NDArray[np.float32],
    graph: Graph,
    fitted: FittedCompletion,
    embeddings: NDArray[np.float32] | None,
    *,
    memory: str | int,
    on_progress: OnProgress | None,
) -> list[str]:
    """Write the rows of all types into zeros; returns what should be known of them, in words.

    Embeddings are of all nodes, in the shape of the matrix; none where they are not asked for.
    """
    config, missing = fitted.config, fitted.missing
    known = known_features(graph)
    for kind, prepared in fitted.fitted.items():
        rows = matrix[rows_of(graph, kind)]
        for part in parts_of(rows):
            rows[part] = prepared.transform(known[kind][part])
    if embeddings is not None:
        # One factor, so that they are as long as the features beside them.
        others = [embeddings[rows_of(graph, kind)] for kind in missing]
        length = root_mean_square(rows[part] for rows in others for part in parts_of(rows))
        factor = np.float32(fitted.length / length if length > 0 else 0)
        for kind, rows in zip(missing, others, strict=True):
            np.multiply(rows, factor, out=matrix[rows_of(graph, kind)])
    elif missing and config.missing == "random":
        for kind in missing:
            rows = matrix[rows_of(graph, kind)]
            _fill_by_random_rows(rows, kind, config.embedding_seed, fitted.length)
    elif missing:
        left = fill_by_averages(
            graph, matrix, fitted.fitted, memory=memory, on_progress=on_progress
        )
        return [
            f"{count:,} of {graph.node_types[kind]:,} {kind} nodes have no neighbor with features, "
            "and zeros"
            for kind, count in left.items()
            if count
        ]
    return []


def _fill_by_random_rows(rows: NDArray[np.float32], kind: str, seed: int, length: float) -> None:
    """Write Gaussian rows of a root mean square length."""
    name = int.from_bytes(hashlib.blake2b(kind.encode(), digest_size=8).digest(), "little")
    generator = np.random.default_rng([seed, name])
    factor = np.float32(length / np.sqrt(rows.shape[1]))
    for part in parts_of(rows):
        rows[part] = generator.standard_normal(rows[part].shape, np.float32) * factor
