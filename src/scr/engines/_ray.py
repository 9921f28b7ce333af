"""Workers on a Ray cluster; with `_ray_output.py` and `_ray_train.py`, all that imports Ray.

A worker is an actor: a process that was set up once and then runs items one after another. Ray
finds a machine with free cores and memory for it. An actor whose process or machine is lost is
replaced, and its item is run again.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray announces by a warning what it will do with the GPUs of tasks that ask for none.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import exceptions

from scr.compute import readable_bytes
from scr.engines._base import Engine, Item, Needs, Result, Start, Together
from scr.engines._dispatch import Crew, LostWorkerError, Worker, dispatch
from scr.engines._failure import Failure, attempt
from scr.engines._ray_output import Output
from scr.engines._threads import use_threads
from scr.errors import EngineError

_untyped: Any = ray
"""Ray's functions without types."""
_TOKENS = "ray._private.authentication.authentication_token_setup"
"""Logs on every start that the new cluster has a token, which is as it should be."""
CONNECT_SECONDS = 20.0
"""That the address of a cluster may take to answer."""
START_SECONDS = 30.0
"""That a worker takes to start where it has a place, also from a slow disk."""
GRACE_SECONDS = 60.0
"""That a cluster without any fitting machine may take to have one again."""


class RayEngine(Engine):
    """Workers of a cluster; one is started on this machine where there is none."""

    name = "ray"

    def __init__(self, address: str | None = None) -> None:
        self._is_own = not ray.is_initialized()
        self._crew: _Actors | None = None
        self._fitted_at = time.monotonic()
        if self._is_own:
            _connect(address)
        self._output = Output()
        self._output.listen(silent=self._is_own)

    def machines(self) -> list[Needs]:
        return [
            Needs(cores=int(each.get("CPU", 0)), memory_bytes=int(each.get("memory", 0)))
            for each in _nodes()
        ]

    def slots(self, needs: Needs) -> int:
        return max(self._fitting(needs), 1)

    def run(
        self,
        start: Start[Item, Result],
        shared: Any,
        items: Iterable[Item | None],
        *,
        needs: Needs,
        most: int | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        if self._fitting(needs) == 0:
            raise _too_large(needs)
        self._fitted_at = time.monotonic()
        if self._crew is None or not self._crew.fits(start, shared, needs):
            self.release()
            self._crew = _Actors(start, shared, needs, self._output)

        def limit() -> int:
            count = self._fitting(needs)
            if count:
                self._fitted_at = time.monotonic()
            elif time.monotonic() - self._fitted_at > GRACE_SECONDS:
                raise _too_large(needs)
            return count if most is None else min(most, count)

        yield from dispatch(self._crew, items, limit)

    def together(self, function: Together[Item, Result], argument: Item, **options: Any) -> Result:
        from scr.engines._ray_train import run_together

        if self._fitting(options["needs"]) == 0:
            raise _too_large(options["needs"])
        self.release()
        return cast(Result, run_together(function, argument, **options))

    def close(self) -> None:
        self.release()
        self._output.close()
        if self._is_own:
            ray.shutdown()

    def release(self) -> None:
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None

    def _fitting(self, needs: Needs) -> int:
        """How many workers the machines of the cluster hold, 0 if none has room for one."""
        count = 0
        for node in _nodes():
            fitting = node.get("CPU", 0) // max(needs.cores, 1)
            if needs.memory_bytes:
                fitting = min(fitting, node.get("memory", 0) // needs.memory_bytes)
            if needs.gpu:
                fitting = min(fitting, node.get("GPU", 0))
            count += int(fitting)
        return count


def _connect(address: str | None) -> None:
    """Connect to a cluster, or start one on this machine, without its banners."""
    logging.getLogger(_TOKENS).setLevel(logging.ERROR)
    asked = address or _asked_for()
    try:
        _check_reachable(asked)
        try:
            _init(address)
        except Exception as error:
            # Ray waits for half a minute, which is short where all cores are busy.
            is_slow = "timed out during startup" in str(error)
            if not is_slow and not (_is_refused(error) and _use_token()):
                raise
            ray.shutdown()
            _init(address)
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds, and plain ones
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if asked is None:
            raise EngineError(f"Ray could not be started on this machine: {reason}") from None
        if _is_refused(error):
            raise EngineError(
                f"The Ray cluster at `{asked}` wants a token that this machine does not have",
                hint="copy `~/.ray/auth_token` from the machine where the cluster was started, or "
                "set RAY_AUTH_TOKEN",
            ) from None
        raise EngineError(
            f"No Ray cluster answers at `{asked}`: {reason}",
            hint="start one with `ray start --head`, or leave `--address` out",
        ) from None


def _asked_for() -> str | None:
    """The address of the cluster that the environment names, if it does."""
    return os.environ.get("RAY_ADDRESS")


def _is_refused(error: BaseException | None) -> bool:
    """Whether a cluster wants another token, which Ray says in a cause of its error."""
    while error is not None:
        if "AuthToken" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _use_token() -> bool:
    """Whether there is a token of this user that was not sent yet; it is from now on.

    `ray start` asks for it as soon as there is one, which a cluster that only lived for a command
    leaves behind; a process that connects sends none unless it is told to.
    """
    if "RAY_AUTH_MODE" in os.environ:
        return False
    with suppress(ImportError, AttributeError):  # versions of Ray that know no tokens
        tokens: Any = importlib.import_module(_TOKENS)
        return bool(tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False))
    return False


def _check_reachable(address: str | None) -> None:
    """Raise an OSError where nothing listens; Ray itself would try for more than a minute."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS):
            return


def _init(address: str | None) -> None:
    environment = None
    if " " in sys.executable and os.name == "posix" and not (address or _asked_for()):
        # Ray hands the start of workers of Ray Train to a shell, and does not quote the
        # interpreter. On machines of another cluster it may be elsewhere.
        environment = {"py_executable": shlex.quote(sys.executable)}
    ray.init(
        address=address, include_dashboard=False, log_to_driver=True, logging_level=logging.ERROR,
        runtime_env=environment,
    )  # fmt: skip


def _nodes() -> list[dict[str, float]]:
    """What each machine of the cluster has."""
    return [node["Resources"] for node in _untyped.nodes() if node["Alive"]]


def _too_large(needs: Needs) -> EngineError:
    cores = max((int(node.get("CPU", 0)) for node in _nodes()), default=0)
    memory = max((int(node.get("memory", 0)) for node in _nodes()), default=0)
    asked = f"{needs.cores} cores"
    if needs.memory_bytes:
        asked += f" and {readable_bytes(needs.memory_bytes)} of memory"
    if needs.gpu:
        asked += " and a GPU"
    return EngineError(
        f"A worker needs {asked}; no machine of the Ray cluster has that: the largest have {cores} "
        f"cores and {readable_bytes(memory)}",
        hint="ask for less of a worker, or add a larger machine to the cluster",
    )


class _Actors(Crew["_ActorWorker"]):
    """Actors that read their setup from the object store, where it is once per machine."""

    def __init__(self, start: Start[Any, Any], shared: Any, needs: Needs, output: Output) -> None:
        super().__init__(start, shared, needs)
        self.output = output
        self._setup: list[Any] = []
        options: dict[str, Any] = {"num_cpus": needs.cores, "scheduling_strategy": "SPREAD"}
        if needs.memory_bytes:
            options["memory"] = needs.memory_bytes
        self._actor = _untyped.remote(max_restarts=0, **options)(_Worker)

    def hire(self) -> _ActorWorker:
        return _ActorWorker(self._actor.remote(), self)

    @property
    def setup(self) -> list[Any]:
        """What all workers share, put into the object store while the first ones start.

        In a list the reference stays one: the worker itself reads, and says what is wrong.
        """
        if not self._setup:
            self._setup.append(self._put())
        return self._setup

    def _put(self) -> Any:
        try:
            return ray.put((self.start, self.shared))
        except (exceptions.ObjectStoreFullError, exceptions.OutOfDiskError) as error:
            raise EngineError(
                "What all workers share does not fit into Ray's object store, nor on the disk "
                f"that it spills to: {str(error).strip().splitlines()[0]}",
                hint="start Ray with more (`ray start --object-store-memory BYTES`), or free some "
                "disk space",
            ) from None

    def finished(self, busy: Sequence[_ActorWorker], seconds: float) -> Sequence[_ActorWorker]:
        by_reference = {worker.reference: worker for worker in busy}
        done, _ = ray.wait(list(by_reference), timeout=seconds)
        return [by_reference[reference] for reference in done]


class _ActorWorker(Worker):
    """One actor, seen from here."""

    def __init__(self, actor: Any, crew: _Actors) -> None:
        self._actor, self._crew, self._hired_at = actor, crew, time.monotonic()
        self._whereabouts = actor.whereabouts.remote()
        self.reference: Any = None

    def is_late(self) -> bool:
        # Where others use the cluster too, an actor may wait for what idle ones hold.
        is_time = time.monotonic() - self._hired_at > START_SECONDS
        return is_time and not ray.wait([self._whereabouts], timeout=0)[0]

    def assign(self, item: Any) -> None:
        self.reference = self._actor.run.remote(self._crew.setup, self._crew.needs.cores, item)

    def result(self) -> Any:
        try:
            succeeded, content = ray.get(self.reference)
        except exceptions.RayTaskError as error:  # before or after the item: it was not sent whole
            raise Failure.of(error).raised(self._printed()) from None
        except exceptions.RayError as error:
            printed = self._printed()
            reason = str(error).strip().splitlines()[-1].strip()
            raise LostWorkerError(
                f"{reason}\n\nIt printed:\n{printed}" if printed else reason
            ) from None
        if not succeeded:
            raise content.raised(self._printed())
        return content

    def end(self, *, at_once: bool) -> None:
        with suppress(exceptions.RayError, ValueError):
            ray.kill(self._actor)

    def _printed(self) -> str:
        """The last lines that the worker printed, where it is known which worker that was."""
        try:
            address, process = ray.get(self._whereabouts, timeout=0.1)
        except exceptions.RayError:
            return ""
        return self._crew.output.tail(address, process)


class _Worker:
    """A process of the cluster that runs items."""

    def __init__(self) -> None:
        self._work: Callable[[Any], Any] | None = None
        gc.disable()  # what is imported next is no garbage, but would be looked through for it

    def whereabouts(self) -> tuple[str, int]:
        """The address of the machine, and the number of the process."""
        return str(_untyped.util.get_node_ip_address()), os.getpid()

    def run(self, setup: list[Any], cores: int, item: Any) -> tuple[bool, Any]:
        """Whether the item had a result, and the result or the failure."""
        return attempt(lambda: self._ready(setup, cores)(item))

    def _ready(self, setup: list[Any], cores: int) -> Callable[[Any], Any]:
        if self._work is None:
            try:
                start, shared = ray.get(setup[0])
                use_threads(cores)
                self._work = start(shared)
                use_threads(cores)  # by libraries that were loaded just now
            finally:
                gc.enable()
        return self._work
