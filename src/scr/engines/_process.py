"""A worker that is a process of this machine, and what runs in that process.

Items go in and results come out by two pipes. A process whose parent ends, in whatever manner,
reads the end of its pipe and ends too. It does not import the user's script, which need not have
a guard against that; functions of the script are sent by value.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any

from scr.engines._base import Needs, Start
from scr.engines._dispatch import LostWorkerError, Worker
from scr.engines._failure import Failure, attempt
from scr.engines._threads import VARIABLES, use_threads

_COMMAND = "import sys; sys.path[:] = {path!r}; from scr.engines._process import serve; serve()"
_PATIENCE_SECONDS = 10.0
"""That an idle process may take to end."""


class ProcessWorker(Worker):
    """A process with its two pipes, each served by a thread."""

    def __init__(
        self,
        start: Start[Any, Any],
        shared: Any,
        needs: Needs,
        on_answer: Callable[[ProcessWorker], None],
    ) -> None:
        """Start the process; `on_answer` is called, by a thread, when an item is finished."""
        threads = dict.fromkeys(VARIABLES, str(needs.cores))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND.format(path=sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **threads},
            start_new_session=True,  # a Ctrl-C in the terminal is for the parent alone
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answer: tuple[bool, Any] | None = None
        self._has_ended = False
        self._on_answer = on_answer
        self._waiting.put((needs.cores, start, shared))
        for serve_pipe in (self._send, self._receive):
            threading.Thread(target=serve_pipe, daemon=True).start()

    def assign(self, item: Any) -> None:
        self._waiting.put((item,))
        if self._has_ended:  # while it was idle
            self._on_answer(self)

    def result(self) -> Any:
        if self._answer is None:
            code = self._process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise LostWorkerError(f"a process of this machine, ended by {ended}")
        (succeeded, content), self._answer = self._answer, None
        if not succeeded:
            raise content.raised_as_is()
        return content

    def end(self, *, at_once: bool) -> None:
        self._waiting.put(None)
        if not at_once:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_SECONDS)
        self._process.kill()
        self._process.wait()

    def _send(self) -> None:
        dump = _pickling().dump
        with suppress(OSError), self._requests:  # the process may have ended
            while (message := self._waiting.get()) is not None:
                try:
                    dump(message, self._requests)
                except OSError:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever cannot be sent
                    self._answer = False, Failure.of(error)
                    self._process.kill()
                    return
                self._requests.flush()

    def _receive(self) -> None:
        with self._answers:
            while not self._has_ended:
                try:
                    self._answer = pickle.load(self._answers)  # noqa: S301 - of our own process
                except (EOFError, pickle.UnpicklingError):  # nothing, or a part
                    self._has_ended = True
                except Exception as error:  # noqa: BLE001 - raised where the item came from
                    self._answer = False, Failure.of(error)
                self._on_answer(self)


def serve() -> None:
    """Run items until there are no more; called in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it has no session of its own
    # What a library prints must not come between results.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[tuple[bool, Any] | None] = queue.SimpleQueue()
    is_idle = threading.Event()
    threading.Thread(target=_listen, args=(requests, waiting, is_idle), daemon=True).start()
    setup, jobs = waiting.get(), _Jobs()
    while setup is not None:
        is_idle.set()
        request = waiting.get()
        if request is None:
            return
        is_idle.clear()
        _answer(answers, attempt(partial(jobs.run, setup, request)))


class _Jobs:
    """Runs items; the setup is done with the first, whose error it would be."""

    def __init__(self) -> None:
        self._work: Callable[[Any], Any] | None = None

    def run(self, setup: tuple[bool, Any], request: tuple[bool, Any]) -> Any:
        if self._work is None:
            cores, start, shared = _received(setup)
            use_threads(cores)
            self._work = start(shared)
            use_threads(cores)  # by libraries that were loaded just now
        (item,) = _received(request)
        return self._work(item)


def _received(message: tuple[bool, Any]) -> Any:
    succeeded, content = message
    if not succeeded:
        raise content.raised_as_is()
    return content


def _listen(requests: IO[bytes], waiting: queue.SimpleQueue[Any], is_idle: threading.Event) -> None:
    """Receive messages; without a parent there will be none, and nobody for a result."""
    while True:
        try:
            waiting.put((True, pickle.load(requests)))  # noqa: S301 - of our own parent
        except EOFError:
            break
        except BaseException as error:  # noqa: BLE001 - raised by the item
            waiting.put((False, Failure.of(error)))
            break
    if is_idle.is_set() and waiting.empty():
        waiting.put(None)
    else:
        os._exit(1)


def _pickling() -> Any:
    """What sends functions of a script by value; slow to import, for processes that start none."""
    from joblib.externals.loky.backend import reduction

    return reduction


def _answer(answers: IO[bytes], answer: tuple[bool, Any]) -> None:
    try:
        content = _pickling().dumps(answer)
    except Exception as error:  # noqa: BLE001 - a result that cannot be sent
        content = _pickling().dumps((False, Failure.of(error)))
    answers.write(content)
    answers.flush()
