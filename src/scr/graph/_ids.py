"""From the user's own names of nodes to node numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._arrays import as_numpy

if TYPE_CHECKING:
    from scr.graph._graph import Graph

SHOWN = 3
"""Unknown ids that an error names."""


def numbers_of(graph: Graph, nodes: Any) -> NDArray[Any]:
    """Numbers of target nodes, given as ids where the graph has ids, else as they are.

    A mask, which no id is, stays a mask.

    Raises:
        GraphError: No node has one of the ids.
    """
    given = np.atleast_1d(as_numpy(nodes))
    if graph.ids is None or given.dtype == bool or given.size == 0:
        return given
    known = np.asarray(graph.ids)
    if given.ndim > 1:
        raise GraphError(f"The nodes have the shape {given.shape}; expected a list of ids")
    if known.dtype.kind == "U" and given.dtype.kind in "iuO":
        given = given.astype(np.str_)
    comparable = given.dtype.kind == known.dtype.kind or given.dtype.kind + known.dtype.kind == "ui"
    wanted, inverse = np.unique(given, return_inverse=True)
    numbers = np.full(len(wanted), -1, np.int64)
    if comparable:
        # Few are asked for, many are known: the few are the ones that are sorted.
        position = np.minimum(np.searchsorted(wanted, known), len(wanted) - 1)
        hits = np.flatnonzero(wanted[position] == known)
        numbers[position[hits]] = hits
    found = numbers[inverse]
    missing = given[found < 0]
    if len(missing):
        named = ", ".join(f"`{each}`" for each in missing[:SHOWN].tolist())
        more = ", ..." if len(missing) > SHOWN else ""
        kind = "numbers" if known.dtype.kind == "i" else "text"
        raise GraphError(
            f"There is no node with the id {named}{more} ({len(missing):,} of {len(given):,} are "
            f"unknown); expected ids of the graph, which are {kind} such as `{known[0]}`",
        )
    return found
