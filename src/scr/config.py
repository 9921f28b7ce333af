"""Settings: frozen dataclasses filled from TOML tables, keywords or `section.key=value`.

A section is a frozen dataclass whose types hold all bounds and choices, and which checks its values
against them when it is made. `build` fills one from plain values and names every wrong key and type
at once, so that nobody fixes a recipe one error per run. The dataclasses live beside the code that
they steer; this module only knows how to check and fill them.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import inspect
import itertools
import math
import numbers
import re
import textwrap
import tomllib
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from scr.errors import ConfigError, ConfigErrors, SourceError

Section = TypeVar("Section")

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text",
          type(None): "`none`"}  # fmt: skip
_ACCEPTED = {int: numbers.Integral, float: numbers.Real, bool: bool, str: str}

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a finite number, as a note in its type: ``Annotated[float, Range(0, 1)]``."""

    low: float
    high: float = math.inf
    ends: Literal["[]", "[)", "(]", "()"] = "[]"
    """Whether each bound itself is allowed."""

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.ends[0] == "(" else value >= self.low
        below = value < self.high if self.ends[1] == ")" else value <= self.high
        return above and below and math.isfinite(value)

    def __str__(self) -> str:
        if self.high < math.inf:
            return f"in {self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}"
        return f"{'above' if self.ends[0] == '(' else 'of at least'} {self.low:g}"


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Share = Annotated[float, Range(0, 1)]
Chance = Annotated[float, Range(0, 1, "[)")]
Positive = Annotated[float, Range(0, ends="(]")]
NonNegative = Annotated[float, Range(0)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of sections: every value is checked against its field's type when one is made.

    Rules between several fields stand in ``__post_init__`` of the section, after this one's.
    """

    section: ClassVar[str]
    """Its name, for messages such as ``training.epochs``."""

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        checked, errors = _check_values(type(self), values, self.section)
        _raise_all(errors)
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def build(
    section_class: type[Section],
    values: Mapping[str, Any],
    *,
    section: str,
    elsewhere: Callable[[str], str | None] = lambda key: None,
) -> Section:
    """Make one section from plain values; every wrong key and type is named in one error.

    Args:
        section_class: A frozen dataclass.
        values: Keys and plain values, as from TOML.
        section: Its name, for messages such as ``training.epochs``.
        elsewhere: A hint for a name that is not of this section, if people look for it there.
    """
    known = sorted(_type_hints(section_class))
    of_class = getattr(section_class, "unknown_hint", None)
    unknown = [
        ConfigError(
            f"{section}.{key}",
            value,
            "a known setting",
            hint=of_class
            or elsewhere(key)
            or did_you_mean(key, known)
            or f"the settings here are {', '.join(known)}",
        )
        for key, value in values.items()
        if key not in known
    ]
    checked, errors = _check_values(
        section_class, {key: value for key, value in values.items() if key in known}, section
    )
    _raise_all(unknown + errors)
    return section_class(**checked)


def _type_hints(section_class: type[Any]) -> dict[str, Any]:
    """The type of each field, with its bounds."""
    return _read_hints(cast(Hashable, section_class))


@cache
def _read_hints(section_class: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(section_class, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(section_class)}


def _check_values(
    section_class: type[Any], values: Mapping[str, Any], section: str
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Values in the types of their fields, and what is wrong with the others."""
    hints, checked, errors = _type_hints(section_class), {}, []
    for key, value in values.items():
        try:
            checked[key] = check_value(f"{section}.{key}", value, hints[key])
        except ConfigError as error:
            errors.append(error)
    return checked, errors


def _raise_all(errors: list[ConfigError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """A hint at the closest of some names, if one is close.

    >>> did_you_mean("SCR_M", ["scr", "scr-m"])
    'did you mean `scr-m`?'
    """
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else None


def check_value(name: str, value: Any, hint: Any) -> Any:
    """Check one plain value against a type; integers pass as floats, lists as tuples.

    Args:
        name: Of the setting, for the message.
        value: As a user gave it.
        hint: A type, perhaps with a `Range`, a `Literal`, or a union of such.

    Returns:
        The value in that type.

    >>> check_value("rate", 1, Share)
    1.0
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            with contextlib.suppress(ConfigError):
                return check_value(name, value, option)
    elif origin is Annotated:
        with contextlib.suppress(ConfigError):
            number = check_value(name, value, arguments[0])
            if number in arguments[1]:
                return number
    elif origin is Literal:
        if value in arguments and (not isinstance(value, bool) or True in arguments):
            return value
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(check_value(name, item, arguments[0]) for item in value)
    elif hint is type(None):
        if value is None or value == "none":
            return None
    elif isinstance(value, _ACCEPTED[hint]) and isinstance(value, bool) == (hint is bool):
        return hint(value)
    raise ConfigError(name, value, _describe(hint))


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is Annotated:
        return f"{_describe(arguments[0])} {arguments[1]}"
    if origin is Literal:
        choices = ", ".join(f"`{value}`" for value in arguments)
        return choices if len(arguments) == 1 else f"one of {choices}"
    if origin is tuple:
        is_bounded = typing.get_origin(arguments[0]) is Annotated
        return f"a list, each {_describe(arguments[0])}" if is_bounded else "a list"
    return _NAMES[hint]


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
    hints, texts = _type_hints(section_class), _field_texts(section_class)
    settings = []
    for field in dataclasses.fields(section_class):
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        text = texts.get(field.name, "")
        settings.append(Setting(field.name, default, _describe(hints[field.name]), text))
    return settings


def _field_texts(section_class: type[Any]) -> dict[str, str]:
    """The text below each field, of the class and of those that it is made from."""
    texts: dict[str, str] = {}
    for part in reversed(section_class.__mro__[:-1]):
        try:
            definition = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        except (OSError, TypeError):
            continue  # Python keeps no text of what it runs
        assert isinstance(definition, ast.ClassDef)
        for pair in itertools.pairwise(definition.body):
            match pair:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


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
        raise ConfigError("setting", text, "`section.key=value`, such as `training.epochs=100`")
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
        raise SourceError(f"`{path}` does not exist; expected a TOML file") from None
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
    """Raise a `ConfigError` unless `condition` holds; for rules that no type can state."""
    if not condition:
        raise ConfigError(setting, found, expected)
