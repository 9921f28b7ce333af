"""Tasks of a comparison: which layer of settings wins, and what names a run."""

import json
from dataclasses import replace

import pytest

from scr.errors import ConfigError
from scr.experiments import Comparison
from scr.experiments._compare import (
    COMPARE_JSON,
    NUMERICS,
    RUNS,
    Task,
    _Worker,
    best_explanation,
    compare,
    plan,
    run_tasks,
)
from scr.propagation import cached_hops_path, kept_rows, propagate
from scr.sources import load_graph

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


def test_a_run_is_named_by_its_settings_and_not_by_the_layers_they_came_from(random_graph):
    graph = random_graph()
    written = {"training": {"epochs": 9, "clip": 2.0}, "consistency": {"weight": 3.0}}
    layered = Task("ssgc", "scr", 0, (FILE, SET))
    assert layered.key(graph) == Task("ssgc", "scr", 0, (written,)).key(graph)
    assert layered.key(graph) != Task("ssgc", "scr", 0, (FILE,)).key(graph)


def test_only_runs_that_are_not_done_yet_are_announced(tmp_path, random_graph):
    comparison, announced, finished = Comparison(random_graph()), [], []
    quick = [{"training": {"epochs": 1}}]
    for seeds in (1, 3, 3):
        # The regularizer is named twice: equal tasks are one run.
        tasks = plan(["ssgc"], ["none", "none"], range(seeds), layers=quick)
        run_tasks(comparison, tasks, out=tmp_path, on_plan=announced.append, on_run=finished.append)
    assert announced == [1, 2, 0]
    assert [run["seed"] for run in finished] == [0, 1, 2]


def test_a_comparison_explains_the_first_seed_of_the_best_pair(tmp_path, random_graph):
    tasks = plan(["sign"], ["none"], [2, 5], layers=[{"training": {"epochs": 1}}])
    result = compare(Comparison(random_graph()), tasks, out=tmp_path)
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
    result = compare(Comparison(random_graph()), tasks, out=tmp_path)
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
    result = compare(Comparison(random_graph()), plan(["ssgc"], ["none"], [0], layers=QUICKLY))
    assert result["notes"] == []


def test_a_comparison_without_a_pair_that_fits_is_refused(tmp_path, random_graph):
    tasks = plan(["sign", "gcn"], ["grand"], [0], layers=QUICKLY)
    with pytest.raises(ConfigError, match=r"'sign'; expected `ssgc`, `sgc` or `mlp` with `grand`"):
        compare(Comparison(random_graph()), tasks, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_wrong_settings_still_stop_a_comparison(random_graph):
    wrong = [{"training": {"epoch": 1}}]
    with pytest.raises(ConfigError, match=r"training\.epoch"):
        compare(Comparison(random_graph()), plan(["ssgc", "sign"], ["none"], [0], layers=wrong))


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


def test_being_explained_does_not_rename_a_run(random_graph):
    task, graph = Task("sign", "none", 0, ()), random_graph()
    assert task.key(graph) == replace(task, explain=True).key(graph)


def test_a_torn_line_of_a_killed_process_costs_no_other_run(tmp_path, random_graph):
    comparison, finished = Comparison(random_graph()), []
    quick = [{"training": {"epochs": 1}}]
    tasks = plan(["ssgc"], ["none"], range(3), layers=quick)
    run_tasks(comparison, tasks[:2], out=tmp_path)
    file = tmp_path / RUNS
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[1][:30])
    for _ in range(2):
        run_tasks(comparison, tasks, out=tmp_path, on_run=finished.append)
    assert [run["seed"] for run in finished] == [1, 2]
    assert [json.loads(line)["seed"] for line in file.read_text().splitlines()[2:]] == [1, 2]


def test_runs_of_code_that_gave_other_results_are_made_again(random_graph, monkeypatch):
    graph, task = random_graph(), Task("mlp", "none", 0, ())
    before = task.key(graph)
    monkeypatch.setattr("scr.experiments._compare.NUMERICS", NUMERICS + 1)
    assert task.key(graph) != before


def test_each_split_finds_the_hops_that_hold_its_nodes(tmp_path, random_graph):
    graph = random_graph()
    replace(graph, test=graph.test[::2]).save(tmp_path / "store")
    stored = load_graph(str(tmp_path / "store"))
    layers = [{"propagation": {"hops": 1, "norm": "row"}, "data": {"scale": "none"}}]
    [task] = plan(["sign"], ["none"], [0], layers=layers, preset="none")
    recipe = task.classifier().resolve(stored)
    rows = kept_rows(stored, "labeled")
    path = cached_hops_path(stored, recipe.propagation, rows=rows)
    propagate(stored, 1, "row", out=path, rows=rows)
    worker = _Worker(Comparison(stored))
    assert worker._prepared(stored, recipe).kept is not None
    other = replace(stored, test=graph.test)
    assert worker._prepared(other, recipe).kept is None
    assert worker._prepared(stored, recipe).kept is not None
