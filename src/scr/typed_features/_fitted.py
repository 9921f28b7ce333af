"""A preparation of the features of all types, which can be stored and applied to another graph.

It holds a `FittedFeatures` for each type that has features, and is stored as they are; all come
out with one number of columns. The width is the target type's after its own reduction, or that
of the first type that has features where the target has none. Every type is scaled by its own
numbers: words of packages and coordinates of cities have nothing to do with each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.config import build
from scr.errors import GraphError
from scr.features import (
    EMBEDDINGS,
    FeatureConfig,
    FittedFeatures,
    Matrix,
    affordable_reduction,
    choose_reduction,
    fit_features,
    orthonormal_directions,
    random_directions,
)
from scr.graph import Graph
from scr.storage import checksums, ranges

PART_ROWS = 1 << 16
"""Rows that are prepared at once."""
_NAMES = {"transe": "TransE", "distmult": "DistMult", "complex": "ComplEx"}


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedCompletion:
    """How features of all types were made, fitted to one graph."""

    types: tuple[str, ...]
    """All types, the target first."""
    fitted: Mapping[str, FittedFeatures]
    """Of each type whose own features are used; all give one width."""
    width: int
    """Columns of what comes out."""
    config: FeatureConfig
    """What was asked for; other settings have no say when this is applied to a new graph."""
    length: float = 1.0
    """Root mean square length of prepared rows, which embeddings and random rows are given too."""
    edges: str | None = None
    """Fingerprint of the edges that embeddings were trained on; none where there are none."""
    steps: tuple[str, ...] = field(default=())
    """What it does, in words."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Types that are filled in."""
        return tuple(kind for kind in self.types if kind not in self.fitted)

    @property
    def identity(self) -> tuple[str, ...]:
        """The steps and a hash of all settings and numbers."""
        arrays = [[name, list(a.shape), checksums(a)] for name, a in sorted(self.arrays().items())]
        content = json.dumps([self.settings(), arrays], sort_keys=True)
        return (*self.steps, hashlib.blake2b(content.encode(), digest_size=8).hexdigest())

    def settings(self) -> dict[str, Any]:
        """The part to be stored as JSON; `arrays` is the rest."""
        return {
            "types": list(self.types), "width": self.width, "config": asdict(self.config),
            "length": self.length, "edges": self.edges, "steps": list(self.steps),
            "fitted": {kind: each.settings() for kind, each in self.fitted.items()},
        }  # fmt: skip

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to be stored beside `settings`; a type is named by its place."""
        return {
            f"{self.types.index(kind)}.{name}": array
            for kind, fitted in self.fitted.items()
            for name, array in fitted.arrays().items()
        }

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> FittedCompletion:
        """Make a preparation again from what `settings` and `arrays` gave."""
        types, fitted = tuple(settings["types"]), {}
        for kind, values in settings["fitted"].items():
            prefix = f"{types.index(kind)}."
            own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            fitted[kind] = FittedFeatures.restore(values, own)
        if type(settings["width"]) is not int or any(
            each.width != settings["width"] for each in fitted.values()
        ):
            raise ValueError(f"the width {settings['width']!r} of features of all types")
        return cls(
            types=types, fitted=fitted, width=settings["width"], length=float(settings["length"]),
            config=build(FeatureConfig, settings["config"], section="data"),
            edges=settings["edges"], steps=tuple(settings["steps"]),
        )  # fmt: skip

    def check_graph(self, graph: Graph) -> None:
        """Refuse a graph of other types or features, or with new nodes without embeddings."""
        if tuple(graph.node_types) != self.types:
            raise GraphError(
                f"The graph `{graph.name}` has nodes of the types {', '.join(graph.node_types)}; "
                f"expected {', '.join(self.types)} in this order, as in training"
            )
        found = known_features(graph)
        replaces_features = self.edges is not None and self.config.embedding_types == "all"
        for kind in self.types:
            if kind in self.fitted and kind not in found:
                raise GraphError(
                    f"The graph `{graph.name}` has no features of the type `{kind}`; expected "
                    "some, as in training"
                )
            if kind in found and kind not in self.fitted and not replaces_features:
                raise GraphError(
                    f"The graph `{graph.name}` has features of the type `{kind}`; expected none, "
                    "as in training"
                )
        if self.edges is not None and graph.fingerprint("edges") != self.edges:
            raise GraphError(
                f"The model reads embeddings of nodes ({self.config.missing}), which the nodes of "
                f"the graph `{graph.name}` do not have; expected the graph of the training",
                hint='train with `data.missing = "average"` to predict on other graphs',
            )


def fit_completion(graph: Graph, config: FeatureConfig) -> FittedCompletion:
    """Decide how all types get features, and fit what depends on those that have them."""
    embedded = config.missing in EMBEDDINGS
    known = {} if embedded and config.embedding_types == "all" else known_features(graph)
    if not known and config.missing == "average":
        raise GraphError(
            f"No type of the graph `{graph.name}` has features, so there is nothing to average; "
            "expected features of at least one type",
            hint='give some, or set `data.missing` to "random", "transe", "distmult" or "complex"',
        )
    fitted = _fit_to_one_width(known, config) if known else {}
    width = next((each.width for each in fitted.values()), config.embedding_width)
    missing = [kind for kind in graph.node_types if kind not in fitted]
    steps = [f"{kind}: {step}" for kind, each in fitted.items() for step in each.steps]
    if missing:
        steps.append(f"{', '.join(missing)}: {_filling(config, width)}")
    length = 1.0
    if missing and config.missing != "average":
        rows = (
            fitted[kind].transform(x[part]) for kind, x in known.items() for part in parts_of(x)
        )
        length = root_mean_square(rows) or 1.0
    return FittedCompletion(
        types=tuple(graph.node_types), fitted=fitted, width=width, config=config,
        length=length,
        edges=graph.fingerprint("edges") if embedded and missing else None, steps=tuple(steps),
    )  # fmt: skip


def _filling(config: FeatureConfig, width: int) -> str:
    if config.missing == "average":
        return "mean of the neighbors that have features, in rounds"
    if config.missing == "random":
        return f"{width} random numbers per node"
    return f"{_NAMES[config.missing]} embeddings of {width} columns, from the relations"


def parts_of(matrix: Matrix) -> Iterator[slice]:
    """Ranges of rows that are prepared at once."""
    return (slice(*part) for part in ranges(matrix.shape[0], PART_ROWS))


def root_mean_square(parts: Iterable[NDArray[np.float32]]) -> float:
    """Length of a typical row; 0 where there are none, or all are zero."""
    total, count = 0.0, 0
    for rows in parts:
        total += float(np.square(rows, dtype=np.float64).sum())
        count += len(rows)
    return float(np.sqrt(total / count)) if total > 0 else 0.0


def known_features(graph: Graph) -> dict[str, Matrix]:
    """Features of each type that has some, in the order of the types."""
    matrices = {graph.target: graph.features, **graph.other_features}
    found = {kind: matrices.get(kind) for kind in graph.node_types}
    return {kind: matrix for kind, matrix in found.items() if matrix is not None}


def rows_of(graph: Graph, kind: str) -> slice:
    """Rows of the nodes of a type."""
    numbers = graph.nodes_of(kind)
    return slice(numbers.start, numbers.stop)


def _fit_to_one_width(
    features: Mapping[str, Matrix], config: FeatureConfig
) -> dict[str, FittedFeatures]:
    """Fit a preparation for each type; all give the width of the first one."""
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
            wanted = affordable_reduction(features, width)
        return fit_features(features, replace(config, reduce=wanted, reduce_to=width))
    plain = fit_features(features, replace(config, reduce="none"))
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
    return replace(plain, projection=projection, steps=(*kept, step))
