"""`scr.fit` on a graph: no label is thrown away, test labels choose nothing, runs can be moved."""

import dataclasses
import json
import shutil
import signal

import numpy as np
import pytest
from scipy.stats import binomtest

import scr
from scr import fitting, tuning
from scr.cli import main
from scr.errors import ConfigError, GraphError, RunError
from scr.fitting import plan_split
from scr.fitting._splits import held_out_part
from scr.training import TermGain

QUICK = {"training": {"epochs": 4, "evaluate_every": 2, "select_after": 0.0}}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch):
    monkeypatch.setattr("scr.engines._local._cores", lambda: 1)


def command(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def without_split(graph, **changes):
    none = np.zeros(0, np.int64)
    return dataclasses.replace(graph, train=none, valid=none, test=none, **changes)


def many_labels(random_graph):
    """Enough labels to hold a fifth of them out; a tenth of the nodes has none."""
    graph = without_split(random_graph(nodes=660, edges=3000))
    labels = graph.labels.copy()
    labels[::10] = -1
    return dataclasses.replace(graph, labels=labels)


def test_a_fifth_of_each_class_is_held_out_and_all_other_labels_train(random_graph):
    graph = many_labels(random_graph)
    plan = plan_split(graph)
    assert plan.kind == "drawn"
    known = np.flatnonzero(graph.labels >= 0)
    assert sorted([*plan.graph.train, *plan.graph.valid]) == known.tolist()
    for label in range(3):
        total = (graph.labels == label).sum()
        held_out = (graph.labels[plan.graph.valid] == label).sum()
        assert held_out == round(total / 5)
    assert plan_split(graph, seed=1).graph.valid.tolist() != plan.graph.valid.tolist()


def test_a_class_with_one_label_trains_and_with_two_has_one_of_each():
    labels = np.array([0] * 10 + [1] + [2] * 2)
    held_out = held_out_part(labels, np.arange(13))
    assert np.bincount(labels[held_out], minlength=3).tolist() == [2, 0, 1]


def test_few_labels_are_all_kept_for_folds(random_graph):
    graph = without_split(random_graph())
    plan = plan_split(graph)
    assert plan.kind == "folds"
    assert plan.graph.train.tolist() == list(range(60))


def test_the_graphs_own_split_is_respected_unless_another_is_asked_for(random_graph):
    graph = random_graph()
    plan = plan_split(graph)
    assert plan.kind == "own"
    assert plan.graph is graph
    other = plan_split(graph, "per-class:5,5").graph
    assert (len(other.train), len(other.valid)) == (15, 15)


def test_training_nodes_without_validation_nodes_are_split_and_test_nodes_stay(random_graph):
    graph = random_graph(valid=None)
    plan = plan_split(graph)
    assert plan.graph.train.tolist() == graph.train.tolist()
    assert plan.graph.test.tolist() == graph.test.tolist()
    column = dataclasses.replace(graph, train=graph.train[:0])
    known = np.setdiff1d(np.arange(60), graph.test)
    assert plan_split(column).graph.train.tolist() == known.tolist()


@pytest.mark.parametrize("known", [0, 1])
def test_labels_of_one_class_are_refused(random_graph, known):
    graph = without_split(random_graph())
    labels = np.where(np.arange(60) < 5 * known, 0, -1)
    with pytest.raises(GraphError, match="expected labels of at least two classes"):
        plan_split(dataclasses.replace(graph, labels=labels))


def test_the_model_is_trained_on_every_known_label(random_graph, tmp_path):
    graph = many_labels(random_graph)
    classifier = scr.fit(graph, recipe=QUICK, out=tmp_path / "run")
    assert classifier.recipe_.training.refit
    assert any("all 594 labels" in note for note in classifier.notes_)
    record = json.loads((tmp_path / "run" / "fit.json").read_text())
    held_out = record["held_out"]
    assert held_out["nodes"] == 120  # a fifth of 198, rounded, of each class
    right = round(held_out["accuracy"] * 120)
    low, high = binomtest(right, 120).proportion_ci(method="wilson")
    assert held_out["interval"] == pytest.approx([low, high])
    assert record["most_frequent_class"] == pytest.approx(198 / 594)
    assert record["gain"]["with_term"] >= 0


def test_with_few_labels_each_is_held_out_once(random_graph, tmp_path, monkeypatch):
    graph = without_split(random_graph())
    held_out = []
    real = tuning._tune.fold_graphs

    def watched(graph, **settings):
        graphs = real(graph, **settings)
        held_out[:] = [each.valid for each in graphs]
        return graphs

    monkeypatch.setattr("scr.tuning._tune.fold_graphs", watched)
    classifier = scr.fit(graph, recipe=QUICK, out=tmp_path / "run")
    assert sorted(np.concatenate(held_out)) == list(range(60))
    record = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert record["split"]["kind"] == "folds"
    assert record["held_out"]["nodes"] == 60
    assert set(record["gain"]) == {"with_term", "without_term", "error"}
    again = scr.NodeClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(), classifier.predict_proba())


