"""Draw distinct numbers, every set equally likely, in time that depends on their count alone.

Floyd's algorithm (Bentley and Floyd 1987) draws one number per turn. In turn t of w, out of n
numbers, it is below n - w + t + 1; if it was there already, the largest of that turn is taken,
which cannot have been. All that differs below is how one finds out whether a number was there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scr.compute import below, compiled, derived_key

_WORD = 64
"""So many numbers have a bit each in one machine word: most nodes have no more neighbors."""
_FEW = 32
"""Up to so many, looking through what was chosen is faster than a hash table."""


@compiled
def choose(
    chosen: NDArray[np.int64], begin: int, wanted: int, first: int, limit: int, key: np.uint64
) -> None:
    """Write so many distinct numbers as are wanted to ``chosen``, from ``begin`` on.

    They are from ``first`` to ``first + limit - 1``; no more than ``limit`` may be wanted.
    """
    if limit <= _WORD:
        _choose_by_bits(chosen, begin, wanted, first, limit, key)
    elif wanted <= _FEW:
        _choose_few(chosen, begin, wanted, first, limit, key)
    else:
        _choose_many(chosen, begin, wanted, first, limit, key)


@compiled
def _choose_by_bits(
    chosen: NDArray[np.int64], begin: int, wanted: int, first: int, limit: int, key: np.uint64
) -> None:
    taken = np.uint64(0)
    for turn in range(wanted):
        last = limit - wanted + turn
        pick = below(key, turn, last + 1)
        # By arithmetic: whether a number was there already is a branch that nobody can predict.
        again = np.int64((taken >> np.uint64(pick)) & np.uint64(1))
        picked = pick + (last - pick) * again
        taken |= np.uint64(1) << np.uint64(picked)
        chosen[begin + turn] = first + picked


@compiled
def _choose_few(
    chosen: NDArray[np.int64], begin: int, wanted: int, first: int, limit: int, key: np.uint64
) -> None:
    for turn in range(wanted):
        last = limit - wanted + turn
        pick = first + below(key, turn, last + 1)
        for before in range(begin, begin + turn):
            if chosen[before] == pick:
                pick = first + last
        chosen[begin + turn] = pick


@compiled
def _choose_many(
    chosen: NDArray[np.int64], begin: int, wanted: int, first: int, limit: int, key: np.uint64
) -> None:
    size = 2 * _FEW
    while size < 2 * wanted:
        size *= 2
    table = np.full(size, -1, np.int64)  # open addressing, at most half full
    for turn in range(wanted):
        last = limit - wanted + turn
        pick = below(key, turn, last + 1)
        place = _place_in(table, pick)
        if table[place] == pick:
            pick = last
            place = _place_in(table, pick)
        table[place] = pick
        chosen[begin + turn] = first + pick


@compiled
def _place_in(table: NDArray[np.int64], number: int) -> int:
    """Where a number is in the table, or where it belongs."""
    place = derived_key(np.uint64(0), number) & np.uint64(len(table) - 1)
    while table[place] != -1 and table[place] != number:
        place = (place + np.uint64(1)) & np.uint64(len(table) - 1)
    return int(place)
