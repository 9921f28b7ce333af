"""Kinds of edges, and how a graph of several types is numbered and cut by them.

All nodes of all types are numbered in a row, type after type, the target type first: a target
node has the same number among all nodes as among its own type. All edges of all relations lie in
one CSR, in both directions, with the code of its relation beside each stored edge. So what is
known of graphs (normalization, the kernel, memory budgets, hops of some rows) holds for typed
ones, and a graph of one type and one relation is nothing special.

The code of an edge that is stored along its relation number r is r, against it r + len(relations).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple

from scr.errors import GraphError

REVERSED = "^"
"""Before a relation's name: its edges, taken from target to source."""


class Relation(NamedTuple):
    """A kind of edges, from nodes of one type to nodes of another or the same."""

    source: str
    name: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}:{self.name}:{self.target}"


ONE_RELATION = (Relation("node", "edge", "node"),)
"""Of a graph whose edges are all alike."""


def find_relation(relations: Sequence[Relation], wanted: Any) -> int:
    """The number of the only relation that a name, `SOURCE:NAME:TARGET` or a triple means."""
    if not isinstance(wanted, str):
        wanted = ":".join(str(part) for part in wanted)
    matches = [number for number, each in enumerate(relations) if wanted in (each.name, str(each))]
    if len(matches) == 1:
        return matches[0]
    names = [str(each) for each in relations]
    if matches:
        shown = " and ".join(names[number] for number in matches)
        raise GraphError(
            f"The relation `{wanted}` may be {shown}; expected one of them",
            hint="write it as SOURCE:NAME:TARGET",
        )
    close = difflib.get_close_matches(wanted, [*names, *(each.name for each in relations)], n=1)
    raise GraphError(
        f"There is no relation `{wanted}` in the graph; expected one of {', '.join(names)}",
        hint=f"did you mean `{close[0]}`?" if close else None,
    )


def edge_code(relations: Sequence[Relation], step: Any) -> int:
    """The code of edges whose rows receive along a relation; `^NAME` is against it.

    A stored edge of the code r is in the row of its relation's source. What comes to this row comes
    from the relation's target: the step `cites` from citing papers to cited ones therefore brings
    to a paper what the papers have that it cites.
    """
    if isinstance(step, str) and step.startswith(REVERSED):
        return find_relation(relations, step[len(REVERSED) :]) + len(relations)
    return find_relation(relations, step)
