"""Names in the documentation are names in the code."""

import importlib
import json
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


GUIDE = (REPOSITORY / "docs" / "guides" / "heterogeneous-graphs.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


@pytest.mark.filterwarnings("ignore:.*no training label")
def test_what_the_guide_to_typed_graphs_shows_can_be_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch_geometric")
    from typer.testing import CliRunner

    from scr.cli import app
    from scr.graph import open_store

    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, file, text in BLOCK.findall(GUIDE):
        if file:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "guide", "exec"), names)
    assert "left out paper:rev_writes:author" in capsys.readouterr().out
    assert names["graph"].node_types == {"paper": 4, "author": 3}
    (ingest,) = re.findall(r"^scr (ingest .*)$", GUIDE, re.M)
    result = CliRunner().invoke(app, ingest.split())
    assert result.exit_code == 0, result.output
    graph = open_store("library-store")
    assert graph.class_names == ("biology", "physics")
    assert [str(each) for each in graph.relations] == ["author:writes:paper", "paper:cites:paper"]
    for command in re.findall(r"^scr ((?:train|propagate) .*)$", GUIDE, re.M):
        shorter = ["--set", "training.epochs=3"] if command.startswith("train") else []
        result = CliRunner().invoke(app, [*command.split(), *shorter])
        assert result.exit_code == 0, result.output
    subsets = json.loads((tmp_path / "runs" / "subsets" / "run.json").read_text())["subsets"]
    assert subsets == [["author:writes:paper", "paper:cites:paper"], ["author:writes:paper"]]


OWN_MODEL = (REPOSITORY / "docs/guides/bring-your-own-model.md").read_text(encoding="utf-8")


def test_what_the_guide_to_own_models_shows_can_be_run(tmp_path, monkeypatch):
    pytest.importorskip("torch_geometric")
    monkeypatch.chdir(tmp_path)
    import torch

    names: dict = {}
    passes: list[int] = []
    for language, _, text in BLOCK.findall(OWN_MODEL):
        if language != "python":
            continue
        if text.startswith("views = "):  # a step of two views, and what it costs
            hook = names["model"].register_forward_hook(lambda *_: passes.append(1))
            names["model"].train()
        exec(compile(text, "guide", "exec"), names)
        if text.startswith("views = "):
            hook.remove()
            assert len(passes) == 2
            assert names["loss"].item() > 0
    assert passes
    # Two labels per class of ten: chance is 0.1, and a GCN without SCR has about 0.78.
    assert names["accuracy"] > 0.75
    module, checkpoint = names["module"], names["checkpoint"]
    assert module.teacher.step == 60
    assert 0 < len(module.confident) < len(names["x"])
    torch.manual_seed(1)
    other = type(module)(64, 64, 10)
    other.load_state_dict(checkpoint["state_dict"])
    other.on_load_checkpoint(checkpoint)
    assert other.teacher.step == 60
    assert torch.equal(other.confident.nodes, module.confident.nodes)
    x, edge_index = names["x"], names["edge_index"]
    assert torch.equal(other.teacher(x, edge_index), module.teacher(x, edge_index))
    assert names["classifier"].score("test") > 0.75
    assert names["again"].score("test") == names["classifier"].score("test")
    np.testing.assert_allclose(
        names["probabilities"].numpy(), names["plain"].predict_proba(), atol=1e-5
    )
    # Of the run with drawn neighbors, the term acts once its warm-up is over.
    terms = [epoch["consistency_loss"] for epoch in names["drawn"].history_]
    assert terms[:2] == [0.0, 0.0]
    assert min(terms[2:]) > 0
    assert len(terms) == 10


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


CLASS_SHARES = (REPOSITORY / "docs/guides/class-shares.md").read_text(encoding="utf-8")


def test_what_the_guide_to_class_shares_shows_can_be_run(random_graph):
    import scr

    graph = random_graph()
    classifier = scr.NodeClassifier("ssgc", "none", preset="none", epochs=3).fit(graph)
    names: dict = {"np": np, "graph": graph, "classifier": classifier}
    for language, _, text in BLOCK.findall(CLASS_SHARES):
        if language == "python":
            exec(compile(text, "guide", "exec"), names)
    np.testing.assert_allclose(names["better"], names["corrected"], rtol=0.1)
    np.testing.assert_allclose(names["better"].sum(axis=1), 1, rtol=1e-5)


