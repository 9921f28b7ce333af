"""What workers on a Ray cluster print: kept by worker, to be shown with the error of one.

Ray would print every line of every worker into the terminal, between lines of progress.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

MOST_LINES = 20
"""Of one worker."""
PATIENCE_SECONDS = 1.5
"""That the last lines of a worker may be on their way; Ray looks for them a few times a second."""
_NAME = "scr"


class Output:
    """The last lines of all workers."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], deque[str]] = {}

    def listen(self, *, silent: bool) -> None:
        """Keep lines from now on; `silent`: they are no longer printed by Ray."""
        dispatcher = _dispatcher()
        if dispatcher is not None:
            if silent:
                dispatcher.remove_handler("ray_print_logs")
            dispatcher.add_handler(_NAME, self._keep)

    def close(self) -> None:
        """Keep no further lines."""
        dispatcher = _dispatcher()
        if dispatcher is not None:
            dispatcher.remove_handler(_NAME)

    def tail(self, address: str, process: int) -> str:
        """The last lines of one worker."""
        ends = time.monotonic() + PATIENCE_SECONDS
        known = -1
        while time.monotonic() < ends:
            lines = self._lines.get((address, process), ())
            if lines and len(lines) == known:
                break
            known = len(lines)
            time.sleep(PATIENCE_SECONDS / 5)
        return "\n".join(self._lines.get((address, process), ()))

    def _keep(self, batch: dict[str, Any]) -> None:
        try:
            worker = str(batch["ip"]), int(batch["pid"])
        except (KeyError, ValueError):  # of Ray itself
            return
        kept = self._lines.setdefault(worker, deque(maxlen=MOST_LINES))
        kept.extend(line for line in batch["lines"] if not line.startswith(":"))  # Ray's marks


def _dispatcher() -> Any:
    """Of lines that workers print, in versions of Ray that have it."""
    try:
        from ray._private.ray_logging import global_worker_stdstream_dispatcher
    except ImportError:
        return None
    return global_worker_stdstream_dispatcher
