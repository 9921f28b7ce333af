"""Functions that take turns in one process, and answer each other in the middle of their work.

Each has a thread of its own, but only one of them runs at any time: until it asks or ends, then the
next one. So they need no locks, and what they do does not depend on how fast each is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")
Ask = Callable[[Any], Any]


def take_turns(
    functions: Sequence[Callable[[Ask], Result]], answer: Callable[[list[Any]], Any]
) -> list[Result]:
    """Run functions that ask equally often.

    Args:
        functions: Each is called with `ask`, which waits for an answer.
        answer: From what all functions ask, in their order, to what each of them is answered.
    """
    turns = [_Turn(function) for function in functions]
    try:
        said = [turn.resume(None) for turn in turns]
        while not turns[0].has_ended:
            whole = answer(said)
            said = [turn.resume(whole) for turn in turns]
        return said
    finally:
        for turn in turns:
            turn.stop()


class _Stopped(BaseException):
    """Ends a function that waits for an answer which does not come."""


class _Turn:
    def __init__(self, function: Callable[[Ask], Any]) -> None:
        self.has_ended = False
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._said: SimpleQueue[Any] = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def resume(self, answer: Any) -> Any:
        """What the function asks next, or its result."""
        self._answers.put(answer)
        said = self._said.get()
        if self._failure is not None:
            raise self._failure
        return said

    def stop(self) -> None:
        self._answers.put(_Stopped())
        self._thread.join()

    def _run(self, function: Callable[[Ask], Any]) -> None:
        result = None
        try:
            self._answer()
            result = function(self._ask)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where the turn was given
            self._failure = error
        self.has_ended = True
        self._said.put(result)

    def _ask(self, question: Any) -> Any:
        self._said.put(question)
        return self._answer()

    def _answer(self) -> Any:
        answer = self._answers.get()
        if isinstance(answer, _Stopped):
            raise answer
        return answer
