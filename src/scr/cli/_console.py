"""Where the command line prints: results to stdout, errors and warnings to stderr.

A terminal gets colors and tables that fit it. A pipe or a file gets every sentence and every row
of a table on one line, however long, so that paths and numbers can be searched for and parsed.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
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
    """Print a table whose names are there to be copied.

    Args:
        table: Of any kind.
        width: Columns that it needs; a narrower terminal wraps its lines, not its cells.
    """
    LineConsole(width=max(console.width, width)).print(table)


def print_line(text: str, mark: tuple[str, str] = ("", ""), *, to: Console = console) -> None:
    """Print a text that is never wrapped, so that its paths can be copied and searched for.

    Args:
        text: With paths, or a message.
        mark: What stands before it, and its style.
        to: Standard output or standard error.
    """
    to.print(Text.assemble(mark, text), soft_wrap=True)


def print_error(message: str, hint: str | None = None) -> None:
    """Print one message and what to do about it."""
    print_line(message, ("error: ", "bold red"), to=error_console)
    if hint is not None:
        print_line(hint, ("hint: ", "bold cyan"), to=error_console)


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
    """A table with a line below its headings.

    Args:
        headings: Of all columns.
        numbers: Headings of the columns that are aligned to the right.
        **settings: Of rich's table.
    """
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
