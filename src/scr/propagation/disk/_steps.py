"""Which hops of a block of columns are loaded, computed and stored, in which order.

A block is computed in two matrices that take turns. What is on disk already decides where each
walk begins: with the features, or with the last hop before the first missing one of which all rows
are stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from scr.propagation._walks import Way


class Step(NamedTuple):
    """One hop of a block: it is loaded or computed, then stored as far as it is needed."""

    place: int
    """Among the matrices of a row; 0 are the features."""
    way: Way | None
    """The walk along which it is computed from the step before; none: it is loaded."""
    is_part: bool
    """Whether its rows are a part of the result that is missing."""
    is_state: bool
    """Whether later hops are computed from it, so that work that is killed can resume here."""

    @property
    def hop(self) -> int:
        """Its number in its walk, from 1 on; 0 if it is loaded."""
        return 0 if self.way is None else self.way.places.index(self.place) + 1


def block_steps(ways: Iterable[Way], missing: Container[int], stored: Container[int]) -> list[Step]:
    """The steps of one block of columns: to hops whose parts are missing, from stored ones.

    Hops are given by their places; of stored ones, all rows are on disk.
    """
    steps = [Step(0, None, True, False)] if 0 in missing else []
    for way in ways:
        wanted = [place for place in way.places if place in missing]
        if not wanted:
            continue
        before = [place for place in way.places if place < wanted[0] and place in stored]
        start = before[-1] if before else 0
        if start or not steps or steps[-1].place:  # the features are loaded once for part and walk
            steps.append(Step(start, None, False, False))
        places = way.places[way.places.index(start) + 1 :] if start else way.places
        steps += [
            Step(place, way, place in missing, place < wanted[-1])
            for place in places
            if place <= wanted[-1]
        ]
    return steps
