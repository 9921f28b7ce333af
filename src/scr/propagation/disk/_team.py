"""How many workers of a cluster share a propagation, and what each of them may use.

One worker for each machine, with all its cores, has the widest blocks of columns for the memory of
the machine: several would each hold blocks of their own, and read the edges once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scr.compute import default_threads
from scr.config import parse_bytes
from scr.engines import Engine, Needs, open_engine
from scr.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Team:
    """Workers that are all alike."""

    workers: int
    cores: int
    """Threads of each."""
    memory_bytes: int
    """Most memory of each."""


@contextmanager
def opened_team(
    engine: str = "local",
    address: str | None = None,
    *,
    workers: int | None = None,
    cores: int | None = None,
    memory: str | int = "auto",
) -> Iterator[tuple[Engine, Team | None]]:
    """Open an engine, and choose its workers; none of the engine `local`, where this process works.

    Args:
        engine: As for `open_engine`, like `address`.
        workers: As for `form_team`, like all that follow.
    """
    given = {"workers": workers, "worker_cores": cores,
             "worker_memory": None if memory == "auto" else memory}  # fmt: skip
    for name, value in given.items():
        if engine == "local" and value is not None:
            raise ConfigError(
                name, value, "none with the engine `local`", hint="choose the engine `ray`"
            )
    with open_engine(engine, address) as opened:
        is_here = opened.name == "local"
        yield (
            opened,
            None if is_here else form_team(opened, workers=workers, cores=cores, memory=memory),
        )


def form_team(
    engine: Engine | None,
    *,
    workers: int | None = None,
    cores: int | None = None,
    memory: str | int = "auto",
) -> Team:
    """Choose workers for the machines of a cluster.

    Args:
        engine: The cluster; none: one that is only planned with, of which `workers` and `memory`
            must be given.
        workers: Most workers; none: as many as run at once.
        cores: Threads of each worker; none: all of the smallest machine.
        memory: Most memory of each worker; `auto`: its share of the smallest machine.
    """
    given = None if memory == "auto" else parse_bytes(memory, setting="worker_memory")
    if engine is None:
        if workers is None or given is None:
            missing = "--workers" if workers is None else "--worker-memory"
            raise ConfigError(
                missing, "nothing", "a number, since there is no cluster to ask",
                hint="such as `--workers 8 --worker-memory 48GiB`",
            )  # fmt: skip
        return Team(workers=workers, cores=cores or default_threads(), memory_bytes=given)
    machines = [machine for machine in engine.machines() if machine.cores > 0]
    if not machines:
        raise ConfigError("engine", engine.name, "a cluster with a machine that has cores")
    cores = cores or min(machine.cores for machine in machines)
    usable = [machine for machine in machines if machine.cores >= cores]
    if not usable:
        most = max(machine.cores for machine in machines)
        raise ConfigError("worker_cores", cores, f"at most {most}, the cores of a machine")
    if given is None:
        given = min(machine.memory_bytes // (machine.cores // cores) for machine in usable)
    slots = engine.slots(Needs(cores=cores, memory_bytes=given))
    return Team(
        workers=slots if workers is None else min(workers, slots), cores=cores, memory_bytes=given
    )
