"""Settings: frozen dataclasses filled from TOML tables, keywords or `section.key=value`.

A section is a frozen dataclass that checks itself when it is made. `build` fills one from plain
values and names every wrong key and type at once, so that nobody mends a recipe one error per run.
The dataclasses live beside the code they steer; this module only knows how to fill them.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import itertools
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from scr.errors import ConfigError, ConfigErrors, SourceError

Section = TypeVar("Section")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip


def build(
    section_class: type[Section],
    values: Mapping[str, Any],
    *,
    section: str,
    elsewhere: Mapping[str, str] | None = None,
) -> Section:
    """Make one section from plain values; every wrong key and type is named in one error.

    Args:
        section_class: A frozen dataclass.
        values: Keys and plain values, as from TOML.
        section: Its name, for messages such as ``training.epochs``.
        elsewhere: Hints for names that are not of this section and that people look for in it.
    """
    hints = typing.get_type_hints(section_class)
    fields = {field.name for field in dataclasses.fields(section_class) if field.init}  # type: ignore[arg-type]
    errors: list[ConfigError] = []
    kept: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{section}.{key}"
        if key not in fields:
            of_class = getattr(section_class, "unknown_hint", None)
            hint = of_class or (elsewhere or {}).get(key) or _closest(key, fields)
            errors.append(ConfigError(name, value, "a known setting", hint=hint))
            continue
        try:
            kept[key] = _convert(name, value, hints[key])
        except ConfigError as error:
            errors.append(error)
    if not errors:
        try:
            return section_class(**kept)
        except ConfigError as error:
            errors.append(error)
    raise errors[0] if len(errors) == 1 else ConfigErrors(errors)


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """A hint at the closest of some names, if one is close.

    >>> did_you_mean("SCR_M", ["scr", "scr-m"])
    'did you mean `scr-m`?'
    """
    close = difflib.get_close_matches(str(name).lower().replace("_", "-"), list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else None


def _closest(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"the settings here are {', '.join(sorted(known))}"


def _convert(name: str, value: Any, hint: Any) -> Any:
    """Check one plain value against a type hint; integers pass as floats, lists as tuples."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return _convert(name, value, option)
            except ConfigError:
                continue
        raise ConfigError(name, value, _describe(hint))
    if origin is typing.Literal:
        if value not in arguments or (isinstance(value, bool) and True not in arguments):
            raise ConfigError(name, value, _describe(hint))
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(name, value, "a list")
        return tuple(_convert(name, item, arguments[0]) for item in value)
    if hint is type(None) and (value is None or value == "none"):
        return None
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint in (bool, str) and isinstance(value, hint):
        return value
    raise ConfigError(name, value, _describe(hint))


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if hint is type(None):
        return "`none`"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(hint, "a list" if origin is tuple else str(hint))


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a section, for people."""

    name: str
    default: Any
    expected: str
    """What it may be, in words."""
    meaning: str
    """The text below the field; empty where it has none or the code is not at hand."""


def list_settings(section_class: type[Any]) -> list[Setting]:
    """All settings of a section, the more general ones first.

    Args:
        section_class: A frozen dataclass whose fields are explained by a text below each.
    """
    hints, texts = typing.get_type_hints(section_class), _field_texts(section_class)
    found = []
    for field in dataclasses.fields(section_class):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        text = texts.get(field.name, "")
        found.append(Setting(field.name, default, _describe(hints[field.name]), text))
    return found


def _field_texts(section_class: type[Any]) -> dict[str, str]:
    """The text below each field, of the class and of those that it is made from."""
    texts: dict[str, str] = {}
    for part in reversed(section_class.__mro__[:-1]):
        try:
            module = ast.parse(inspect.getsource(sys.modules[part.__module__]))
        except (OSError, KeyError):
            continue  # Python keeps no text of what it runs
        bodies = (
            node.body
            for node in module.body
            if isinstance(node, ast.ClassDef) and node.name == part.__name__
        )
        for field, below in itertools.chain.from_iterable(map(itertools.pairwise, bodies)):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = _text(below)
                if text:
                    texts[field.target.id] = text
    return texts


def _text(statement: ast.stmt) -> str:
    """The words of a statement that is a text by itself."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return " ".join(value.value.split()) if is_text else ""  # type: ignore[union-attr]


def parse_assignment(text: str) -> tuple[str, str, Any]:
    """Split ``section.key=value`` as `--set` takes it; the value is read as TOML, else as text.

    >>> parse_assignment("consistency.weight=0.5")
    ('consistency', 'weight', 0.5)
    >>> parse_assignment("propagation.norm=row")
    ('propagation', 'norm', 'row')
    """
    left, equals, right = text.partition("=")
    section, dot, key = left.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError("--set", text, "`section.key=value`, such as `training.epochs=100`")
    try:
        value = tomllib.loads(f"value = {right.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = right.strip()
    return section, key, value


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file, with the file's name in any complaint."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SourceError(f"There is no file at `{path}`; expected a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"`{path}` is not valid TOML: {error}") from None


def parse_bytes(text: str | int, *, setting: str = "memory") -> int:
    """Read a size such as ``4GiB``, ``512MB`` or ``1000000``.

    >>> parse_bytes("4GiB")
    4294967296
    """
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    if match is None or match[2] not in _UNITS:
        raise ConfigError(setting, text, "a size such as `4GiB` or `512MB`")
    return int(float(match[1]) * _UNITS[match[2]])


def check(condition: bool, setting: str, found: object, expected: str) -> None:
    """Raise a `ConfigError` unless `condition` holds; for ``__post_init__`` of sections."""
    if not condition:
        raise ConfigError(setting, found, expected)
