"""Comparisons: which layer of settings wins, what is left out, and what is explained."""

import json

import pytest

from scr.errors import ConfigError
from scr.experiments import Runner
from scr.experiments._compare import COMPARE_JSON, best_explanation, compare, plan
from scr.experiments._runner import RUNS

FILE = {
    "training": {"epochs": 5},
    "for": {
        "ssgc": {"training": {"epochs": 6, "clip": 2.0}},
        "scr": {"consistency": {"weight": 3.0}},
        "ssgc+scr": {"training": {"epochs": 8}},
    },
}
SET = {"training": {"epochs": 9}}


@pytest.mark.parametrize("regularizer", ["none", "scr"])
def test_a_later_layer_wins_over_the_for_tables_of_an_earlier_one(random_graph, regularizer):
    [task] = plan(["ssgc"], [regularizer], [0], layers=[FILE, SET])
    recipe = task.classifier().resolve(random_graph())
    assert (recipe.training.epochs, recipe.training.clip) == (9, 2.0)


def test_for_tables_of_two_layers_both_apply(random_graph):
    over = {"for": {"ssgc": {"training": {"epochs": 7}}}}
    [task] = plan(["ssgc"], ["scr"], [0], layers=[FILE, over])
    recipe = task.classifier().resolve(random_graph())
    assert (recipe.training.epochs, recipe.training.clip) == (7, 2.0)
    assert recipe.consistency.weight == 3.0


def test_a_comparison_explains_the_first_seed_of_the_best_pair(tmp_path, random_graph):
    tasks = plan(["sign"], ["none"], [2, 5], layers=[{"training": {"epochs": 1}}])
    result = compare(Runner(random_graph(), out=tmp_path), tasks)
    told = result["explanation"]
    assert (told["encoder"], told["regularizer"], told["seed"]) == ("sign", "none", 2)
    assert told["attention"]["kind"] == "share"
    assert json.loads(json.dumps(result)) == json.loads((tmp_path / COMPARE_JSON).read_text())
    assert all("explanation" not in run for run in result["runs"])
    kept = [json.loads(line) for line in (tmp_path / RUNS).read_text().splitlines()]
    assert ["explanation" in run for run in kept] == [True, False]


QUICKLY = [{"training": {"epochs": 1}}]


def test_pairs_that_do_not_go_together_are_left_out_with_a_note(tmp_path, random_graph):
    tasks = plan(["ssgc", "sign", "gcn"], ["none", "grand"], [0, 1], layers=QUICKLY)
    result = compare(Runner(random_graph(), out=tmp_path), tasks)
    pairs = {(run["encoder"], run["regularizer"]) for run in result["runs"]}
    wanted = {("ssgc", "none"), ("ssgc", "grand"), ("sign", "none"), ("gcn", "none")}
    assert pairs == wanted
    assert len(result["runs"]) == 8
    [note] = result["notes"]
    assert note == (
        "Left out `grand` with sign, gcn: it propagates anew for each view and so needs a fixed "
        "mixture of hops, as in `ssgc`, `sgc` or `mlp`"
    )
    assert json.loads((tmp_path / COMPARE_JSON).read_text())["notes"] == [note]


def test_a_comparison_of_pairs_that_all_fit_has_no_notes(random_graph):
    result = compare(Runner(random_graph()), plan(["ssgc"], ["none"], [0], layers=QUICKLY))
    assert result["notes"] == []


def test_a_comparison_without_a_pair_that_fits_is_refused(tmp_path, random_graph):
    tasks = plan(["sign", "gcn"], ["grand"], [0], layers=QUICKLY)
    with pytest.raises(ConfigError, match=r"'sign'; expected `ssgc`, `sgc` or `mlp` with `grand`"):
        compare(Runner(random_graph(), out=tmp_path / "out"), tasks)
    assert not (tmp_path / "out").exists()


def test_other_wrong_settings_still_stop_a_comparison(random_graph):
    wrong = [{"training": {"epoch": 1}}]
    with pytest.raises(ConfigError, match=r"training\.epoch"):
        compare(Runner(random_graph()), plan(["ssgc", "sign"], ["none"], [0], layers=wrong))


def test_the_best_pair_is_that_of_the_best_validation_accuracy():
    runs = [
        {"encoder": name, "regularizer": "none", "seed": 0, "explanation": {"encoder": name}}
        for name in ("low", "high", "unmeasured")
    ]
    means = {"low": 0.4, "high": 0.6, "unmeasured": None}
    rows = [{**run, "valid_mean": means[run["encoder"]]} for run in runs]
    told = {"encoder": "high", "regularizer": "none", "seed": 0}
    assert best_explanation(runs, rows) == told
    # Runs that an older version has kept were not explained.
    assert best_explanation([{**run, "explanation": None} for run in runs], rows) is None
    assert best_explanation([], []) is None