@pytest.mark.parametrize("nodes", [60, 660])
def test_test_labels_choose_nothing(random_graph, nodes):
    graph = without_split(random_graph(nodes=nodes, edges=3 * nodes))
    test = np.arange(0, nodes, 10)
    shuffled = graph.labels.copy()
    shuffled[test] = (shuffled[test] + 1) % 3
    graph = dataclasses.replace(graph, test=test)
    other = dataclasses.replace(graph, labels=shuffled)
    one, two = (scr.fit(each, recipe=QUICK) for each in (graph, other))
    np.testing.assert_array_equal(one.predict_proba(), two.predict_proba())
    assert one.score("test") != two.score("test")


@pytest.mark.parametrize("nodes", [60, 660])
def test_the_same_seed_gives_the_same_bits(random_graph, nodes):
    graph = without_split(random_graph(nodes=nodes, edges=3 * nodes))
    one, two, other = (scr.fit(graph, recipe=QUICK, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.predict_proba(), two.predict_proba())
    assert (one.predict_proba() != other.predict_proba()).any()


@pytest.mark.parametrize("nodes", [60, 660])
def test_a_run_that_was_moved_finds_its_graph(random_graph, tmp_path, nodes):
    graph = without_split(random_graph(nodes=nodes, edges=3 * nodes))
    classifier = scr.fit(graph, recipe=QUICK, out=tmp_path / "run", probabilities="all")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere"
    loaded = scr.NodeClassifier.load(moved)
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
    assert command("predict", moved, "--out", tmp_path / "again.csv") == 0
    assert (tmp_path / "again.csv").read_text() == (moved / "predictions.csv").read_text()
    assert command("report", moved) == 0


def test_a_folder_is_neither_replaced_nor_continued_unasked(random_graph, tmp_path):
    graph = many_labels(random_graph)
    out = tmp_path / "run"
    scr.fit(graph, recipe=QUICK, out=out)
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="exists already"):
        scr.fit(graph, recipe=QUICK, out=out)
    scr.fit(graph, recipe=QUICK, out=out, resume=True)
    assert (out / "model.safetensors").read_bytes() == before
    with pytest.raises(RunError, match="started with another"):
        scr.fit(graph, recipe=QUICK, out=out, resume=True, seed=1)
    file = out / "mine.tsv"
    again = scr.fit(graph, recipe=QUICK, out=out, overwrite=True, seed=1, predictions=file)
    assert file.exists()
    assert (out / "model.safetensors").read_bytes() != before
    source = json.loads((out / "run.json").read_text())["graph"]["source"]
    assert source == str(out / "graph")
    assert again.recipe_.training.refit
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="not a run directory"):
        scr.fit(graph, recipe=QUICK, out=tmp_path / "notes", overwrite=True)


