"""Runs of an experiment: what names them, what is run again, and which hops they read."""

import json
from dataclasses import replace

from scr.experiments import Runner, Task, plan
from scr.experiments._runner import NUMERICS, RUNS, _Worker
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


def test_a_run_is_named_by_its_settings_and_not_by_the_layers_they_came_from(random_graph):
    graph = random_graph()
    written = {"training": {"epochs": 9, "clip": 2.0}, "consistency": {"weight": 3.0}}
    layered = Task("ssgc", "scr", 0, (FILE, SET))
    assert layered.key(graph) == Task("ssgc", "scr", 0, (written,)).key(graph)
    assert layered.key(graph) != Task("ssgc", "scr", 0, (FILE,)).key(graph)


def test_only_runs_that_are_not_done_yet_are_announced(tmp_path, random_graph):
    graph, announced, finished = random_graph(), [], []
    quick = [{"training": {"epochs": 1}}]
    for seeds in (1, 3, 3):
        # The regularizer is named twice: equal tasks are one run.
        tasks = plan(["ssgc"], ["none", "none"], range(seeds), layers=quick)
        Runner(graph, out=tmp_path, on_plan=announced.append, on_run=finished.append).run(tasks)
    assert announced == [1, 2, 0]
    assert [run["seed"] for run in finished] == [0, 1, 2]


def test_being_explained_does_not_rename_a_run(random_graph):
    task, graph = Task("sign", "none", 0, ()), random_graph()
    assert task.key(graph) == replace(task, explain=True).key(graph)


def test_a_torn_line_of_a_killed_process_costs_no_other_run(tmp_path, random_graph):
    finished = []
    runner = Runner(random_graph(), out=tmp_path, on_run=finished.append)
    quick = [{"training": {"epochs": 1}}]
    tasks = plan(["ssgc"], ["none"], range(3), layers=quick)
    replace(runner, on_run=None).run(tasks[:2])
    file = tmp_path / RUNS
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[1][:30])
    for _ in range(2):
        runner.run(tasks)
    assert [run["seed"] for run in finished] == [1, 2]
    assert [json.loads(line)["seed"] for line in file.read_text().splitlines()] == [0, 1, 2]


def test_runs_of_code_that_gave_other_results_are_made_again(random_graph, monkeypatch):
    graph, task = random_graph(), Task("mlp", "none", 0, ())
    before = task.key(graph)
    monkeypatch.setattr("scr.experiments._runner.NUMERICS", NUMERICS + 1)
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
    worker = _Worker(Runner(stored))
    assert worker._prepared(stored, recipe).kept is not None
    other = replace(stored, test=graph.test)
    assert worker._prepared(other, recipe).kept is None
    assert worker._prepared(stored, recipe).kept is not None
