"""Sweeps: what is planned, what is run again, and what is written."""

import json

import pytest

from scr.errors import ConfigError
from scr.experiments import Runner
from scr.experiments._sweep import Setting, full_name, parse_settings, plan_sweep, sweep

QUICK = {"training": {"epochs": 4, "evaluate_every": 2}, "encoder": {"hidden": 8}}
WEIGHT = Setting("consistency", "weight", (0.1, 1.0))


def resolved(planned, graph):
    return [each.classifier().resolve(graph) for each in planned]


def test_names_without_a_section_are_of_the_consistency_term():
    assert full_name("weight") == "consistency.weight"
    assert full_name("training.epochs") == "training.epochs"
    with pytest.raises(ConfigError, match="section"):
        full_name("nothing.weight")


def test_values_replace_the_default_ones_and_may_name_further_settings():
    settings = parse_settings(["weight", "decay"], ["weight=0,0.5,2", "encoder.hidden=8,16"])
    assert [setting.name for setting in settings] == [
        "consistency.weight", "consistency.decay", "encoder.hidden",
    ]  # fmt: skip
    assert settings[0].values == (0, 0.5, 2)
    assert len(settings[1].values) >= 5
    assert all(isinstance(value, int) for value in settings[2].values)  # a width is whole


@pytest.mark.parametrize(
    ("names", "values"),
    [(["training.epochs"], []), (["weight"], ["weight"]), (["weight"], ["weight=a"]),
     (["weight"], ["weight=nan"]), ([], [])],
)  # fmt: skip
def test_settings_without_usable_values_are_refused(names, values):
    with pytest.raises(ConfigError):
        parse_settings(names, values)


@pytest.mark.parametrize(
    ("setting", "readers"),
    [("consistency.weight", {"scr", "scr-m", "pi", "fixmatch", "freematch"}),
     ("consistency.threshold", {"scr", "scr-m", "pi", "fixmatch"}),
     ("consistency.temperature", {"scr", "scr-m"}), ("consistency.decay", {"scr-m"}),
     ("consistency.momentum", {"freematch"}), ("training.clip", {"none", "scr", "scr-m", "pi",
     "fixmatch", "freematch"})],
)  # fmt: skip
def test_a_setting_is_swept_for_those_that_read_it(setting, readers):
    names = ("none", "scr", "scr-m", "pi", "fixmatch", "freematch")
    one = Setting(*setting.split("."), (0.5,))
    assert {name for name in names if one.applies_to(name)} == readers


def test_the_decay_is_swept_for_scr_m_alone_and_other_sections_for_the_base_too():
    planned = plan_sweep(
        [Setting("consistency", "decay", (0.5,)), Setting("training", "weight_decay", (0.1,))],
        seeds=[0],
    )
    assert [(each.labels["setting"], each.regularizer) for each in planned] == [
        (None, "none"),
        ("consistency.decay", "scr-m"),
        ("training.weight_decay", "none"),
        ("training.weight_decay", "scr"),
        ("training.weight_decay", "scr-m"),
    ]


def test_a_swept_value_wins_over_every_table_of_the_recipe(random_graph):
    recipe = {
        "consistency": {"weight": 7.0},
        "for": {
            "scr": {"consistency": {"weight": 5.0}},
            "gamlp+scr-m": {"training": {"epochs": 3}},
        },
    }
    planned = plan_sweep([WEIGHT], seeds=[0], layers=[recipe])
    recipes = resolved(planned, random_graph())[1:]
    assert [recipe.consistency.weight for recipe in recipes] == [0.1, 0.1, 1.0, 1.0]
    assert {recipe.training.epochs for recipe in recipes if recipe.regularizer == "scr-m"} == {3}


def test_a_swept_threshold_does_not_fall_during_the_run(random_graph):
    falling = {"consistency": {"threshold": 0.9, "threshold_end": 0.2}}
    planned = plan_sweep([Setting("consistency", "threshold", (0.8,))], seeds=[0], layers=[falling])
    ends = [recipe.consistency.threshold_end for recipe in resolved(planned, random_graph())[1:]]
    assert ends == [None, None]


def test_a_sweep_writes_curves_and_runs_nothing_twice(tmp_path, random_graph):
    graph = random_graph()
    planned = plan_sweep(
        [WEIGHT, Setting("consistency", "temperature", (0.5,))],
        encoder="ssgc", regularizers=["scr"], seeds=range(2),
        # Where nothing is swept, weight and temperature are values of the sweep: shared runs.
        layers=[QUICK, {"consistency": {"weight": 1.0, "temperature": 0.5}}],
    )  # fmt: skip
    finished = []
    result = sweep(Runner(graph, out=tmp_path, on_run=finished.append), planned)
    assert len(planned) == 8
    assert len(finished) == 6
    assert json.loads((tmp_path / "sweep.json").read_text()) == json.loads(json.dumps(result))
    assert [curve["setting"] for curve in result["curves"]] == [
        "consistency.weight", "consistency.temperature",
    ]  # fmt: skip
    assert result["curves"][0]["recipe_value"] == 1.0
    assert [point["n"] for point in result["curves"][0]["points"]] == [2, 2]
    assert result["base"]["n"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs.jsonl", "sweep.json", "sweep.csv", "sweep.png", "consistency.weight.png",
        "consistency.temperature.png", "report.html",
    }  # fmt: skip
    again = []
    sweep(Runner(graph, out=tmp_path, on_run=again.append), planned)
    assert again == []


def test_a_wrong_value_is_refused_before_any_run(tmp_path, random_graph):
    planned = plan_sweep([Setting("consistency", "decay", (0.5, 1.5))], seeds=[0], layers=[QUICK])
    with pytest.raises(ConfigError, match=r"consistency.decay"):
        sweep(Runner(random_graph(), out=tmp_path / "new"), planned)
    assert not (tmp_path / "new").exists()
