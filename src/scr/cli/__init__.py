"""The command line: `scr COMMAND`; each command is a function in the module of its name.

Commands import what they need when they run, so that `scr --help` answers at once. An error that
the user can fix is one message on stderr and exit code 2; `--debug` shows the traceback instead.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scr import __version__
from scr.cli._console import UNBOUNDED, print_error, printed_warnings
from scr.cli._hints import with_command
from scr.errors import SCRError

BAD_INPUT = 2
"""Exit code of everything that the user can fix, as for unknown options."""
UNEXPECTED = 1

_COMMANDS = (
    "demo", "ingest", "propagate", "train", "tune", "predict", "smooth", "compare", "sweep",
    "efficiency", "encoders", "regularizers", "synth", "report", "verify", "recipes", "reproduce",
    "download",
)  # fmt: skip


class _Commands(TyperGroup):
    """Turns errors into messages, and takes `--debug` anywhere on the line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        if not sys.stdout.isatty():
            settings["terminal_width"] = UNBOUNDED  # each option's help on one line
        return super().make_context(*args, **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with printed_warnings():
                return super().invoke(ctx)
        except SCRError as error:
            if ctx.params.get("debug"):
                raise
            shown = with_command(error)
            print_error(shown.message, shown.hint)
            raise typer.Exit(BAD_INPUT) from None


app = typer.Typer(
    name="scr",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help and in messages are text
    help="Semi-supervised node classification for large graphs, by consistency regularization.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scr {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Read the options that every command has."""


for _name in _COMMANDS:
    app.command(_name)(getattr(importlib.import_module(f"scr.cli.commands.{_name}"), _name))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line as the console script does; no arguments: those of the process."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        app(args=given)
    except Exception as error:  # everything that no command expected
        if "--debug" in given:
            raise
        if isinstance(error, OSError):
            print_error(str(error))
            sys.exit(BAD_INPUT)
        print_error(f"unexpected {type(error).__name__}: {error}", "run again with `--debug`")
        sys.exit(UNEXPECTED)
