"""A bar for commands that make many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scr.cli.console import console


@contextmanager
def counted(title: str, runs: int) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Count finished runs and name the last one.

    Args:
        title: What is being done, such as `Sweeping`.
        runs: How many runs there are at most; those that are done already are not counted again.

    Yields:
        The function to call with each finished run.
    """
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(title, total=runs, state="")

        def on_run(run: Mapping[str, Any]) -> None:
            state = f"{run['encoder']} {run['regularizer']} seed {run['seed']}"
            progress.update(bar, advance=1, state=state)

        yield on_run
