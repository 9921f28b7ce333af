"""Metapaths that bring labels: which relations, in which direction, lead back to the target type.

A path is read from a target node outward: `^writes writes` goes from a paper to its authors,
against `writes`, and from there to their papers. Every step is a mean over the edges of one
relation that a node has, so the label matrix of a path is D^-1 A of its first step times that of
its second, and so on, times the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scr.errors import ConfigError
from scr.graph import edge_bytes, edge_code, edges_by_code, select_edges
from scr.propagation._normalization import NormalizedAdjacency, normalize, turned_bytes
from scr.propagation._plan import BYTES_PER_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scr.graph import Graph

SETTING = "propagation.label_paths"


def path_codes(graph: Graph, path: str) -> list[int]:
    """Codes of the edges of each step, from the target type outward and back to it."""
    here, codes, count = graph.target, [], len(graph.relations)
    for step in path.split():
        code = edge_code(graph.relations, step)
        relation = graph.relations[code % count]
        ends = relation.source, relation.target
        start, end = ends if code < count else ends[::-1]
        if start != here:
            raise ConfigError(
                SETTING, path, f"a step from `{here}` where `{step}` goes from `{start}`",
                hint="`^` before a relation takes it from its target to its source",
            )  # fmt: skip
        codes.append(code)
        here = end
    if here != graph.target:
        raise ConfigError(
            SETTING, path, f"a path that ends where it starts, at `{graph.target}`, not at `{here}`"
        )
    return codes


def path_adjacencies(graph: Graph, path: str) -> list[NormalizedAdjacency]:
    """D^-1 A of each step in the order of multiplication: the step next to the labels first."""
    made: dict[int, NormalizedAdjacency] = {}
    codes = path_codes(graph, path)
    for code in codes:
        if code in made:
            continue
        # The edges of a graph of one relation carry no codes: its direction says what the step is.
        along = graph.edge_types is not None or code < len(graph.relations)
        edges = select_edges(graph, [code])
        made[code] = normalize(edges, norm="row", direction="out" if along else "in")
    return [made[code] for code in reversed(codes)]


def path_bytes(graph: Graph, paths: Sequence[str]) -> int:
    """Memory that the adjacencies of the longest path take, and the edges they are cut from."""
    if not paths:
        return 0
    steps = [set(path_codes(graph, path)) for path in paths]
    longest = max(len(codes) for codes in steps) * BYTES_PER_NODE * graph.num_nodes
    if graph.edge_types is None:
        return longest + turned_bytes(graph, "in")
    counts: NDArray[np.int64] = edges_by_code(graph)
    most = max(int(counts[sorted(codes)].sum()) for codes in steps)
    source = edge_bytes(graph, graph.num_edges) + graph.edge_types.nbytes
    return longest + edge_bytes(graph, most) + int(source)
