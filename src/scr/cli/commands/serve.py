"""`scr serve`: answer requests for predictions of a run over HTTP."""

from __future__ import annotations

import contextlib
import socket
from typing import Annotated

import typer

from scr import compute, prediction
from scr.cli import _options as option
from scr.cli._console import print_line
from scr.cli._ending import Report
from scr.errors import ConfigError, RunError


def serve(
    run: option.FinishedRun,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is open to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    coverage: Annotated[
        float, typer.Option(help="Of prediction sets, where a request does not say.")
    ] = 0.9,
    most_nodes: Annotated[int, typer.Option(min=1, help="Nodes in a request.")] = 1_000,
    most_bytes: Annotated[int, typer.Option(min=1, help="Size of a request.")] = 8 * 2**20,
    device: option.Device = "cpu",
) -> Report:
    """Answer requests over HTTP: known nodes by their ids, new nodes with their edges.

    Needs the extra `serve`. There is no password: only people who may see the predictions should be
    able to reach the address.
    """
    try:
        import uvicorn

        from scr.serving import Limits, Service, make_app
    except ModuleNotFoundError as error:
        raise RunError(
            f"`scr serve` needs the package `{error.name}`, which is not installed",
            hint="install the extra `serve`: `pip install fastapi uvicorn`",
        ) from None
    if not 0 < coverage < 1:
        raise ConfigError("--coverage", coverage, "a number between 0 and 1")
    compute.usable_device(device)
    with _listening(host, port) as listener:
        predictor = prediction.open_run(run, device=device)
        limits = Limits(nodes=most_nodes, bytes=most_bytes)
        app = make_app(Service(predictor, limits=limits, coverage=coverage))
        bound = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        print_line(f"Serving {run} at http://{shown}:{bound}; stop with Ctrl-C")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    print_line("Stopped")
    return {"run": run, "host": host, "port": bound}


def _listening(host: str, port: int) -> socket.socket:
    """A bound socket, before minutes are spent on predictions."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by name: asyncio sends short answers at once only where it sees TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            "--port", port, f"one that is free at {host}: {error.strerror or error}",
            hint="`--port 0` takes a free one",
        ) from None  # fmt: skip
    return listener
