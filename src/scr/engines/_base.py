"""What an engine does: run independent items in workers that were set up once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from scr.compute import available_bytes, default_threads

Item = TypeVar("Item")
Result = TypeVar("Result")


Start = Callable[[Any], Callable[[Item], Result]]
"""Sets up a worker: a function of a module, called once in every worker's process with what all of
them share; returns what is called with each item."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What one worker takes."""

    cores: int = 1
    """Threads that it computes with."""
    memory_bytes: int = 0
    """Most memory of its process; 0: not counted."""


class Engine(ABC):
    """Runs items somewhere; leave it as a context to release what it holds."""

    name: str

    def machines(self) -> list[Needs]:
        """What each machine has for workers; by default there is this one."""
        return [Needs(cores=default_threads(), memory_bytes=available_bytes())]

    @abstractmethod
    def slots(self, needs: Needs) -> int:
        """How many such workers can run at once, at least 1."""

    @abstractmethod
    def run(
        self,
        start: Start[Item, Result],
        shared: Any,
        items: Iterable[Item | None],
        *,
        needs: Needs,
        most: int | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        """Run every item in one of the workers; yield each with its result, as they finish.

        An item is taken from `items` when a worker is free for it; a None among them says that
        there is no item at the moment. An item whose worker is lost is run again by another one, so
        an item must be repeatable. An error of an item ends all.

        Args:
            start: Called once in each worker, with `shared`.
            shared: Sent to each worker once.
            items: What is run; few bytes each.
            needs: Of one worker.
            most: Most workers at once; none: as many as `slots`.
        """

    def close(self) -> None:
        """Release what the engine holds."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
