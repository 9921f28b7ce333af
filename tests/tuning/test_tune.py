"""A portfolio raced over folds, and the run that it leaves."""

import dataclasses
import json
import time

import numpy as np
import pytest

import scr
from scr.errors import ConfigError, RunError
from scr.metrics import classification_metrics
from scr.prediction import read_model
from scr.tuning import Effort, _race, _tune, fold_graphs, tune
from scr.tuning._trials import HELD_OUT

PORTFOLIO = {
    "first": {},
    "base": {"regularizer": "none", "handicap": 0.01},
    "far": {"encoder": {"name": "ssgc", "mixture": "last"}, "propagation": {"hops": 2}},
}
SHORT = [{"training": {"epochs": 4, "select_after": 0.0}, "consistency": {"warmup": 1}}]
EFFORT = Effort(time_limit=None, jobs=1, portfolio=PORTFOLIO)


def tuned(graph, out, effort=EFFORT, **settings):
    return tune(graph, out, effort, layers=SHORT, **settings)


def test_the_answer_is_the_mean_of_models_each_trained_without_a_fold(random_graph, tmp_path):
    graph = random_graph()
    predictor = tuned(graph, tmp_path / "run")
    content = json.loads((tmp_path / "run" / "ensemble.json").read_text())
    assert {trial["name"] for trial in content["trials"]} == set(PORTFOLIO)
    assert sum(each["weight"] for each in content["models"]) == pytest.approx(1)
    expected = np.zeros((graph.num_nodes, graph.num_classes))
    for each in content["models"]:
        folder = tmp_path / "run" / each["folder"]
        model, split = read_model(folder), np.load(folder / "split.npz")
        fold = dataclasses.replace(graph, train=split["train"], valid=split["valid"])
        alone = scr.NodeClassifier.load(folder, graph=fold).predict_proba()
        assert model.recipe.postprocess.calibrate == "none"
        expected += each["weight"] * alone
    temperature = predictor.model.calibration.temperature
    tempered = expected ** (1 / temperature)
    tempered /= tempered.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predictor.probabilities(None, None), tempered, rtol=1e-4, atol=1e-6)


def test_figures_on_known_labels_are_of_models_that_did_not_see_them(random_graph, tmp_path):
    graph = random_graph()
    predictor = tuned(graph, tmp_path / "run")
    graphs, folders = fold_graphs(graph), sorted({
        (tmp_path / "run" / each["folder"]).parent
        for each in json.loads((tmp_path / "run" / "ensemble.json").read_text())["models"]
    })  # fmt: skip
    soft = np.mean(
        [
            np.concatenate([np.load(folder / f"fold-{fold}" / HELD_OUT) for fold in range(5)])
            for folder in folders
        ],
        axis=0,
    )
    labels = np.concatenate([each.labels[each.valid] for each in graphs])
    expected = classification_metrics(labels, predictor.model.calibration.apply(soft))
    assert predictor.summary()["valid"] == pytest.approx(expected)


def test_test_labels_decide_nothing(random_graph, tmp_path):
    graph = random_graph()
    labels = np.array(graph.labels)
    labels[graph.test] = np.random.default_rng(1).permutation(labels[graph.test])
    other = dataclasses.replace(graph, labels=labels)
    one, two = tuned(graph, tmp_path / "a"), tuned(other, tmp_path / "b")
    np.testing.assert_array_equal(one.probabilities(None, None), two.probabilities(None, None))


def test_a_stopped_search_goes_on_where_it_was(random_graph, tmp_path, monkeypatch):
    graph, whole = random_graph(), tuned(random_graph(), tmp_path / "whole")
    trained, run_trial = [], _race.run_trial

    def stopped(member, *arguments, **settings):
        if len(trained) == 2:
            raise RuntimeError("killed")
        trained.append(member.name)
        return run_trial(member, *arguments, **settings)

    monkeypatch.setattr(_race, "run_trial", stopped)
    with pytest.raises(RuntimeError):
        tuned(graph, tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.json").exists()
    with pytest.raises(RunError, match="exists already"):
        tuned(graph, tmp_path / "run")
    monkeypatch.setattr(_race, "run_trial", run_trial)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob(HELD_OUT)}
    assert len(before) == 2
    resumed = tuned(graph, tmp_path / "run", resume=True)
    kept = [path for path in before if path.exists()]
    assert kept
    assert all(path.stat().st_mtime_ns == before[path] for path in kept)
    np.testing.assert_array_equal(
        resumed.probabilities(None, None), whole.probabilities(None, None)
    )
    unused = tmp_path / "run" / "models" / "unused"
    (unused / "fold-0").mkdir(parents=True)  # as if killed before it was removed
    again = tuned(graph, tmp_path / "run", resume=True)
    assert again.summary() == resumed.summary()
    assert not unused.exists()


