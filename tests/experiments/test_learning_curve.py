"""Learning curves: which labels train, choose and measure, what is run again, what is written."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import ConfigError, GraphError
from scr.experiments import Runner, learning_curve, plan_learning_curve
from scr.experiments._learning_curve import (
    curve_sizes,
    first_of_each_class,
    held_out_split,
    parts_by_class,
)

QUICK = {"training": {"epochs": 3, "evaluate_every": 1}, "encoder": {"hidden": 8}}
SMALL = {"encoder": "ssgc", "layers": [QUICK], "preset": "none"}


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [([20, 20, 20], [1, 2, 5, 10, 20]), ([40, 0, 100, 2], [2, 5, 10, 20, 40]), ([1, 1], [1])],
)
def test_sizes_halve_from_what_a_typical_class_has(counts, sizes):
    assert curve_sizes(np.array(counts)) == sizes


def test_given_sizes_must_be_there():
    assert curve_sizes(np.array([3, 9]), [8, 2, 2]) == [2, 8]
    with pytest.raises(ConfigError, match="at most 9"):
        curve_sizes(np.array([3, 9]), [10])
    with pytest.raises(ConfigError, match="1 or more"):
        curve_sizes(np.array([3, 9]), [0, 2])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 99))
def test_so_many_of_each_class_are_drawn_and_more_hold_fewer(classes, count, seed):
    truth, nodes = np.array(classes), np.arange(len(classes))
    drawn = first_of_each_class(nodes, truth, count, seed)
    expected = np.minimum(np.bincount(truth, minlength=4), count)
    assert np.bincount(truth[drawn], minlength=4).tolist() == expected.tolist()
    assert set(drawn) <= set(first_of_each_class(nodes, truth, count + 1, seed))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 99))
def test_parts_have_their_share_of_every_class(classes, seed):
    truth = np.array(classes)
    part = parts_by_class(truth, 4, seed)
    for label in np.unique(truth):
        counts = np.bincount(part[truth == label], minlength=4)
        assert counts.max() - counts.min() <= 1
    counts = np.bincount(part, minlength=4)
    assert counts.max() - counts.min() <= 1


def test_validation_labels_are_halved_and_test_labels_stay_out(random_graph):
    graph = random_graph(nodes=120)
    split = held_out_split(graph, 0)
    assert np.array_equal(split.train, graph.train)
    assert set(split.valid) | set(split.test) == set(graph.valid)
    assert not set(split.valid) & set(split.test)
    assert len(split.valid) == len(split.test) == 12
    assert not np.array_equal(split.test, held_out_split(graph, 1).test)


def test_few_validation_labels_are_pooled_with_training_labels(random_graph):
    graph = random_graph(nodes=120)
    few = replace(graph, valid=graph.valid[:6])
    split = held_out_split(few, 0)
    parts = [set(nodes) for nodes in split]
    assert set.union(*parts) == set(few.train) | set(few.valid)
    assert sum(map(len, parts)) == 30
    assert [len(part) for part in parts] == [16, 7, 7]


def test_test_labels_are_measured_on_when_asked_for(random_graph):
    graph = random_graph()
    split = held_out_split(graph, 0, on_test=True)
    for nodes, name in zip(split, ("train", "valid", "test"), strict=True):
        assert np.array_equal(nodes, getattr(graph, name))
    with pytest.raises(GraphError, match="no labeled test nodes"):
        held_out_split(replace(graph, test=graph.test[:0]), 0, on_test=True)


def test_too_few_known_labels_are_refused(random_graph):
    graph = random_graph()
    few = replace(graph, train=graph.train[:2], valid=graph.valid[:0])
    with pytest.raises(GraphError, match="2 known labels"):
        held_out_split(few, 0)
    with pytest.raises(GraphError, match="no labeled training nodes"):
        held_out_split(replace(graph, train=graph.train[:0]), 0)


def test_a_task_sees_the_labels_of_its_split_alone(random_graph):
    graph = random_graph()
    (task, *_) = plan_learning_curve(graph, labels=[2], seeds=[0], **SMALL)
    seen = Runner(graph).graph_for(task)
    known = np.flatnonzero(np.asarray(seen.labels) >= 0)
    assert set(known) == {*task.split.train, *task.split.valid, *task.split.test}
    assert not set(known) & set(graph.test)
    assert np.array_equal(seen.labels[known], graph.labels[known])
    assert len(seen.train) == 6


def test_validation_labels_train_at_no_point_of_a_recipe_with_a_refit(random_graph):
    graph, refit = random_graph(), {"training": {"refit": True}}
    tasks = plan_learning_curve(graph, labels=[2], seeds=[0], **{**SMALL, "layers": [QUICK, refit]})
    plain = plan_learning_curve(graph, labels=[2], seeds=[0], **SMALL)
    assert [task.layers for task in tasks] == [task.layers for task in plain]
    for task in tasks:
        fitted = task.classifier().fit(Runner(graph).graph_for(task))
        assert np.array_equal(fitted.predictor_.known.train, task.split.train)
        assert np.array_equal(fitted.predictor_.known.valid, task.split.valid)


def test_a_curve_pairs_both_methods_on_the_same_labels(random_graph):
    tasks = plan_learning_curve(random_graph(), labels=[1, 2], seeds=range(2), **SMALL)
    assert [(task.seed, task.labels["labels_per_class"], task.regularizer) for task in tasks] == [
        (seed, size, name) for seed in (0, 1) for size in (1, 2) for name in ("none", "scr")
    ]
    for base, other in zip(tasks[::2], tasks[1::2], strict=True):
        assert np.array_equal(base.split.train, other.split.train)
        assert np.array_equal(base.split.test, tasks[4 * base.seed].split.test)


@pytest.mark.parametrize("name", ["none", "foo"])
def test_only_a_regularizer_can_be_compared_with_none(name, random_graph):
    with pytest.raises(ConfigError, match="regularizer"):
        plan_learning_curve(random_graph(), regularizer=name)


def test_a_curve_is_written_and_runs_nothing_twice(tmp_path, random_graph):
    graph = random_graph(nodes=120)
    finished = []
    runner = Runner(graph, out=tmp_path, on_run=finished.append)
    result = learning_curve(graph, runner=runner, labels=[2, 4], seeds=range(3), **SMALL)
    assert len(finished) == 12
    assert [point["labels_per_class"] for point in result["curve"]] == [2, 4]
    assert [point["train_labels"] for point in result["curve"]] == [6, 12]
    assert result["measured_nodes"] == 12
    runs = [run for run in result["runs"] if run["labels_per_class"] == 4]
    accuracies = [run["test_accuracy"] for run in runs if run["regularizer"] == "none"]
    assert result["curve"][1]["base"]["test_mean"] == pytest.approx(np.mean(accuracies))
    assert any("last doubling of the labels, from 2 to 4" in text for text in result["sentences"])
    assert json.loads((tmp_path / "learning_curve.json").read_text()) == json.loads(
        json.dumps(result)
    )
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs.jsonl", "learning_curve.json", "learning_curve.csv", "learning_curve.png",
        "report.html",
    }  # fmt: skip
    page = (tmp_path / "report.html").read_text()
    assert all(sentence.split(";")[0] in page for sentence in result["sentences"])
    learning_curve(graph, runner=runner, labels=[1, 2, 4], seeds=range(3), **SMALL)
    assert len(finished) == 18


@pytest.mark.stress
def test_more_processes_measure_the_same(random_graph):
    graph = random_graph()
    tasks = plan_learning_curve(graph, labels=[1], seeds=range(2), **SMALL)
    alone, together = (
        [run["test_accuracy"] for run in Runner(graph, jobs=jobs).run(tasks)] for jobs in (1, 2)
    )
    assert alone == together