def test_a_folder_of_something_else_is_not_resumed_and_loses_nothing(random_graph, tmp_path):
    graph, out = many_labels(random_graph), tmp_path / "mine"
    (out / "graph").mkdir(parents=True)
    (out / "graph" / "precious.txt").write_text("mine")
    with pytest.raises(RunError, match="holds no run"):
        scr.fit(graph, out=out, resume=True)
    (out / "fit.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"training\.epochs"):
        scr.fit(graph, out=out, resume=True, recipe={"training": {"epochs": 0}})
    assert sorted(path.name for path in out.rglob("*")) == ["fit.json", "graph", "precious.txt"]


def test_a_link_to_a_run_stays_a_link_when_the_run_is_replaced(random_graph, tmp_path):
    graph, link = many_labels(random_graph), tmp_path / "latest"
    scr.fit(graph, recipe=QUICK, out=tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    link.symlink_to(tmp_path / "run")
    scr.fit(graph, recipe=QUICK, out=link, overwrite=True, seed=1)
    assert link.is_symlink()
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "run"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"predictions": "p.xlsx"}, "ends in one of"),
        ({"probabilities": "some"}, "top-K"),
        ({"coverage": 1.5}, "between 0 and 1"),
        ({"predictions": "nowhere/p.csv"}, "a folder that exists"),
        ({"effort": "much"}, "default, best"),
        ({"label": "class"}, "not made from two tables"),
        ({"recipe": {"training": {"epochs": 0}}}, "training.epochs"),
        ({"recipe": {"stages": {"method": "rlu"}}}, "training.refit"),
    ],
)
def test_a_refusal_leaves_nothing(random_graph, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        scr.fit(many_labels(random_graph), out=tmp_path / "run", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_is_resumed_to_the_same_bits(random_graph, tmp_path):
    graph = many_labels(random_graph)
    whole = scr.fit(graph, recipe=QUICK)
    epochs = []
    options = fitting.FitOptions(recipe=(QUICK,))
    watch = fitting.Watch(
        on_epoch=lambda record, total: epochs.append(record.epoch),
        should_stop=lambda: len(epochs) == 2,
    )
    tables = fitting._fit.TableOptions()
    with pytest.raises(KeyboardInterrupt):
        fitting.fit_run(graph, None, tmp_path / "run", tables=tables, options=options, watch=watch)
    resumed = scr.fit(graph, recipe=QUICK, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())


def test_several_targets_per_node(random_graph, tmp_path):
    labels = np.random.default_rng(0).integers(0, 2, (60, 2)).astype(np.int8)
    graph = random_graph(labels=labels, train=None, valid=None, test=None)
    scr.fit(graph, recipe=QUICK, out=tmp_path / "run", predictions=tmp_path / "p.jsonl")
    record = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert record["split"] == {"kind": "drawn", "train": 48, "valid": 12, "test": 0}
    assert record["held_out"]["nodes"] == 12
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len(rows) == 60
    with pytest.raises(ConfigError, match="several targets"):
        scr.fit(graph, coverage=0.9)


def test_the_best_within_a_time_holds_every_label_out(random_graph, tmp_path, monkeypatch):
    members = {"first": {}, "base": {"regularizer": "none"}}
    monkeypatch.setattr("scr.tuning._portfolio.read_portfolio", lambda typed: members)
    graph = random_graph()
    out = tmp_path / "run"
    scr.fit(graph, recipe=QUICK, out=out, effort="best", time_limit=None)
    record = json.loads((out / "fit.json").read_text())
    assert record["split"] == {"kind": "folds", "train": 12, "valid": 12, "test": 36}
    assert record["held_out"]["nodes"] == 24
    assert record["tried"] == 2


def test_ctrl_c_says_how_to_resume(random_graph, tmp_path, capsys, monkeypatch):
    many_labels(random_graph).save(tmp_path / "store")
    arguments = ["fit", tmp_path / "store", "--out", tmp_path / "run"]
    arguments += ["--set", "training.epochs=4"]
    monkeypatch.setattr("sys.argv", ["scr", *map(str, arguments)])

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("scr.classifier.NodeClassifier.fit", stopped)
        assert command(*arguments) == 130
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == f"Stopped; continue with: scr {' '.join(map(str, arguments))} --resume"
    assert command(*arguments, "--resume") == 0
    assert (tmp_path / "run" / "predictions.csv").exists()


def test_one_ctrl_c_stops_training_on_folds(random_graph, tmp_path, capsys, monkeypatch):
    without_split(random_graph()).save(tmp_path / "store")
    arguments = ["fit", tmp_path / "store", "--out", tmp_path / "run"]
    real = tuning._race.run_trial

    def pressed(*given, **settings):
        signal.raise_signal(signal.SIGINT)
        return real(*given, **settings)

    monkeypatch.setattr("scr.tuning._race.run_trial", pressed)
    assert command(*arguments, "--set", "training.epochs=2") == 130
    assert "continue with: scr" in capsys.readouterr().out
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_labels_that_all_differ_are_no_classes(random_graph):
    graph = without_split(random_graph())
    names = tuple(map(str, range(60)))
    graph = dataclasses.replace(graph, labels=np.arange(60), class_names=names)
    with pytest.raises(GraphError, match="all different"):
        scr.fit(graph)


def test_folds_that_were_stopped_are_resumed_to_the_same_bits(random_graph, tmp_path, monkeypatch):
    graph, out = without_split(random_graph()), tmp_path / "run"
    whole = scr.fit(graph, recipe=QUICK)
    calls, real = [], tuning._race.run_trial

    def stopped(*arguments, **settings):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    with monkeypatch.context() as patched:
        patched.setattr("scr.tuning._race.run_trial", stopped)
        with pytest.raises(KeyboardInterrupt):
            scr.fit(graph, recipe=QUICK, out=out)
    assert not (out / "metrics.json").exists()
    resumed = scr.fit(graph, recipe=QUICK, out=out, resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())


def test_the_gain_of_a_term_is_that_of_pairs():
    gain = TermGain.of(*map(np.array, ([0, 0, 1, 1], [0, 0, 1, 0], [0, 1, 1, 0])))
    assert (gain.with_term, gain.without_term) == (0.75, 0.5)
    # One of four nodes is won: the standard error of the mean of 0, 1, 0, 0.
    assert gain.error == pytest.approx(np.sqrt(3 / 16) / 2)
