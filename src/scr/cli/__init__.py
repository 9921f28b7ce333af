"""The command line: `scr COMMAND`; each command is a function in the module of its name.

Commands import what they need when they run, so that `scr --help` answers at once. An error that
the user can fix is one message on stderr and exit code 2; `--debug` shows the traceback instead.
What a command returns is what `--json` prints; `_ending.py` has more.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from scr import __version__, compute
from scr.cli._console import UNBOUNDED, print_error, print_json, print_line, printed_warnings
from scr.cli._ending import INTERRUPTED, JSON, NOTHING_WRITTEN, Stopped, reporting
from scr.cli._hints import with_command
from scr.errors import SCRError

BAD_INPUT = 2
"""Exit code of everything that the user can fix, as for unknown options."""
UNEXPECTED = 1
COLLECTED = 200_000
"""Objects between two searches for garbage: modules that load make many and leave none, and a short
run would spend a tenth of its time on searches."""
UsageError: Any = typer.BadParameter.__mro__[1]
"""What every wrong line raises; newer versions of typer do not have it from click."""

_COMMANDS = (
    "demo", "fit", "ingest", "propagate", "train", "tune", "predict", "serve", "suggest", "smooth",
    "compare", "sweep", "learning-curve", "efficiency", "encoders", "regularizers", "synth",
    "report", "verify", "recipes", "reproduce", "download", "export",
)  # fmt: skip


class _Commands(TyperGroup):
    """Turns errors and Ctrl-C into messages, and takes `--debug` anywhere on the line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        if not sys.stdout.isatty():
            settings["terminal_width"] = UNBOUNDED  # each option's help on one line
        return super().make_context(*args, **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[JSON] = JSON in args
        if "--debug" in args:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        as_json = ctx.meta[JSON]
        try:
            with printed_warnings():
                return super().invoke(ctx)
        except SCRError as error:
            if ctx.params.get("debug") or compute.is_out_of_memory(error):
                raise
            shown = with_command(error)
            print_error(shown.message, shown.hint, as_json=as_json)
            raise typer.Exit(BAD_INPUT) from None
        except UsageError as error:
            if not as_json:
                raise
            print_error(error.format_message(), as_json=True)
            raise typer.Exit(BAD_INPUT) from None
        except (KeyboardInterrupt, Stopped) as stop:
            sentence = str(stop) or NOTHING_WRITTEN
            if as_json:
                print_json({"error": sentence, "hint": None})
            else:
                print_line(sentence)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="scr",
    cls=_Commands,
    no_args_is_help=True,
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
    _function = _name.replace("-", "_")
    _module = importlib.import_module(f"scr.cli.commands.{_function}")
    app.command(_name)(reporting(getattr(_module, _function)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line as the console script does; no arguments: those of the process."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    gc.set_threshold(COLLECTED, 20, 20)
    try:
        app(args=given, prog_name="scr")
    except Exception as error:  # everything that no command expected
        if "--debug" in given:
            raise
        as_json = JSON in given
        if compute.is_out_of_memory(error):
            _end_without_memory(error, as_json)
        if isinstance(error, OSError):
            print_error(_system_error(error), as_json=as_json)
            sys.exit(BAD_INPUT)
        message = f"unexpected {type(error).__name__}: {error}"
        print_error(message, "run again with `--debug`", as_json=as_json)
        sys.exit(UNEXPECTED)


def _system_error(error: OSError) -> str:
    """What the system said, with the file that it is about."""
    if error.filename is None or error.strerror is None:
        return str(error)
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return f"`{name}` cannot be used: {error.strerror}"


def _end_without_memory(error: Exception, as_json: bool) -> NoReturn:
    """Say that memory ran out, and end at once.

    Libraries whose threads could not be started would wait for them for ever at the usual end.
    """
    error.__traceback__ = error.__context__ = None  # whose frames hold what took the memory
    try:
        lack = compute.out_of_memory(error)
        print_error(lack.message, lack.hint, as_json=as_json)
        sys.stdout.flush()
    except MemoryError:
        os.write(2, b"error: Memory ran out\n")
    os._exit(BAD_INPUT)
