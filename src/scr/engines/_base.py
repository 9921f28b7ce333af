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
    gpu: bool = False
    """Whether it computes on a GPU, one for each worker."""


class Link:
    """What a function that runs in a group of workers tells its caller, and asks."""

    def __init__(self, on_message: Callable[[Any], None], asked: Callable[[], bool]) -> None:
        self._on_message, self._asked = on_message, asked

    def send(self, message: Any, progress: int) -> None:
        """Give the caller something to look at; `progress` grows with what is done."""
        del progress
        self._on_message(message)

    def should_stop(self) -> bool:
        """Whether the caller wants the function to return what there is."""
        return self._asked()


Together = Callable[[Item, Link], Result]
"""A function of a module that all workers of a group call at once, each in `current_group`."""


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

    def together(
        self,
        function: Together[Item, Result],
        argument: Item,
        *,
        workers: int,
        needs: Needs,
        grows: bool = False,
        on_message: Callable[[Any], None] = lambda message: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Result:
        """Call one function in a group of workers at once; returns what rank 0 returns.

        When a worker is lost, all of them begin anew, so the function must find by itself where it
        had been. An `SCRError` of any worker ends all. By default, the group is this process alone.

        Args:
            function: What each worker calls.
            argument: Sent to each worker.
            workers: Most workers of the group; it may have fewer where there is no room.
            needs: Of one worker.
            grows: Whether all may begin anew for the sake of more workers, once there is room.
            on_message: Called with what rank 0 sends.
            should_stop: Asked now and then; workers learn it by their `Link`.
        """
        return function(argument, Link(on_message, should_stop))

    def release(self) -> None:
        """Let go of workers that are kept for another `run` of the same."""
        return

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
