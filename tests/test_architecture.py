"""The tree keeps its rules: front doors, one direction of imports, rooms that can be read."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "scr"
MOST_FILES = 25
MOST_LINES = 400
COMMANDS = SOURCE / "cli" / "commands"


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def _package(module: str) -> str:
    """The package below `scr` that a module belongs to: `graph` for `scr.graph._edges`."""
    return ".".join(module.split(".")[1:2])


@functools.cache
def _imports(module: str) -> tuple[tuple[str, str], ...]:
    """Modules of ours and the names imported from them, those inside functions included."""
    path = MODULES[module]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_statements(tree, is_door=path.name == "__init__.py"))


def _statements(tree: ast.AST, *, is_door: bool) -> Iterator[tuple[str, str]]:
    """Imports that run; those for type checkers count at front doors alone, which open to them."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not is_door
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module.split(".")[0] == "scr":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("scr"))


def _targets(module: str) -> Iterator[str]:
    """Modules that a module imports; a name at a front door stands for the module behind it."""
    for source, name in _imports(module):
        if f"{source}.{name}" in MODULES:
            yield f"{source}.{name}"
        elif source in MODULES and MODULES[source].name == "__init__.py" and source != module:
            behind = {each: home for home, each in _imports(source)}
            yield behind.get(name, source)
        else:
            yield source


@pytest.mark.parametrize("module", MODULES)
def test_other_packages_are_entered_by_their_front_door(module):
    past = [
        f"{source}.{name}"
        for source, name in _imports(module)
        if _package(source) not in ("", _package(module))
        and any(part.startswith("_") for part in f"{source}.{name}".split(".")[2:])
    ]
    assert past == [], "import these from their package's `__init__`"


def test_modules_of_packages_are_private():
    public = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.parent not in (SOURCE, COMMANDS) and not path.name.startswith("_")
    ]
    assert public == [], "a module's name begins with an underscore; its package shows its names"


@pytest.mark.parametrize("level", ["modules", "packages"])
def test_imports_have_no_cycles_not_even_inside_functions(level):
    edges: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            continue  # a front door names modules of its own package
        for target in _targets(module):
            ends = (module, target) if level == "modules" else (_package(module), _package(target))
            if ends[0] != ends[1]:
                edges[ends[0]].add(ends[1])
    assert _cycle(edges) == []


def _cycle(edges: dict[str, set[str]]) -> list[str]:
    """Some cycle of a directed graph, or nothing."""
    finished: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in finished:
            return []
        for following in sorted(edges.get(node, ())):
            cycle = walk(following, [*path, node])
            if cycle:
                return cycle
        finished.add(node)
        return []

    for start in sorted(edges):
        cycle = walk(start, [])
        if cycle:
            return cycle
    return []


def test_a_cycle_would_be_seen():
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert _cycle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_no_room_is_crowded_and_no_module_is_long():
    crowded = {
        folder.relative_to(SOURCE).as_posix(): count
        for folder in [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
        if (count := len(list(folder.glob("*.py")))) > MOST_FILES
    }
    lines = {
        name: count
        for name, path in MODULES.items()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert (crowded, lines) == ({}, {})


@pytest.mark.parametrize(
    "package",
    [
        name
        for name, path in MODULES.items()
        if "= front_door(__name__)" in path.read_text("utf-8") and path.name == "__init__.py"
    ],
)
def test_a_front_door_opens_to_all_that_it_lists(package):
    module = importlib.import_module(package)
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        module.nobody  # noqa: B018


@pytest.mark.parametrize("package", [name for name in MODULES if name.count(".") == 1])
def test_every_package_has_a_line_in_the_documentation(package):
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    if MODULES[package].name == "__init__.py" or not package.split(".")[1].startswith("_"):
        assert re.search(rf"`{re.escape(package)}`", text), f"{package} is not in architecture.md"


def _walked() -> list[tuple[str, str]]:
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| \d+ \| `([\w/]+\.py): (\w+)` \|", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), _walked())
def test_the_walks_name_functions_that_are_there(file, name):
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert name in defined


def test_there_are_two_walks():
    assert len(_walked()) > 15
