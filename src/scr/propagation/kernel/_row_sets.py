"""Sets of rows as one bit per row, and the places of rows among those of a set.

A set of a fifth of a hundred million rows takes 12 MB so, as much again to find places in it, and
stays in a cache while edges are looked up; their numbers would take 160 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import equal_ends, run_ranges
from scr.propagation.kernel._vector import compiled_loop

_WORD = 64
"""Bits that are counted together."""


class RowSet:
    """Some of the rows 0 to `count`."""

    def __init__(self, count: int, *some: NDArray[Any]) -> None:
        """Make a set of what the arrays hold, in any order and any number of times."""
        self.count = count
        # Side by side, since both are looked up: the bits of a word, and the rows before it.
        self._words = np.zeros((-(-count // _WORD) + 1, 2), np.uint64)
        for rows in some:
            _set_bits(rows, self._words)
        self._words[1:, 1] = np.cumsum(np.bitwise_count(self._words[:-1, 0]))

    @staticmethod
    def bytes(count: int) -> int:
        """Memory of a set of rows 0 to `count`."""
        return 2 * 8 * (-(-count // _WORD) + 1)

    def __len__(self) -> int:
        return int(self._words[-1, 1])

    def between(self, first: int, last: int) -> NDArray[np.int64]:
        """The rows of the set from `first` to `last` (exclusive), ascending."""
        start, stop = self.places(np.array([first, last]), threads=1)
        found = np.empty(stop - start, np.int64)
        _list_rows(self._words, first, found)
        return found

    def take(self, values: NDArray[Any], threads: int | None = None) -> NDArray[Any]:
        """Those of the values, one for each row, that belong to rows of the set."""
        found = np.empty(len(self), values.dtype)
        ends = equal_ends(len(self._words))
        run_ranges(_take_values, ends, self._words, values, found, threads=threads)
        return found

    def places(
        self, rows: NDArray[Any], threads: int | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """How many rows of the set come before each of the given ones; `out` may be these."""
        out = np.empty_like(rows) if out is None else out
        run_ranges(_count_before, equal_ends(len(rows)), rows, self._words, out, threads=threads)
        return out


@dataclass(frozen=True)
class RowRange:
    """The rows from `first` to `last` (exclusive) of `count`, asked for as a `RowSet` is."""

    count: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def between(self, first: int, last: int) -> NDArray[np.int64]:
        """Those of the rows that lie from `first` to `last` (exclusive), ascending."""
        return np.arange(max(first, self.first), min(last, self.last))

    def places(self, rows: NDArray[Any], threads: int | None = None) -> NDArray[Any]:
        """How many rows of the range come before each of the given ones."""
        del threads
        before: NDArray[Any] = np.clip(rows, self.first, self.last) - self.first
        return before


Rows = RowSet | RowRange


@compiled_loop
def _set_bits(rows, words):  # type: ignore[no-untyped-def]
    for row in rows:
        words[row >> 6, 0] |= np.uint64(1) << np.uint64(row & 63)
    return 0


@compiled_loop
def _bits(word):  # type: ignore[no-untyped-def]
    """How many bits of a word are set, counted by pairs, fours and bytes at once.

    Warren 2012, "Hacker's Delight", section 5-1.
    """
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    fours = np.uint64(0x3333333333333333)
    word = (word & fours) + ((word >> np.uint64(2)) & fours)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled_loop
def _count_before(rows, words, out, first, last):  # type: ignore[no-untyped-def]
    """Bits of whole words before a row's own, and of those below it in its word."""
    for place in range(first, last):
        row = rows[place]
        below = (np.uint64(1) << np.uint64(row & 63)) - np.uint64(1)
        out[place] = np.int64(words[row >> 6, 1]) + _bits(words[row >> 6, 0] & below)
    return 0


@compiled_loop
def _list_rows(words, first, out):  # type: ignore[no-untyped-def]
    """As many rows of a set as there is room for, from `first` on."""
    place, number = 0, first >> 6
    below = (np.uint64(1) << np.uint64(first & 63)) - np.uint64(1)
    word = words[number, 0] & ~below
    while place < len(out):
        while word == 0:
            number += 1
            word = words[number, 0]
        lower = word & (~word + np.uint64(1))
        out[place] = (number << 6) + _bits(lower - np.uint64(1))
        place += 1
        word ^= lower
    return 0


@compiled_loop
def _take_values(words, values, out, first, last):  # type: ignore[no-untyped-def]
    for number in range(first, last):
        word, place = words[number, 0], np.int64(words[number, 1])
        while word != 0:
            lower = word & (~word + np.uint64(1))
            out[place] = values[(number << 6) + _bits(lower - np.uint64(1))]
            place += 1
            word ^= lower
    return 0
