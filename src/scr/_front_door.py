"""How a package shows its public names: listed once, imported when they are first used.

A package's `__init__` imports its names under `if TYPE_CHECKING:`, where type checkers and readers
find them, and has ``__all__, __getattr__, __dir__ = front_door(__name__)`` under its `else:`.
Nothing is imported before it is needed, so `import scr` is instant.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def front_door(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """What a package's `__init__` lists, as `__all__`, `__getattr__` and `__dir__`."""
    module = sys.modules[package]
    homes = listed(Path(str(module.__file__)).read_text(encoding="utf-8"))

    def attribute(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
            setattr(module, name, value)
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(module), *homes})

    return sorted(homes), attribute, names


def listed(source: str) -> dict[str, str]:
    """Names and the modules they are imported from, in the block for type checkers."""
    return {
        alias.name: statement.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
