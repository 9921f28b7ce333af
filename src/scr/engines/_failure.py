"""What a worker sends where its item did not end in a result."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scr.errors import EngineError, SCRError


@dataclass(frozen=True)
class Failure:
    """An error of an item, as it can be sent to another process."""

    error: BaseException | None
    """None where it cannot be sent."""
    text: str
    """The traceback."""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Take an error that was just caught."""
        text = "".join(traceback.format_exception(error)).rstrip()
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - just written
        except Exception:  # noqa: BLE001 - whatever its class refuses with
            return cls(None, text)
        return cls(error, text)

    def raised(self, output: str = "") -> Exception:
        """What the caller of an engine sees: errors of users as they are, others with their text.

        Args:
            output: What the worker printed last.
        """
        printed = f"\n\nThe worker printed:\n{output}" if output else ""
        if isinstance(self.error, (SCRError, OSError, MemoryError)):
            return self.error
        return EngineError(f"A worker failed with an error of its own.{printed}\n\n{self.text}")

    def raised_as_is(self) -> BaseException:
        """The error itself, with its traceback; for workers of this machine."""
        if self.error is None:
            return self.raised()
        if not isinstance(self.error, SCRError):
            self.error.__cause__ = EngineError(f"\n{self.text}")
        return self.error


def attempt(work: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether some work had a result, and the result or the `Failure`."""
    try:
        return True, work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the item came from
        return False, Failure.of(error)
