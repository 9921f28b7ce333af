"""Where the command line prints: results to stdout, errors and warnings to stderr.

A terminal gets colors and tables that fit it. A pipe or a file gets every sentence and every row
of a table on one line, however long, so that paths and numbers can be searched for and parsed.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scr.errors import SCRError

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


def print_error(message: str, hint: str | None = None) -> None:
    """Print one message and what to do about it; never wrapped, so that it can be searched for."""
    error_console.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    if hint is not None:
        error_console.print(Text.assemble(("hint: ", "bold cyan"), hint), soft_wrap=True)


def print_note(note: str) -> None:
    """Print what to know about a result, below it."""
    console.print(Text.assemble(("Note: ", "yellow"), f"{note}."), soft_wrap=True)


def print_warning(warning: str) -> None:
    """Print what may make a result less than it seems, beside it on standard error."""
    error_console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)


def print_scr_error(error: SCRError) -> None:
    """Print an error that the user can fix."""
    print_error(error.message if hasattr(error, "message") else str(error), error.hint)


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
    from scr.compute import readable_bytes

    return f"{count:,} bytes ({readable_bytes(count)})"


def facts(rows: list[tuple[str, str]]) -> Table:
    """A small table of names and values without lines."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table
