"""Stretches of a result: which are missing, which are on their way, and what is noted of them.

They are begun from the end of the result. Once one is on the disk, with all that follow it, the
journal says so, and the parts are cut shorter: the disk never holds more than one copy and the
stretches that are on their way, with the slabs that they begin in.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from scr.propagation.disk._layout import Layout
from scr.propagation.disk._pieces import DamagedPieceError, Pieces


class Stretch(NamedTuple):
    """Chunks of the result, one after the other, to be put together."""

    first: int
    last: int
    """Chunk after the last."""
    is_end: bool
    """Whether nothing that follows it is missing."""
    checksums: Mapping[tuple[str, int], int]
    """Of what is read, by the name of a part and the number of its slab."""


class JoinedStretch(NamedTuple):
    """What became of a stretch."""

    digests: list[str]
    """Of its chunks, which are on the disk."""
    damaged: str | None = None
    """A part that was not what the journal says, so that nothing was made."""


class Stretches:
    """The stretches of a result, and what the journal knows of them."""

    def __init__(self, work: Pieces, layout: Layout, *, chunks: int, most: int) -> None:
        """Cut what is missing into stretches of about as many chunks.

        Args:
            work: Knows the parts, and how far an earlier assembly went.
            layout: Of the result.
            chunks: Most of a stretch.
            most: Stretches on their way at once.
        """
        self._work, self._layout, self._most = work, layout, most
        missing = layout.chunks if work.assembled is None else work.assembled
        count = -(-missing // chunks)
        self._end = missing
        self._edges = [missing * number // max(count, 1) for number in range(count + 1)]
        self._on_their_way = 0
        self._waiting: dict[int, list[str]] = {}
        """Digests of stretches that precede ones that are not on the disk, by their ends."""
        self._left: dict[int, int] = {}
        """Rows that parts were cut to, by their range."""

    @property
    def rows(self) -> int:
        """Rows of parts that are still needed."""
        return self._layout.rows_before(self._edges[-1])

    def __iter__(self) -> Iterator[Stretch | None]:
        """From the end of the result on; None while there is disk for no more of them."""
        for first, last in reversed(list(itertools.pairwise(self._edges))):
            while self._on_their_way == self._most:
                yield None
            self._on_their_way += 1
            is_end = last == self._end
            yield Stretch(first, last, is_end, self._checksums(first, last))

    def finish(self, stretch: Stretch, digests: list[str]) -> None:
        """Note a stretch, unless it waits for later ones, and let go of what it was read from."""
        self._waiting[stretch.last] = digests
        while self._edges[-1] in self._waiting:
            found = self._waiting.pop(self._edges.pop())
            self._on_their_way -= 1
            self._work.record_assembled(self._edges[-1], found)
            self._cut_parts()

    def _cut_parts(self) -> None:
        layout, rows = self._layout, self.rows
        for number, (first, last) in enumerate(layout.cuts.ranges):
            left = min(max(rows - first, 0), last - first)
            if left == self._left.get(number, last - first):
                continue
            self._left[number] = left
            for block in range(len(layout.blocks)):
                for place in layout.places:
                    part = self._work.file(layout.part(block, place, number))
                    with suppress(FileNotFoundError):  # seen by whoever reads it
                        os.truncate(part, left * layout.part_bytes(block))

    def _checksums(self, first: int, last: int) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for name, slabs in self._layout.reads(first, last):
            known = self._work.part_checksums(name, slabs)
            if known is None:  # the part is gone
                raise DamagedPieceError(name)
            found |= {(name, slab): each for slab, each in zip(slabs, known, strict=True)}
        return found
