"""Workers on a Ray cluster; only this module and `_ray_train.py` import Ray.

A worker is an actor: a process that was set up once and then runs items one after another. Ray
finds a machine with free cores and memory for it. An actor whose process or machine is lost is
replaced, and its item is run again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import ray
from ray import exceptions

from scr.engines._base import Engine, Item, Needs, Result, Start, Together
from scr.errors import EngineError, SCRError

_untyped: Any = ray
"""Ray's functions without types."""
MOST_TRIES = 4
"""Of one item: beyond these, the item itself ends its workers."""
POLL_SECONDS = 1.0
"""How long a wait lasts before new machines are looked for."""


class RayEngine(Engine):
    """Workers of a cluster; one is started on this machine where there is none."""

    name = "ray"

    def __init__(self, address: str | None = None) -> None:
        self._is_own = not ray.is_initialized()
        if self._is_own:
            address = address or os.environ.get("RAY_ADDRESS")
            try:
                ray.init(address=address, log_to_driver=True, logging_level=logging.WARNING)
            except (ConnectionError, ValueError) as error:
                raise EngineError(
                    f"No Ray cluster answers at `{address}`: {error}",
                    hint="start one with `ray start --head`, or leave `--address` out",
                ) from None

    def slots(self, needs: Needs) -> int:
        count = 0
        for node in _untyped.nodes():
            if node["Alive"]:
                resources = node["Resources"]
                fitting = resources.get("CPU", 0) // needs.cores
                if needs.memory_bytes:
                    fitting = min(fitting, resources.get("memory", 0) // needs.memory_bytes)
                count += int(fitting)
        return max(count, 1)

    def run(
        self,
        start: Start[Item, Result],
        shared: Any,
        items: Iterable[Item | None],
        *,
        needs: Needs,
        most: int | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        setup = ray.put((start, shared))
        options: dict[str, Any] = {"num_cpus": needs.cores, "scheduling_strategy": "SPREAD"}
        if needs.memory_bytes:
            options["memory"] = needs.memory_bytes
        actor = _untyped.remote(max_restarts=0, **options)(_Worker)
        idle: list[Any] = []
        busy: dict[Any, tuple[Any, Item, int]] = {}

        def submit(item: Item, tries: int) -> None:
            worker = idle.pop() if idle else actor.remote(setup)
            busy[worker.run.remote(item)] = worker, item, tries

        try:
            waiting = iter(items)
            is_over = False
            while busy or not is_over:
                limit = self.slots(needs) if most is None else min(most, self.slots(needs))
                pending = False
                while not is_over and not pending and len(busy) < limit:
                    item = next(waiting, _END)
                    if item is _END:
                        is_over = True
                    elif item is None:
                        pending = True
                    else:
                        submit(item, 1)
                done, _ = ray.wait(list(busy), timeout=POLL_SECONDS) if busy else ([], [])
                for reference in done:
                    worker, item, tries = busy.pop(reference)
                    try:
                        result = ray.get(reference)
                    except exceptions.RayTaskError as error:
                        raise _of_item(error) from None
                    except exceptions.RayError as error:
                        if tries >= MOST_TRIES:
                            raise EngineError(f"A worker was lost {tries} times: {error}") from None
                        submit(item, tries + 1)
                    else:
                        idle.append(worker)
                        yield item, result
        finally:
            for worker in [*idle, *(each for each, _, _ in busy.values())]:
                ray.kill(worker)

    def together(self, function: Together[Item, Result], argument: Item, **options: Any) -> Result:
        from scr.engines._ray_train import run_together

        return cast(Result, run_together(function, argument, **options))

    def close(self) -> None:
        if self._is_own:
            ray.shutdown()


_END: Any = object()


class _Worker:
    """A process of the cluster that runs items."""

    def __init__(self, setup: tuple[Start[Any, Any], Any]) -> None:
        start, shared = setup
        self._work: Callable[[Any], Any] = start(shared)

    def run(self, item: Any) -> Any:
        return self._work(item)


def _of_item(error: exceptions.RayTaskError) -> Exception:
    """The error that an item ended with, as it was raised in its worker."""
    cause = error.cause
    return cause if isinstance(cause, SCRError) else EngineError(f"A worker failed: {error}")
