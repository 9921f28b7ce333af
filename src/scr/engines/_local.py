"""Workers that are processes of this machine, or this process itself."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scr.engines._base import Engine, Item, Needs, Result, Start
from scr.engines._dispatch import PAUSE_SECONDS, Crew, dispatch
from scr.engines._process import ProcessWorker


class LocalEngine(Engine):
    """One worker in this process, with its threads, or several in processes of their own."""

    name = "local"

    def __init__(self, jobs: int = 1) -> None:
        """Run so many processes; 0: one for each core."""
        self.jobs = jobs or _cores()
        self._crew: _Processes | None = None

    def slots(self, needs: Needs) -> int:
        return max(self.jobs, 1)

    def run(
        self,
        start: Start[Item, Result],
        shared: Any,
        items: Iterable[Item | None],
        *,
        needs: Needs,
        most: int | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        limit = self.slots(needs) if most is None else min(most, self.slots(needs))
        if limit <= 1:
            work = start(shared)
            for item in items:
                if item is None:
                    time.sleep(PAUSE_SECONDS)
                else:
                    yield item, work(item)
            return
        if self._crew is None or not self._crew.fits(start, shared, needs):
            self.close()
            self._crew = _Processes(start, shared, needs)
        yield from dispatch(self._crew, items, lambda: limit)

    def close(self) -> None:
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None


def _cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())


class _Processes(Crew[ProcessWorker]):
    """Processes that tell of finished items by one queue."""

    def __init__(self, start: Start[Any, Any], shared: Any, needs: Needs) -> None:
        super().__init__(start, shared, needs)
        self._answered: queue.SimpleQueue[ProcessWorker] = queue.SimpleQueue()

    def hire(self) -> ProcessWorker:
        return ProcessWorker(self.start, self.shared, self.needs, self._answered.put)

    def finished(self, busy: Sequence[ProcessWorker], seconds: float) -> Sequence[ProcessWorker]:
        try:
            worker = self._answered.get(timeout=seconds)
        except queue.Empty:
            return []
        return [worker] if worker in busy else []
