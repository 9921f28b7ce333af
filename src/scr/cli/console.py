"""Where the command line prints: results to stdout, errors and warnings to stderr."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scr.errors import SCRError

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


def print_error(message: str, hint: str | None = None) -> None:
    """Print one message and what to do about it; never wrapped, so that it can be searched for."""
    error_console.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    if hint is not None:
        error_console.print(Text.assemble(("hint: ", "bold cyan"), hint), soft_wrap=True)


def print_scr_error(error: SCRError) -> None:
    """Print an error that the user can mend."""
    print_error(error.message if hasattr(error, "message") else str(error), error.hint)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print warnings of this package as one line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = Text.assemble(("warning: ", "bold yellow"), str(message))
        error_console.print(text, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def facts(rows: list[tuple[str, str]]) -> Table:
    """A small table of names and values without lines."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table
