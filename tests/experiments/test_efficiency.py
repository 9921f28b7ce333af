"""The efficiency figure: methods, their settings, and curves that agree with the runs."""

import json

import pytest

from scr.errors import ConfigError
from scr.experiments import Runner
from scr.experiments._efficiency import Method, efficiency, parse_epochs, plan_efficiency

QUICK = {
    "encoder": {"hidden": 8},
    "training": {"epochs": 6, "evaluate_every": 2, "select_after": 0.4, "patience": 0},
    "consistency": {"warmup": 2},
    "stages": {"count": 2, "threshold": 0.3},
}
METHODS = [Method.parse(name) for name in ("scr", "rlu")]


@pytest.mark.parametrize(
    ("name", "regularizer", "stages"),
    [("scr-m", "scr-m", "none"), ("rlu", "none", "rlu"), ("scr+sle", "scr", "sle")],
)
def test_a_method_is_a_regularizer_stages_or_both(name, regularizer, stages):
    method = Method.parse(name)
    assert (method.regularizer, method.stages, method.name) == (regularizer, stages, name)


@pytest.mark.parametrize("name", ["foo", "rlu+scr", "scr+foo", ""])
def test_unknown_methods_are_refused(name):
    with pytest.raises(ConfigError, match="methods"):
        Method.parse(name)


def test_epochs_are_for_all_methods_for_one_or_for_its_stages():
    assert parse_epochs(["100", "rlu=5+6+7"], METHODS) == {"scr": 100, "rlu": (5, 6, 7)}
    assert parse_epochs(["scr=9"], METHODS) == {"scr": 9}


@pytest.mark.parametrize("text", ["scr=5+6", "5+6", "a", "rlu=0", "scr-m=5", "rlu="])
def test_epochs_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match=r"epochs|methods"):
        parse_epochs([text], METHODS)


def test_each_method_has_its_own_tables_of_the_recipe(random_graph):
    recipe = {
        "stages": {"method": "sle"},
        "training": {"learning_rate": 0.1},
        "for": {"rlu": {"training": {"learning_rate": 0.2}, "stages": {"threshold": 0.7}}},
    }
    planned = plan_efficiency(
        METHODS, encoder="ssgc", seeds=[0], layers=[recipe], epochs={"rlu": (3, 4)}
    )
    scr, rlu = (task.classifier().resolve(random_graph()) for task in planned)
    assert (scr.regularizer, scr.stages.method, scr.training.learning_rate) == ("scr", "none", 0.1)
    assert (rlu.regularizer, rlu.stages.method, rlu.training.learning_rate) == ("none", "rlu", 0.2)
    assert (rlu.stages.count, rlu.stages.epochs, rlu.stages.threshold) == (2, (3, 4), 0.7)


def test_curves_end_where_the_runs_end_and_nothing_is_run_twice(tmp_path, random_graph):
    graph = random_graph(nodes=90)
    planned = plan_efficiency(METHODS, encoder="ssgc", seeds=range(2), layers=[QUICK])
    result = efficiency(Runner(graph, out=tmp_path), planned)
    for curve in result["curves"]:
        runs = [run for run in result["runs"] if run["method"] == curve["method"]]
        # What is kept along the curve must be the weights that training kept in the end.
        mean = sum(run["test_accuracy"] for run in runs) / 2
        assert curve["final_test"] == pytest.approx(mean, abs=1e-6)
    scr, rlu = result["curves"]
    assert scr["epochs"] == [2, 4, 6]
    assert rlu["epochs"] == [2, 4, 6, 8, 10, 12]
    assert [start[0] for start in rlu["stage_starts"]] == [6]
    assert rlu["total_seconds"] == pytest.approx(
        sum(run["train_seconds"] for run in result["runs"] if run["method"] == "rlu") / 2, abs=0.002
    )
    assert json.loads((tmp_path / "efficiency.json").read_text()) == json.loads(json.dumps(result))
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["curve"]) for line in lines] == [6, 12, 6, 12]
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs.jsonl", "efficiency.json", "efficiency.csv", "efficiency.png",
    }  # fmt: skip
    again = []
    efficiency(Runner(graph, out=tmp_path, on_run=again.append), planned)
    assert again == []


def test_a_reference_that_is_not_run_is_refused_before_any_run(tmp_path, random_graph):
    planned = plan_efficiency(METHODS[:1], encoder="ssgc", seeds=[0], layers=[QUICK])
    with pytest.raises(ConfigError, match="reference"):
        efficiency(Runner(random_graph(), out=tmp_path / "new"), planned)
    assert not (tmp_path / "new").exists()
