"""Hand items to workers as these become free, and replace workers that are lost.

What all engines with several workers share; an engine brings its own `Crew`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from scr.engines._base import Item, Needs, Result, Start
from scr.errors import EngineError

MOST_TRIES = 4
"""Of one item: beyond these, the item itself ends its workers."""
POLL_SECONDS = 1.0
"""How long a wait lasts before items are asked for again, and new machines are looked for."""
PAUSE_SECONDS = 0.1
"""Before items are asked for again where there was none and no worker is busy."""
_END: Any = object()


class LostWorkerError(Exception):
    """A worker ended with its item; the message says what is known of it."""


class Worker(ABC):
    """Something that runs one item at a time."""

    def is_late(self) -> bool:
        """Whether it should have begun by now, and waits for a place instead."""
        return False

    @abstractmethod
    def assign(self, item: Any) -> None:
        """Begin an item."""

    @abstractmethod
    def result(self) -> Any:
        """Of the item that is finished.

        Raises:
            LostWorkerError: There is none, and the worker is of no further use.
        """

    @abstractmethod
    def end(self, *, at_once: bool) -> None:
        """Release the worker: at once, or in the usual manner if it is idle."""


AnyWorker = TypeVar("AnyWorker", bound=Worker)


class Crew(ABC, Generic[AnyWorker]):
    """Workers that were set up alike; idle ones stay for the next call with the same setup."""

    def __init__(self, start: Start[Any, Any], shared: Any, needs: Needs) -> None:
        self.start, self.shared, self.needs = start, shared, needs
        self.idle: list[AnyWorker] = []

    def fits(self, start: Start[Any, Any], shared: Any, needs: Needs) -> bool:
        """Whether these workers are what is asked for."""
        return start is self.start and shared is self.shared and needs == self.needs

    @abstractmethod
    def hire(self) -> AnyWorker:
        """One more worker."""

    @abstractmethod
    def finished(self, busy: Sequence[AnyWorker], seconds: float) -> Sequence[AnyWorker]:
        """Those of the busy workers that have ended their items; waits at most so long."""

    def dismiss(self) -> None:
        """Release all idle workers."""
        while self.idle:
            self.idle.pop().end(at_once=False)


def dispatch(
    crew: Crew[AnyWorker], items: Iterable[Item | None], limit: Callable[[], int]
) -> Iterator[tuple[Item, Result]]:
    """Run items by at most `limit()` workers; as `Engine.run`."""
    waiting, is_over = iter(items), False
    busy: dict[AnyWorker, tuple[Item, int]] = {}
    again: list[tuple[Item, int]] = []
    try:
        while busy or again or not is_over:
            has_none, begun = False, list[tuple[AnyWorker, Item]]()
            while (again or not (is_over or has_none)) and len(busy) < limit():
                item, tries = again.pop() if again else (next(waiting, _END), 1)
                if item is _END:
                    is_over = True
                elif item is None:
                    has_none = True
                else:
                    worker = crew.idle.pop() if crew.idle else crew.hire()
                    busy[worker] = item, tries
                    begun.append((worker, item))
            for worker, item in begun:  # all of them start before the first one is set up
                worker.assign(item)
            if not busy and (again or not is_over):
                time.sleep(PAUSE_SECONDS)
            late = [worker for worker in busy if crew.idle and worker.is_late()]
            for worker, idle in zip(late, list(crew.idle), strict=False):
                crew.idle.remove(idle)  # which may hold the place that the other one waits for
                busy[idle] = busy.pop(worker)
                worker.end(at_once=True)
                idle.assign(busy[idle][0])
            for worker in crew.finished(list(busy), POLL_SECONDS) if busy else ():
                item, tries = busy[worker]
                try:
                    result = worker.result()
                except LostWorkerError as lost:
                    del busy[worker]
                    worker.end(at_once=True)
                    if tries >= MOST_TRIES:
                        raise EngineError(
                            f"Workers that ran the same item were lost {tries} times; the last "
                            f"one: {lost}",
                            hint="the item may need more memory than a worker has",
                        ) from None
                    again.append((item, tries + 1))
                else:
                    del busy[worker]
                    crew.idle.append(worker)
                    yield item, result
    except BaseException:
        # What runs now would be waited for and then thrown away.
        for worker in (*busy, *crew.idle):
            worker.end(at_once=True)
        crew.idle.clear()
        raise
