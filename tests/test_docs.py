"""Names in the documentation are names in the code."""

import importlib
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
EQUATIONS = (REPOSITORY / "docs" / "equations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|[^|]*\|[^|]*\| `(scr\.[\w.]+)` \| `(tests/[\w/]+\.py)` \|$", EQUATIONS, re.M)
ANCHORS = set(re.findall(r"\{#([\w-]+)\}$", EQUATIONS, re.M))


def resolve(name: str) -> object:
    """Import as much of a dotted name as is a module, and look up the rest."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_the_table_of_equations_was_read():
    # One row per equation of the paper's method section; an unreadable table would prove nothing.
    assert len(ROWS) >= 15


@pytest.mark.parametrize("function", sorted({function for function, _ in ROWS}))
def test_every_function_of_the_equations_exists(function):
    assert callable(resolve(function))


@pytest.mark.parametrize("test", sorted({test for _, test in ROWS}))
def test_every_test_of_the_equations_exists_and_tests_something(test):
    assert "def test_" in (REPOSITORY / test).read_text(encoding="utf-8")


def test_every_anchor_that_the_code_points_at_exists():
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "src").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"equations\.md#([\w-]+)", text)}
    assert named
    assert named <= ANCHORS
