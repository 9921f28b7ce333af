"""Workers that are processes of this machine, or this process itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scr.engines._base import Engine, Item, Needs, Result, Start


class LocalEngine(Engine):
    """One worker at a time in this process, or several in processes of their own."""

    name = "local"

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs

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
        work = start(shared)
        for item in items:
            if item is not None:
                yield item, work(item)