def test_what_the_guide_to_metrics_shows_can_be_run(capsys):
    from sklearn.metrics import accuracy_score, roc_auc_score

    guide = (REPOSITORY / "docs" / "guides" / "metrics.md").read_text(encoding="utf-8")
    names: dict = {}
    for language, _, text in BLOCK.findall(guide):
        if language == "python":
            exec(compile(text, "guide", "exec"), names)
    graph, classifier = names["graph"], names["classifier"]
    labels, probabilities = graph.labels[graph.test], classifier.predict_proba(graph.test)
    area, accuracy = map(float, capsys.readouterr().out.split()[:2])
    assert accuracy == pytest.approx(accuracy_score(labels, probabilities.argmax(axis=1)))
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert area == pytest.approx(roc_auc_score(labels, probabilities, multi_class="ovr"), abs=1e-6)
    several, model = names["several"], names["model"]
    truth, likely = several.labels[several.test], model.predict_proba(several.test)
    areas = [roc_auc_score(y[y >= 0], p[y >= 0]) for y, p in zip(truth.T, likely.T, strict=True)]
    assert model.score("test") == pytest.approx(np.mean(areas))


PROBABILITIES = (REPOSITORY / "docs/guides/probabilities.md").read_text(encoding="utf-8")


def test_what_the_guide_to_probabilities_shows_can_be_run(tmp_path, monkeypatch, capsys):
    import pyarrow.parquet as pq
    from typer.testing import CliRunner

    from scr.cli import app

    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, _, text in BLOCK.findall(PROBABILITIES):
        if language == "python":
            exec(compile(text, "guide", "exec"), names)
    graph, sets = names["graph"], names["sets"]
    inside = sets[np.arange(len(graph.test)), np.asarray(graph.labels)[graph.test]]
    assert inside.mean() == pytest.approx(0.9, abs=0.04)
    before, after = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert after < before
    for command in re.findall(r"^scr ((?:train|predict) .*)$", PROBABILITIES, re.M):
        shorter = ["--set", "training.epochs=3"] if command.startswith("train") else []
        result = CliRunner().invoke(app, [*command.split(), *shorter])
        assert result.exit_code == 0, result.output
    table = pq.read_table("sets.parquet").to_pylist()
    assert all(len(row["prediction_set"]) == row["set_size"] for row in table)


def test_what_the_guide_to_tuning_shows_can_be_run(tmp_path, monkeypatch, capsys):
    from typer.testing import CliRunner

    from scr.cli import app

    monkeypatch.chdir(tmp_path)
    members = {"first": {}, "base": {"regularizer": "none"}}
    monkeypatch.setattr("scr.tuning._portfolio.read_portfolio", lambda typed: members)
    monkeypatch.setattr("scr.tuning._tune._cores", lambda: 1)
    guide = (REPOSITORY / "docs" / "guides" / "tuning.md").read_text(encoding="utf-8")
    for language, _, text in BLOCK.findall(guide):
        if language == "python":
            shorter = text.replace("time_limit=20", "time_limit=2, epochs=10, select_after=0.0")
            exec(compile(shorter, "guide", "exec"), {})
    assert float(capsys.readouterr().out) > 0.7
    (command,) = re.findall(r"^scr (tune .*)$", guide, re.M)
    shorter = ["--time", "2s", "--jobs", "1", "--set", "training.epochs=10"]
    result = CliRunner().invoke(
        app, [*command.split(), *shorter, "--set", "training.select_after=0"]
    )
    assert result.exit_code == 0, result.output
    assert "Accuracy on held-out labels" in result.output
    for command in (["predict", "tuned", "--out", "p.parquet"], ["report", "tuned"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["smooth", "tuned"])
    assert result.exit_code == 0, result.output


def test_what_the_guide_to_new_nodes_shows_can_be_run(tmp_path, monkeypatch, capsys):
    import pandas as pd
    from typer.testing import CliRunner

    from scr.cli import app
    from scr.prediction import open_run
    from scr.serving import Service
    from scr.serving._requests import Request

    monkeypatch.chdir(tmp_path)
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
    for command in commands[:-1]:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    new, changed = pd.read_csv("new.csv"), pd.read_csv("changed.csv")
    assert new["id"].tolist() == changed["id"].tolist()[:2] == ["top", "plane"]
    refused = CliRunner().invoke(app, commands[-1].split())
    assert refused.exit_code == 2
    assert "The id `plane` is not one of the graph" in refused.output
    service = Service(open_run(Path("shop")))
    for name, ids in (("known.json", ["kite", "saw"]), ("new.json", ["top", "plane"])):
        asked = Request.parse(Path(name).read_bytes(), 10)
        answers = service.answer(asked)["predictions"]
        assert [answer["id"] for answer in answers] == ids
