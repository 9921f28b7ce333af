"""Bars for commands that take long: many runs, or one work of several steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from scr.cli._console import console


@contextmanager
def counted(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar that counts runs or epochs and disappears at the end.

    Args:
        title: What is being done, such as `Sweeping`.
        total: How many runs or epochs; none: not known yet.

    Yields:
        A function of what is new: `total`, `completed`, `advance`, or `state`, what to say about
        the last run or epoch.
    """
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield functools.partial(progress.update, progress.add_task(title, total=total, state=""))


@contextmanager
def steps_progress(*columns: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar with time left for each step of a long work.

    Args:
        *columns: What stands beside each bar; none: percent and time.

    Yields:
        The callback of the work: what is being done, how much of it is done, and how much there is.
    """
    beside = columns or (TaskProgressColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    step = TextColumn("{task.description}", markup=False)
    with Progress(step, BarColumn(), *beside, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def on_progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield on_progress
