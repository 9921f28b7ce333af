"""From the user's own names of nodes to node numbers."""

from __future__ import annotations

from collections.abc import Sequence
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
    if given.dtype == bool or given.size == 0:
        return given
    if graph.ids is None:
        converted, is_right = converted_ids(given.ravel(), None)
        return converted.reshape(given.shape) if is_right.all() else given
    known = np.asarray(graph.ids)
    if given.ndim > 1:
        raise GraphError(f"The nodes have the shape {given.shape}; expected a list of ids")
    converted, is_right = converted_ids(given, known)
    wanted, inverse = np.unique(converted, return_inverse=True)
    numbers = np.full(len(wanted), -1, np.int64)
    # Few are asked for, many are known: the few are the ones that are sorted.
    position = np.minimum(np.searchsorted(wanted, known), len(wanted) - 1)
    hits = np.flatnonzero(wanted[position] == known)
    numbers[position[hits]] = hits
    found = np.where(is_right, numbers[inverse], -1)
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


def converted_ids(
    ids: Sequence[Any] | NDArray[Any], known: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Ids in the type of the known ones, and which of them can have it.

    Args:
        ids: Text, whole numbers, or whole numbers as text.
        known: Ids of the graph, int64 or text; none: they are node numbers.
    """
    is_text = known is not None and known.dtype.kind == "U"
    listed: Sequence[Any]
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind == ("U" if is_text else "i"):
            return ids, np.ones(len(ids), np.bool_)
        if ids.dtype.kind == "u" and not is_text:
            fits = ids <= np.iinfo(np.int64).max
            return np.where(fits, ids, 0).astype(np.int64), fits
        listed = ids.tolist()
    else:
        listed = ids
    if is_text:
        return np.array([str(each) for each in listed], np.str_), np.ones(len(listed), np.bool_)
    found = [_whole_number(each) for each in listed]
    is_right = np.array([each is not None for each in found], np.bool_)
    return np.array([each or 0 for each in found], np.int64), is_right


def _whole_number(value: Any) -> int | None:
    """An int64, also from text as it is printed; none: it is none."""
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            return None
        value = number if str(number) == value.strip() else None
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or abs(int(value)) > np.iinfo(np.int64).max:
        return None
    return int(value)
