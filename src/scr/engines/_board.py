"""What workers that compute together and their caller leave for each other.

It is the state of an actor. Messages and results are bytes to it, so that its process starts
without torch.
"""

from __future__ import annotations

MOST_STARTS = 4
"""Of the workers without progress between them: beyond these, what they do ends them."""


class Board:
    """What workers and the caller leave for each other."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.is_stopped = False
        self.starts = self.furthest = 0
        self.noted: str | None = None
        """The last error of a worker that may have been lost through another one."""
        self.outcome: tuple[str, bytes | str | None] = "running", None
        """`running`; `finished` with a result; `error` with an exception; or `lost` with a text."""

    def begin(self) -> bool:
        """Whether a group of workers may begin."""
        self.starts += 1
        if self.starts > MOST_STARTS and self.outcome[0] == "running":
            reason = "" if self.noted is None else f"; the last error of one was\n\n{self.noted}"
            text = f"Workers were lost {MOST_STARTS} times in a row without progress"
            self.outcome = "lost", f"{text}{reason}"
        return self.outcome[0] == "running"

    def send(self, message: bytes, progress: int) -> None:
        """Take a message; what workers that began anew repeat is no progress."""
        self.messages.append(message)
        if progress > self.furthest:
            self.starts, self.furthest = 1, progress

    def stops(self) -> bool:
        """Whether the workers should stop."""
        return self.is_stopped

    def take(self, stop: bool) -> tuple[list[bytes], bool]:
        """Hand over messages, and whether workers have begun; ask these to stop, or not."""
        self.is_stopped = self.is_stopped or stop
        taken, self.messages = self.messages, []
        return taken, self.starts > 0

    def note(self, text: str) -> None:
        """Remember an error."""
        self.noted = text

    def end(self, kind: str, value: bytes) -> None:
        """Take a result, or an error that a new start would only repeat; the first one counts."""
        if self.outcome[0] == "running":
            self.outcome = kind, value

    def result(self) -> tuple[str, bytes | str | None]:
        """How it ended."""
        return ("lost", self.noted) if self.outcome[0] == "running" else self.outcome
