"""Write the reference pages from the code when the documentation is built.

A page says `<!-- names: scr.graph -->` and gets every public name of that package; the page of the
command line says `<!-- commands -->` and gets every command. Neither can fall behind the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scr._front_door import listed

SOURCE = Path(__file__).parents[2] / "src"
NAMES = re.compile(r"<!-- names: ([\w.]+) -->")
COMMANDS = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of a page."""
    markdown = NAMES.sub(lambda match: "\n".join(_names_of(match[1])), markdown)
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(_commands()))
    return markdown


def _names_of(package: str) -> Iterator[str]:
    """Every name at the front door of a package, with the front doors of packages inside it."""
    door = SOURCE.joinpath(*package.split("."), "__init__.py")
    inner = sorted(path.parent for path in door.parent.glob("*/__init__.py"))
    homes = listed(door.read_text(encoding="utf-8"))
    for name, module in sorted(homes.items()):
        if name.isupper():
            continue  # a constant
        yield f"## {package}.{name} {{: .module }}\n"
        yield f"::: {module}.{name}\n    options:"
        yield "      show_root_heading: false\n      show_root_toc_entry: false\n"
    for folder in inner:
        yield from _names_of(".".join(folder.relative_to(SOURCE).parts))


def _commands() -> Iterator[str]:
    import typer

    from scr.cli import app

    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        yield f"## scr {name}\n"
        yield f"{_plain(command.help)}\n"
        yield f"```text\nscr {name} {_usage(command)}\n```\n"
        yield "| option | meaning |\n| --- | --- |"
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                yield f"| {_names(parameter)} | {_meaning(parameter)} |"
        yield ""


def _usage(command: Any) -> str:
    places = [_place(parameter) for parameter in command.params if _is_argument(parameter)]
    return " ".join([*places, "[OPTIONS]"])


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _place(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return f"{name}..." if parameter.nargs != 1 else name


def _names(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{_place(parameter)}`"
    return ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _meaning(parameter: Any) -> str:
    text = _plain(getattr(parameter, "help", None)).replace("|", "\\|")
    default = parameter.default
    if isinstance(default, (str, int, float, Path)) and not isinstance(default, bool):
        return f"{text} Default: `{default}`."
    return text


def _plain(text: str | None) -> str:
    return (text or "").strip()
