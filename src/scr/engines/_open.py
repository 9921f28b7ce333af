"""Engines by their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from scr.engines._base import Engine
from scr.engines._local import LocalEngine
from scr.errors import ConfigError

EngineName = Literal["local", "ray"]
ENGINES: tuple[str, ...] = get_args(EngineName)
"""Names of all engines, the default first."""


def open_engine(name: str = "local", address: str | None = None, *, jobs: int = 1) -> Engine:
    """Open an engine by its name.

    Args:
        name: `local` or `ray`.
        address: Of a Ray cluster, such as `auto` or `host:6379`; none: that of the variable
            RAY_ADDRESS, a cluster that `ray start` has started on this machine, or a new one for
            as long as this engine is open.
        jobs: Processes of the local engine; 0: one for each core.

    Raises:
        ConfigError: There is no such engine, or Ray is not installed.
    """
    if name not in ENGINES:
        raise ConfigError("engine", name, " or ".join(ENGINES))
    if name == "local":
        if address is not None:
            raise ConfigError("address", address, "none with the engine `local`",
                              hint="pass `--engine ray`")  # fmt: skip
        return LocalEngine(jobs)
    try:
        import ray  # noqa: F401
    except ImportError:
        raise ConfigError(
            "engine", "ray", "an installed Ray", hint="pip install 'scr-gnn[ray]'"
        ) from None
    from scr.engines._ray import RayEngine

    return RayEngine(address)


@contextmanager
def opened(engine: Engine | str, *, jobs: int = 1) -> Iterator[Engine]:
    """An engine that is given, which stays open, or one that is named, for the time of a block."""
    if isinstance(engine, Engine):
        yield engine
        return
    with open_engine(engine, jobs=jobs) as named:
        yield named
