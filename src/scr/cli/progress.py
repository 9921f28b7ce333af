"""A bar for commands that make many runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from scr.cli.console import console


@dataclass(frozen=True)
class RunBar:
    """Counts finished runs and names the last one."""

    progress: Progress
    bar: TaskID

    def expect(self, runs: int) -> None:
        """Say how many runs are to be made; those that are done already are not among them."""
        self.progress.update(self.bar, total=runs)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Count one run."""
        state = f"{run['encoder']} {run['regularizer']} seed {run['seed']}"
        self.progress.update(self.bar, advance=1, state=state)


@contextmanager
def counted(title: str) -> Iterator[RunBar]:
    """A bar that is taken away at the end.

    Args:
        title: What is being done, such as `Sweeping`.
    """
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield RunBar(progress, progress.add_task(title, total=None, state=""))
