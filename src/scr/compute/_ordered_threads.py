"""Run work on other threads while its pieces come from a reader and leave for a writer in order.

The compiled functions, NumPy's sort and reads of files release Python's lock, so plain threads do.
Only so many pieces are under way at once, since each holds memory. Order and content are those of
doing one after the other.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from scr.compute._loops import default_threads

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def map_in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, threads: int = 1, ahead: int = 3
) -> Generator[Result]:
    """The results in the order of the pieces, which are taken by the thread that asks for results.

    At most `ahead` pieces are under way, the one in the hands of the caller included. An error of
    `work` is raised where its result would have come. Whoever may leave early closes the iterator
    (`contextlib.closing`): that waits for pieces under way and drops the others.
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


def run_on_threads(task: Callable[[Any], Any], pieces: list[Any], threads: int | None) -> list[Any]:
    """Call a function that releases Python's lock for all pieces; results in their order."""
    threads = default_threads() if threads is None else threads
    if threads == 1 or len(pieces) <= 1:
        return [task(piece) for piece in pieces]
    with ThreadPoolExecutor(min(threads, len(pieces))) as pool:
        return list(pool.map(task, pieces))


def run_with_buffers(
    task: Callable[[Any, Any], Any], pieces: list[Any], buffers: Sequence[Any]
) -> None:
    """As `run_on_threads`, on a thread for each buffer; each call has one that no other has."""
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for buffer in buffers:
        free.put(buffer)

    def run(piece: Any) -> None:
        buffer = free.get()
        try:
            task(piece, buffer)
        finally:
            free.put(buffer)

    run_on_threads(run, pieces, len(buffers))
