"""Names in the documentation are names in the code."""

import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
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


OWN_MODEL = (REPOSITORY / "docs/guides/bring-your-own-model.md").read_text(encoding="utf-8")


def test_what_the_guide_to_own_models_says_of_sparse_features():
    import scipy.sparse as sp
    import torch

    (line,) = re.findall(r"^x = .*?# sparse ones, .*?: (.*)$", OWN_MODEL, re.M)
    features = np.array([[0, 2.0], [1, 0]], np.float32)

    graph = SimpleNamespace(features=sp.csr_array(features))
    names: dict = {"torch": torch, "graph": graph}
    exec(f"x = {line}", names)
    assert names["x"].tolist() == features.tolist()


def test_no_page_installs_a_package_that_is_not_published():
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    commands = {
        command for page in pages
        for command in re.findall(r"pip install [^`\n]*", page.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert any("-c constraints.txt" in command for command in commands)
    assert [command for command in commands if "scr-gnn" in command] == []
