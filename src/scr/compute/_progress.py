"""How long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


class ProgressCount:
    """Adds up work that is done piece by piece."""

    def __init__(
        self, what: str, total: int, on_progress: OnProgress | None, done: int = 0
    ) -> None:
        self._what, self._done, self._total = what, done, max(total, 1)
        self._on_progress = on_progress

    def add(self, count: int) -> None:
        """Report that so much more is done."""
        self._done += count
        if self._on_progress is not None:
            self._on_progress(self._what, min(self._done, self._total), self._total)
