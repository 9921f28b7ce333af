"""Make the next batches in another thread while this one computes.

Order and content are those of doing one after the other: there is one thread, it makes one batch
at a time, in turn, and only as many as `AHEAD` before they are asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

AHEAD = 2
"""Batches that wait: one would do if all took equally long to read."""


def read_ahead(
    items: Iterable[Item], make: Callable[[Item], Made], *, ahead: int = AHEAD
) -> Generator[tuple[Item, Made]]:
    """Yield each item with what is made of it, in order.

    An error of `make` is raised where its item would have come. Whoever may leave early closes the
    iterator (`contextlib.closing`): that waits for the batch under way and drops the others.

    Args:
        items: What to make something of; asked for in the calling thread.
        make: Called in another thread.
        ahead: How many are made before they are asked for.
    """
    waiting: deque[tuple[Item, Future[Made]]] = deque()
    remaining = iter(items)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
    try:
        for item in islice(remaining, ahead):
            waiting.append((item, thread.submit(make, item)))
        while waiting:
            item, made = waiting.popleft()
            result = made.result()
            for following in islice(remaining, 1):
                waiting.append((following, thread.submit(make, following)))
            yield item, result
    finally:
        thread.shutdown(wait=True, cancel_futures=True)
