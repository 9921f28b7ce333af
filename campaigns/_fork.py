"""Commands of scr as forked children of a process that has imported everything.

A child starts in milliseconds instead of seconds, so that a campaign can afford thousands. It runs
`scr.cli.main` in a session of its own, and whoever kills it kills all that it has started.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FAILED_BEFORE = 99
"""Exit code of a child that failed before its command began."""


END_SECONDS = 200.0
"""A command that has not ended by then hangs: the longest takes ten, on a machine with much else to
do ten times as long."""
LOADED_LATE = (
    "optuna", "sklearn.linear_model", "matplotlib.pyplot", "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg", "pyarrow.parquet", "pyarrow.csv", "scipy",
)  # fmt: skip
"""Imported by some commands where they need them."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal that ended it."""

    code: int
    seconds: float
    output: str
    hung: bool = False
    """Whether it had to be killed, since it did not end by itself."""

    @property
    def is_unexpected(self) -> bool:
        """Whether it ended in an error that scr did not expect, or by a signal of its own."""
        return self.code not in (0, 2) or "unexpected " in self.output or "Traceback" in self.output


class Running:
    """A command that runs in a forked child."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        log: Path,
        *,
        constants: Mapping[str, Any] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        """Start `scr WORDS` in a folder.

        Args:
            constants: Values for constants of scr, such as `scr.ingest._plan:LARGE_EDGES`, so that
                small inputs take the way of large ones.
            before: Called in the child first: limits, another user.
        """
        self.log, self.started = log, time.monotonic()
        log.write_bytes(b"")
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _child(words, folder, log, constants or {}, before)
        self.descriptor = os.pidfd_open(self.pid)
        self.ended: Ended | None = None

    def wait(self, seconds: float) -> Ended | None:
        """Wait for the end, at most so long; none: it still runs."""
        if self.ended is None:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, seconds))
            if ready:
                self._end()
        return self.ended

    def kill(self) -> Ended:
        """Kill it, and all that it has started, if it has not ended."""
        if self.ended is None:
            _kill_session(self.pid)
            self._end()
        assert self.ended is not None
        return self.ended

    def _end(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.started
        os.close(self.descriptor)
        _kill_session(self.pid)  # processes that it has started and left behind
        output = self.log.read_text(encoding="utf-8", errors="replace")
        self.ended = Ended(os.waitstatus_to_exitcode(status), seconds, output)


def run_command(
    words: Sequence[str],
    folder: Path,
    log: Path,
    *,
    kill_after: float | None = None,
    timeout: float = END_SECONDS,
    constants: Mapping[str, Any] | None = None,
    before: Callable[[], None] | None = None,
) -> Ended:
    """Run `scr WORDS` in a folder to its end, or kill it after so many seconds."""
    running = Running(words, folder, log, constants=constants, before=before)
    if kill_after is not None:
        running.wait(kill_after)
        return running.kill()
    if running.wait(timeout) is None:
        return replace(running.kill(), hung=True)
    return running.kill()


def import_everything() -> None:
    """Import scr and the libraries that its commands load, all on one thread."""
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", COLUMNS="200")
    import torch

    import scr

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(scr.__path__, "scr."):
        # What an optional dependency lacks, no command of a campaign uses.
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in LOADED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _load_the_rest()


def _load_the_rest() -> None:
    """Do once what libraries otherwise do in every child, when it first uses them."""
    import numba
    import torch

    from scr.report.page import _render

    numba.njit(_successor)(1)
    with torch.device("meta"):
        torch.nn.init.xavier_normal_(torch.nn.Linear(2, 2).weight)
    for template in (templates := _render._environment()).list_templates():
        templates.get_template(template)


def _successor(number: int) -> int:
    return number + 1


def _kill_session(leader: int) -> None:
    # Every child of a command stays in the group that the command leads.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGKILL)


def _child(
    words: Sequence[str],
    folder: Path,
    log: Path,
    constants: Mapping[str, Any],
    before: Callable[[], None] | None,
) -> None:
    """The child: never returns."""
    code: Any = FAILED_BEFORE
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output = os.open(log, os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # As in a process of its own: text, by lines.
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
        os.chdir(folder)
        for name, value in constants.items():
            module, _, constant = name.partition(":")
            setattr(importlib.import_module(module), constant, value)
        if before is not None:
            before()
        sys.argv = ["scr", *words]
        from scr.cli import main

        code = 0
        main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - a forked child must not return into its parent's code
        traceback.print_exc()
        code = code or 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
