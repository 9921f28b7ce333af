"""Run work on several threads while its pieces come from a reader and leave for a writer in order.

The compiled functions and NumPy's sort release Python's lock, so plain threads do. Only so many
pieces are under way at once, since each holds memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def map_in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, threads: int, ahead: int
) -> Iterator[Result]:
    """The results in the order of the pieces.

    Args:
        work: What to do with each piece.
        pieces: Taken one by one, by the thread that asks for results.
        threads: How many work.
        ahead: How many pieces are under way at most.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                del piece  # the worker alone holds it now
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
