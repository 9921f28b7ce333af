"""Cases for everything in a catalog: what is registered is tested without being named."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def pairwise_cases(
    names: Collection[A], settings: Collection[B], sizes: Collection[C]
) -> Iterator[tuple[A, B, C]]:
    """Every name with every setting and with every size, and over the names all pairs of those.

    A mistake rarely needs three particular things to come together; two are common.
    """
    sizes = tuple(sizes)
    for row, name in enumerate(names):
        for column in range(max(len(settings), len(sizes))):
            setting = tuple(settings)[column % len(settings)]
            yield name, setting, sizes[(row + column) % len(sizes)]
