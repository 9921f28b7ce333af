"""Where the command line prints: results to stdout, errors and warnings to stderr.

A terminal gets colors and tables that fit it. A pipe or a file gets every sentence and every row
of a table on one line, however long, so that paths and numbers can be searched for and parsed.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
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
from rich.table import Table
from rich.text import Text

from scr import compute

UNBOUNDED = 1_000_000
"""Columns of a line that no terminal shows: more than any line has."""
# Brackets and colons in paths and names are text, neither styles nor emoji.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


class LineConsole(Console):
    """Prints text as it is; only where a terminal shows them are lines wrapped to its width."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**_PLAIN, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as rich does to a terminal, and line by line to everything else."""
        if not self.file.isatty():
            objects, settings = (_unwrapped(objects),), {"soft_wrap": True}
        super().print(*objects, **settings)


def _unwrapped(objects: tuple[Any, ...]) -> str:
    """What rich makes of texts and tables where lines never end, without spaces at their ends."""
    written = io.StringIO()
    page = Console(file=written, width=UNBOUNDED, color_system=None, **_PLAIN)
    for each in objects:
        if not isinstance(each, Table):
            page.print(each)
            continue
        # A title and a caption are wrapped to the width of their table.
        bare = copy.copy(each)
        bare.title = bare.caption = None
        for part in (each.title, bare, each.caption):
            if part is not None:
                page.print(part)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


console = LineConsole()
error_console = LineConsole(stderr=True)


def print_wide(table: Table, width: int) -> None:
    """Print a table in at least `width` columns: a narrower terminal wraps lines, not cells."""
    LineConsole(width=max(console.width, width)).print(table)


def print_line(text: str, mark: tuple[str, str] = ("", ""), *, to: Console = console) -> None:
    """Print a text, after a mark and its style, never wrapped, so that paths can be copied."""
    to.print(Text.assemble(mark, text), soft_wrap=True)


def print_error(message: str, hint: str | None = None, *, as_json: bool = False) -> None:
    """Print an error and what to do about it; on stdout too, for programs that read JSON there."""
    print_line(message, ("error: ", "bold red"), to=error_console)
    if hint is not None:
        print_line(hint, ("hint: ", "bold cyan"), to=error_console)
    if as_json:
        print_json({"error": message, "hint": hint})


def print_json(content: Mapping[str, Any]) -> None:
    """Print a JSON object on one line of stdout; NaN and infinity become `null`."""
    sys.stdout.write(json.dumps(_plain(content), allow_nan=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """A value as JSON has it: a path is text, NumPy's numbers and arrays are Python's.

    >>> _plain({"run": Path("runs/one"), "loss": float("nan"), "hops": (1, 2)})
    {'run': 'runs/one', 'loss': None, 'hops': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"a report holds {value!r}, which JSON has no form for")


def print_notes(notes: Iterable[str]) -> None:
    """Print what to know about a result, below it."""
    for note in notes:
        print_line(f"{note}.", ("Note: ", "yellow"))


def print_warning(warning: str) -> None:
    """Print what may make a result less than it seems, beside it on standard error."""
    print_line(warning, ("warning: ", "bold yellow"), to=error_console)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print warnings of this package as one line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_warning(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def size(count: int) -> str:
    """Bytes, exactly and as people read them."""
    return f"{count:,} bytes ({compute.readable_bytes(count)})"


def table(headings: Sequence[str], *, numbers: Sequence[str] = (), **settings: Any) -> Table:
    """A table with a line below its headings; columns of `numbers` are aligned to the right."""
    lined = Table(box=box.SIMPLE_HEAD, **settings)
    for heading in headings:
        lined.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    return lined


def facts(rows: list[tuple[str, str]]) -> Table:
    """A small table of names and values without lines."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _progress(*columns: ProgressColumn) -> Progress:
    """Bars on a terminal; to a pipe they would print an empty line."""
    is_shown = console.is_interactive
    return Progress(*columns, console=console, transient=True, disable=not is_shown)


@contextmanager
def counted(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar that counts runs or epochs and disappears at the end.

    Yields a function of what is new: `total`, `completed`, `advance`, or `state`, what to say
    about the last run or epoch.
    """
    state = TextColumn("{task.fields[state]}", markup=False)
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), state)
    with _progress(*columns) as progress:
        yield functools.partial(progress.update, progress.add_task(title, total=total, state=""))


@contextmanager
def steps_progress(*columns: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for each step of a long work, with `columns` beside it, else percent and time.

    Yields the callback of the work: what is being done, how much of it is done, and of how much.
    """
    beside = columns or (TaskProgressColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    step = TextColumn("{task.description}", markup=False)
    with _progress(step, BarColumn(), *beside) as progress:
        tasks: dict[str, TaskID] = {}

        def on_progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield on_progress