def test_a_search_that_is_killed_while_it_writes_goes_on_as_well(
    random_graph, tmp_path, monkeypatch
):
    def killed(*_arguments, **_settings):
        raise RuntimeError("killed")

    # The best is not the first, by which the run was started.
    effort = dataclasses.replace(EFFORT, portfolio={**PORTFOLIO, "first": {"handicap": 0.9}})
    whole = tuned(random_graph(), tmp_path / "whole", effort)
    for method in ("write_predictions", "explain", "metrics"):
        with monkeypatch.context() as patch:
            patch.setattr(_tune.EnsemblePredictor, method, killed)
            with pytest.raises(RuntimeError):
                tuned(random_graph(), tmp_path / "run", effort, resume=True)
    resumed = tuned(random_graph(), tmp_path / "run", effort, resume=True)
    np.testing.assert_array_equal(
        resumed.probabilities(None, None), whole.probabilities(None, None)
    )


def test_folds_of_other_settings_are_not_taken_for_these(random_graph, tmp_path):
    from scr.tuning import portfolio
    from scr.tuning._trials import Trial, run_trial

    graphs = fold_graphs(random_graph())
    one, other = (
        portfolio(graphs[0], layers=[*SHORT, {"training": {"weight_decay": decay}}],
                  tables={"first": {}})[0]
        for decay in (0.001, 0.002)
    )  # fmt: skip
    limits = {"seed": 0, "device": "cpu", "deadline": None}
    assert run_trial(one, graphs, [0], tmp_path, **limits).folds.keys() == {0}
    assert Trial.read(other, tmp_path).folds == {}
    assert run_trial(other, graphs, [0], tmp_path, **limits).folds.keys() == {0}
    assert Trial.read(one, tmp_path).folds == {}


def test_ctrl_c_ends_the_search_and_keeps_what_was_found(random_graph, tmp_path, monkeypatch):
    run_trial, count = _race.run_trial, []

    def interrupted(*arguments, **settings):
        if len(count) == 2:
            raise KeyboardInterrupt
        count.append(1)
        return run_trial(*arguments, **settings)

    monkeypatch.setattr(_race, "run_trial", interrupted)
    predictor = tuned(random_graph(), tmp_path / "run")
    tried = json.loads((tmp_path / "run" / "ensemble.json").read_text())["trials"]
    assert [trial["folds"] for trial in tried] == [1, 1]
    assert predictor.summary()["test_accuracy"] is not None


def test_without_time_the_first_member_is_the_answer(random_graph, tmp_path):
    effort = dataclasses.replace(EFFORT, time_limit=1e-3)
    tuned(random_graph(), tmp_path / "run", effort)
    tried = json.loads((tmp_path / "run" / "ensemble.json").read_text())["trials"]
    assert [(trial["name"], trial["folds"]) for trial in tried] == [("first", 1)]


def test_the_clock_keeps_a_share_for_the_end():
    clock = _race.Clock(time.time() - 50, 100)
    assert clock.passed(0.5)
    assert not clock.passed(0.6)
    assert not _race.Clock(0, None).passed(0.0)


