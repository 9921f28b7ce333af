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


BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def test_what_the_guide_to_new_nodes_shows_can_be_run(tmp_path, monkeypatch, capsys):
    import pandas as pd
    from typer.testing import CliRunner

    from scr.cli import app
    from scr.prediction import open_run
    from scr.serving import Service
    from scr.serving._requests import Request

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scr.engines._local._cores", lambda: 1)  # folds are trained here
    guide = (REPOSITORY / "docs" / "guides" / "new-nodes.md").read_text(encoding="utf-8")
    for language, file, text in BLOCK.findall(guide):
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "guide", "exec"), {})
    assert "[1797 1798] (2, 10)" in capsys.readouterr().out
    commands = re.findall(r"^scr ((?:fit|predict) .*)$", guide, re.M)
    assert len(commands) == 4
    commands[0] += " --set training.epochs=5"
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    new, changed = pd.read_csv("new.csv"), pd.read_csv("changed.csv")
    assert new["id"].tolist() == changed["id"].tolist()[:2] == ["top", "plane"]
    forgotten = commands[-1].replace("saw", "plane").replace("some", "other")
    refused = CliRunner().invoke(app, forgotten.split())
    assert refused.exit_code == 2
    assert "The id `plane` is not one of the graph" in refused.output
    service = Service(open_run(Path("shop")))
    for name, ids in (("known.json", ["kite", "saw"]), ("new.json", ["top", "plane"])):
        asked = Request.parse(Path(name).read_bytes(), 10, 10)
        answers = service.answer(asked)["predictions"]
        assert [answer["id"] for answer in answers] == ids
