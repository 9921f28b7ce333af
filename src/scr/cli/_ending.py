"""How a command ends: with what it wrote and measured, or stopped by Ctrl-C; as JSON if asked for.

A command returns a `Report`. With `--json`, which every command gets here, the report is the only
line on stdout, and whatever else is printed goes to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from scr import compute
from scr.cli._console import print_json
from scr.errors import ConfigError

Report: TypeAlias = dict[str, Any]
"""What a command wrote and measured: paths, numbers, names, and lists and tables of them."""
JSON = "--json"
INTERRUPTED = 130
"""Exit code of a command that was stopped from the keyboard, as shells have it."""
NOTHING_WRITTEN = "Stopped; nothing was written."

_JsonOption = Annotated[
    bool, typer.Option(JSON, help="Print the result as one JSON object, all else to stderr.")
]


class Stopped(Exception):
    """A command was stopped from the keyboard; the text says what is left and how to resume."""


@contextmanager
def when_stopped(sentence: str) -> Iterator[None]:
    """Say this if Ctrl-C is pressed within; elsewhere, a command says that nothing was written."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence) from None


def refuse_undecodable(given: Mapping[str, Any]) -> None:
    """Refuse names that are not UTF-8 before any work: records of runs and models cannot have them.

    Python holds such bytes as surrogates.
    """
    for name, value in given.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(each, str | Path):
                continue
            if any("\ud800" <= character <= "\udfff" for character in str(each)):
                shown = os.fsencode(each).decode("utf-8", "backslashreplace")
                raise ConfigError(
                    name,
                    shown,
                    "text in UTF-8",
                    hint="rename the file or folder",
                )


def reporting(command: Callable[..., Report]) -> Callable[..., None]:
    """A command with the option `--json`."""

    @functools.wraps(command)
    def run(*, as_json: bool = False, **given: Any) -> None:
        compute.check_limits()
        refuse_undecodable(given)
        if not as_json:
            command(**given)
            return
        with contextlib.redirect_stdout(sys.stderr):
            report = command(**given)
        print_json(report or {})

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JsonOption
    )
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option], return_annotation=None
    )
    hints = typing.get_type_hints(command, include_extras=True)
    run.__annotations__ = {**hints, "as_json": _JsonOption, "return": None}
    return run
