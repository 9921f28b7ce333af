"""The walks of a propagation: along which edges each goes, and where its hops lie in the result.

Every walk begins with the features, which are hop 0 of all of them. There is one walk along all
edges; or two, along and against the edges of a directed graph; or one for each subset of relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scr.errors import ConfigError
from scr.propagation._config import PropagationConfig
from scr.propagation._normalization import NormalizedAdjacency, normalize
from scr.propagation._subsets import Subset

if TYPE_CHECKING:
    from scr.graph import Graph

Subsets = Sequence[Subset] | None
"""None: all edges are alike."""

_ELSEWHERE = ("subsets", "subset_seed")
"""Settings that choose subsets; what counts is which subsets were chosen."""


@dataclass(frozen=True)
class Way:
    """One walk."""

    direction: str
    """`both`, `out` or `in`."""
    places: range
    """Of hops 1, 2, ... among the matrices of a row."""
    subset: Subset | None = None
    """Relations whose edges are walked, both ways; none: all edges."""


def ways_of(config: PropagationConfig, subsets: Subsets = None) -> list[Way]:
    """All walks, in the order of their places; none where only the features are asked for."""
    count = config.hops
    if subsets is not None and config.direction == "separate":
        raise ConfigError(
            "propagation.direction", config.direction, "`both` with subsets of relations",
            hint="the edges of a subset are always taken both ways",
        )  # fmt: skip
    if count == 0:
        return []
    if subsets is not None:
        starts = range(1, 1 + len(subsets) * count, count)
        return [
            Way(config.direction, range(start, start + count), subset)
            for start, subset in zip(starts, subsets, strict=True)
        ]
    if config.direction == "separate":
        return [Way("out", range(1, count + 1)), Way("in", range(count + 1, 2 * count + 1))]
    return [Way(config.direction, range(1, count + 1))]


def matrices_of(config: PropagationConfig, subsets: Subsets = None) -> int:
    """Matrices per row, hop 0 included."""
    return config.matrices if subsets is None else 1 + len(subsets) * config.hops


def adjacency_of(graph: Graph, config: PropagationConfig, way: Way) -> NormalizedAdjacency:
    """The adjacency that one walk goes along, with the edges of its subset in memory."""
    edges = graph if way.subset is None else graph.only(way.subset)
    return normalize(edges, norm=config.norm, self_loops=config.self_loops, direction=way.direction)


def hop_settings(config: PropagationConfig, subsets: Subsets = None) -> dict[str, Any]:
    """The settings that decide what hops are, without those of labels."""
    settings = {
        key: value
        for key, value in asdict(config).items()
        if not key.startswith("label_") and key not in _ELSEWHERE
    }
    if subsets is not None:
        settings["subsets"] = [[str(relation) for relation in subset] for subset in subsets]
    return settings