def test_optuna_proposes_settings_near_the_best(random_graph, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    from scr.tuning import _refine

    monkeypatch.setattr(_refine, "MOST_PROPOSALS", 3)
    effort = dataclasses.replace(EFFORT, time_limit=10_000.0)
    tuned(random_graph(), tmp_path / "run", effort)
    tried = json.loads((tmp_path / "run" / "ensemble.json").read_text())["trials"]
    near = [trial for trial in tried if trial["name"].startswith("near-")]
    assert len(near) == 3
    assert len({trial["settings"]["encoder"]["dropout"] for trial in near}) == 3
    assert all(trial["settings"]["training"]["epochs"] == 4 for trial in near)


def test_what_mattered_is_the_best_score_with_each_value():
    trials = [
        {"settings": {"encoder": {"name": "ssgc"}, "propagation": {"hops": 2}}, "score": 0.8},
        {"settings": {"encoder": {"name": "ssgc"}, "propagation": {"hops": 4}}, "score": 0.7},
        {"settings": {"encoder": {"name": "mlp"}, "propagation": {"hops": 2}}, "score": 0.5},
    ]
    found = _tune.what_mattered(trials)
    assert [(row["setting"], row["best"]) for row in found] == [
        ("encoder.name", {"ssgc": 0.8, "mlp": 0.5}),
        ("propagation.hops", {"2": 0.8, "4": 0.7}),
    ]


class TestClassifier:
    """`effort="best"` in Python."""

    @pytest.fixture
    def fitted(self, random_graph, monkeypatch):
        monkeypatch.setattr("scr.tuning._portfolio.read_portfolio", lambda typed: PORTFOLIO)
        monkeypatch.setattr("scr.engines._local._cores", lambda: 1)
        graph = random_graph()
        classifier = scr.NodeClassifier(
            effort="best", time_limit=None, epochs=4, select_after=0.0, consistency={"warmup": 1}
        )
        return graph, classifier.fit(graph)

    def test_it_is_saved_and_loaded_like_any_other(self, fitted, tmp_path):
        graph, classifier = fitted
        path = classifier.save(tmp_path / "run")
        loaded = scr.NodeClassifier.load(path, graph=graph)
        np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
        assert loaded.summary() == classifier.summary()
        assert loaded.score("test") == classifier.summary()["test_accuracy"]
        assert loaded.explain().tables() == classifier.explain().tables()
        assert loaded.predict_sets(coverage=0.5).shape == (graph.num_nodes, graph.num_classes)
        assert loaded.best_epoch_ >= 1
        with pytest.raises(RunError, match="exists already"):
            classifier.save(path)

    def test_nodes_that_were_not_there_are_predicted(self, fitted, random_graph):
        _, classifier = fitted
        other = random_graph(seed=0, nodes=60)
        np.testing.assert_allclose(
            classifier.predict_proba(graph=other), classifier.predict_proba(), atol=1e-6
        )

    def test_a_page_shows_what_was_tried(self, fitted, tmp_path):
        from scr.report.page import run_page

        _, classifier = fitted
        page = run_page(classifier.save(tmp_path / "run"))
        assert "What was tried" in page
        assert all(name in page for name in PORTFOLIO)

    def test_a_module_of_ones_own_is_refused(self, random_graph):
        import torch

        classifier = scr.NodeClassifier(torch.nn.Linear(8, 3), effort="best")
        with pytest.raises(ConfigError, match="module of your own"):
            classifier.fit(random_graph())

    def test_other_efforts_are_refused(self):
        with pytest.raises(ConfigError, match="one of default, best"):
            scr.NodeClassifier(effort="most")


@pytest.mark.parametrize(
    "damage",
    [
        "{}",
        '{"models": [{"folder": "../x", "weight": 1}]}',
        '{"models": [{"folder": "models/a", "weight": -1}]}',
    ],
)
def test_a_damaged_list_of_models_is_refused(damage, tmp_path):
    from scr.errors import StoreError
    from scr.prediction import read_ensemble

    (tmp_path / "ensemble.json").write_text(damage)
    with pytest.raises(StoreError, match=r"may be damaged|has no `models`"):
        read_ensemble(tmp_path)


def test_those_that_may_go_on_are_compared_by_the_same_folds(random_graph, tmp_path):
    graphs = fold_graphs(random_graph())
    race = _race.Race(_race.Shared(graphs, tmp_path), _race.Clock(0, None))

    def trial(name, right_per_fold):
        folds = {}
        for fold, right in enumerate(right_per_fold):
            labels = graphs[fold].labels[graphs[fold].valid]
            soft = np.eye(3, dtype=np.float32)[(labels + 1) % 3]
            soft[:right] = np.eye(3, dtype=np.float32)[labels[:right]]
            folds[fold] = soft
        return _race.Trial(_race.Member(name, None), tmp_path / name, folds)

    # `new` is better on the only fold that it has, `old` was tried on three.
    found = race._best([trial("old", [3, 4, 4]), trial("new", [4]), trial("bad", [1])], wanted=3)
    assert [each.member.name for each in found] == ["new", "old", "bad"]
    found = race._best([trial("old", [3, 4, 4]), trial("new", [4])], wanted=5)
    assert [each.member.name for each in found] == ["old"]
