"""Read JSON files of ours, with one sentence for everything that can be wrong with one.

run = read_object(path, fields={"seed": int, "graph.class_names": list[str], "subsets?": list})
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from scr.errors import StoreError
from scr.storage._load import check_plain

_NAMES = {
    dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number",
    bool: "true or false", NoneType: "null",
}  # fmt: skip
_LARGEST = 2**63
"""Whole numbers beyond it are of no use to any array."""


def read_json(path: Path, *, what: str = "file") -> Any:
    """The content of a JSON file.

    Raises:
        StoreError: It is missing or cannot be read as JSON; `what` says what it is in the message.
    """
    try:
        check_plain(path)
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"The {what} `{path}` cannot be read: it does not exist") from None
    except OSError as error:
        raise StoreError(f"The {what} `{path}` cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise StoreError(f"The {what} `{path}` is damaged: it is no UTF-8 text") from None
    except RecursionError:
        raise StoreError(f"The {what} `{path}` is damaged: it is nested too deeply") from None
    except ValueError as error:
        raise StoreError(f"The {what} `{path}` cannot be read as JSON: {error}") from None


def read_object(
    path: Path, *, what: str = "file", fields: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of a JSON file that holds an object; `fields` as of `check_fields`."""
    content = read_json(path, what=what)
    if not isinstance(content, dict):
        raise StoreError(f"`{path}` holds {named(content)}; expected a JSON object")
    check_fields(path, content, fields or {})
    return content


def check_fields(path: Path, content: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Raise a `StoreError` that names the file and the first field that is missing or wrong.

    Args:
        path: Of the file.
        content: What was read from it.
        fields: Types by name, such as ``list[str]`` or ``float | None``; `a.b` is in the object
            `a`, and a name with a question mark at its end may be missing.
    """
    for name, kind in fields.items():
        *outer, last = name.removesuffix("?").split(".")
        table: Any = content
        for part in outer:
            table = table.get(part) if isinstance(table, Mapping) else None
        if not isinstance(table, Mapping) or last not in table:
            if name.endswith("?"):
                continue
            raise StoreError(f"`{path}` has no `{name}`; expected {_expected(kind)} there")
        if not _is(table[last], kind):
            raise StoreError(
                f"`{path}` has {named(table[last])} as `{name.removesuffix('?')}`; expected "
                f"{_expected(kind)}"
            )


def named(value: Any) -> str:
    """What kind of JSON value it is, in words."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"the number {value}" if abs(value) < _LARGEST else "a number beyond all bounds"
    return _NAMES.get(type(value), type(value).__name__)


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if isinstance(kind, UnionType):
        return any(_is(value, each) for each in get_args(kind))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(_is(each, inner[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is(each, inner[1]) for each in value.values())
    if kind in (int, float):
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        return is_number and abs(value) < _LARGEST and math.isfinite(value)
    return isinstance(value, NoneType if kind is None else kind)


def _expected(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_expected(each) for each in get_args(kind))
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (list, dict):
        return f"{_NAMES[origin]} of {_plural(inner[-1])}"
    return _NAMES.get(kind, "something")


def _plural(kind: Any) -> str:
    if get_origin(kind) in (list, dict):
        name, _, rest = _expected(kind).removeprefix("a ").removeprefix("an ").partition(" of ")
        return f"{name}s of {rest}"
    words = _expected(kind).partition(" ")
    return f"{words[2]}s" if words[0] in ("a", "an") else " ".join(filter(None, words))
