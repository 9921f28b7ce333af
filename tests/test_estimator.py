"""The conventions of scikit-learn, and names: classes and ids are the user's own."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.metrics import ConfusionMatrixDisplay, accuracy_score, confusion_matrix
from sklearn.utils.validation import check_is_fitted

import scr
from scr.errors import ConfigError, GraphError, RunError, SCRError
from scr.prediction import NodeIds
from scr.sources._digits import digits

QUICK = {"epochs": 6, "evaluate_every": 2}
NAMES = ["zebra", "ape", "lion"]


@pytest.fixture(scope="module")
def graph():
    """Three well separated classes with names, and ids that are text."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    features = np.eye(3)[labels] * 3 + rng.normal(size=(60, 3))
    edges = np.stack([np.arange(60), np.roll(np.arange(60), 1)])
    order = rng.permutation(60)
    return scr.Graph.from_edges(
        edges, features=features, labels=labels, class_names=NAMES,
        ids=[f"n{number:02d}" for number in np.arange(60)[::-1]],
        train=order[:20], valid=order[20:40], test=order[40:],
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted(graph):
    return scr.NodeClassifier("ssgc", "none", seed=1, epochs=40, evaluate_every=2).fit(graph)


def test_a_clone_has_the_same_settings_and_no_model(graph, fitted):
    given = scr.NodeClassifier(
        {"name": "gamlp", "hidden": 8}, "scr", seed=np.int64(3), recipe=[{"data": {}}],
        consistency={"weight": 0.5}, **QUICK,
    )  # fmt: skip
    copied = clone(given)
    assert copied.get_params() == given.get_params()
    assert given.epochs == copied.epochs == 6
    assert copied.encoder is not given.encoder
    with pytest.raises(RunError, match="no model"):
        clone(fitted).predict()
    again = clone(fitted).fit(graph)
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())


def test_a_module_of_ones_own_is_cloned(graph):
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(3))
    first = scr.NodeClassifier(module, "none", **QUICK)
    second = clone(first)
    assert second.encoder is not module
    assert type(second.encoder) is torch.nn.Sequential


def test_parameters_are_all_arguments_of_the_constructor():
    params = scr.NodeClassifier("sign", epochs=3).get_params()
    assert params["encoder"] == "sign"
    assert params["epochs"] == 3
    assert params["regularizer"] is params["recipe"] is None
    assert "patience" not in params  # left to the preset


def test_set_params_counts_at_the_next_fit(graph):
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph)
    assert classifier.set_params(epochs=2, seed=5, patience=7) is classifier
    assert classifier.get_params()["patience"] == 7
    expected = scr.NodeClassifier("ssgc", "none", seed=5, epochs=2, evaluate_every=2, patience=7)
    np.testing.assert_array_equal(
        classifier.fit(graph).predict_proba(), expected.fit(graph).predict_proba()
    )
    assert classifier.recipe_.training.patience == 7
    classifier.encoder = "mlp"  # an attribute is the setting
    assert classifier.resolve(graph).encoder == "mlp"


@pytest.mark.parametrize(
    "wrong", [{"epocs": 3}, {"effort": "worst"}, {"encoder": 3}], ids=["name", "effort", "encoder"]
)
def test_set_params_refuses_and_changes_nothing(wrong):
    classifier = scr.NodeClassifier("ssgc", epochs=3)
    before = classifier.get_params()
    with pytest.raises(ConfigError):
        classifier.set_params(seed=9, **wrong)
    assert classifier.get_params() == before


def test_a_setting_does_not_hide_a_method():
    with pytest.raises(ConfigError, match="`score` is a method"):
        scr.NodeClassifier(score=3)


def test_scikit_learn_knows_a_classifier_and_whether_it_is_fitted(fitted):
    assert is_classifier(fitted)
    check_is_fitted(fitted)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(scr.NodeClassifier())


def test_scikit_learn_and_pandas_are_imported_when_they_are_needed():
    code = (
        "import sys, scr; scr.NodeClassifier(epochs=3).get_params(); "
        "print([name for name in ('sklearn', 'pandas', 'matplotlib') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
    )
    assert run.stdout.strip() == "[]"


def test_classes_and_predictions_have_the_users_names(graph, fitted):
    assert fitted.classes_.tolist() == NAMES
    assert fitted.n_features_in_ == 3
    expected = np.array(NAMES)[fitted.predict_proba().argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(), expected)
    truth = np.array(NAMES)[graph.labels[graph.test]]
    assert accuracy_score(truth, fitted.predict(graph.ids[graph.test])) == fitted.score("test")
    np.testing.assert_array_equal(
        fitted.predictor_.predict(None, None), fitted.predict_proba().argmax(axis=1)
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("2", "0", "7"), [2, 0, 7]),
        (("-1", "0", "1"), [-1, 0, 1]),
        (("01", "1", "2"), ["01", "1", "2"]),
        (("1.0", "2", "3"), ["1.0", "2", "3"]),
        (("1", "2", str(10**19)), ["1", "2", str(10**19)]),
    ],
)
def test_classes_are_integers_if_all_names_are(graph, names, expected):
    named = dataclasses.replace(graph, class_names=names)
    classes = scr.NodeClassifier("mlp", "none", epochs=1).fit(named).classes_
    assert classes.tolist() == expected
    assert classes.dtype.kind == ("i" if isinstance(expected[0], int) else "U")


def test_nodes_are_named_by_their_ids(graph, fitted):
    every = fitted.predict_proba()
    some = ["n05", "n59", "n05"]
    np.testing.assert_allclose(fitted.predict_proba(some), every[[54, 0, 54]], rtol=1e-4)
    assert fitted.predict("n05").tolist() == fitted.predict()[[54]].tolist()
    sets = fitted.predict_sets(coverage=0.5)
    np.testing.assert_array_equal(fitted.predict_sets(some, 0.5), sets[[54, 0, 54]])
    mask = np.zeros(60, bool)
    mask[[3, 4]] = True
    np.testing.assert_allclose(fitted.predict_proba(mask), every[[3, 4]], rtol=1e-4)
    assert fitted.predict_proba([]).shape == (0, 3)
    assert fitted.explain(["n05", "n59"]).nodes == 2


def test_unknown_ids_are_named_in_one_sentence(fitted):
    with pytest.raises(GraphError, match=r"`7`, `x`, `y`, \.\.\. \(4 of 5 are unknown\)"):
        fitted.predict_proba(np.array([7, "x", "n05", "y", "z"], dtype=object))
    with pytest.raises(GraphError, match="expected ids"):
        fitted.predict_proba([0.5])


def test_ids_that_are_numbers_are_not_positions(graph):
    numbered = dataclasses.replace(graph, ids=np.arange(100, 160))
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK).fit(numbered)
    every = classifier.predict_proba()
    np.testing.assert_allclose(classifier.predict_proba([103]), every[[3]], rtol=1e-4)
    by_number = classifier.predictor_.probabilities([3], None)
    np.testing.assert_allclose(by_number, every[[3]], rtol=1e-4)
    with pytest.raises(GraphError, match="`3`"):
        classifier.predict_proba([3])
    # Of another graph, its own ids count.
    other = dataclasses.replace(graph, ids=np.arange(60) * 2)
    np.testing.assert_allclose(
        classifier.predict_proba([6], graph=other), classifier.predict_proba(graph=other)[[3]],
        rtol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("ids", [None, np.arange(100, 160), [f"{each}" for each in range(60)]])
def test_nodes_may_be_named_by_text_and_by_numbers_of_numpy(graph, ids):
    ids = None if ids is None else np.array(ids)
    numbered = dataclasses.replace(graph, ids=ids)
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK).fit(numbered)
    known = NodeIds.of(numbered)
    name = int(3 if ids is None else ids[3])
    expected = classifier.predictor_.probabilities([3], None)
    same = (name, str(name), np.int64(name), np.uint64(name), np.str_(name))
    for each in same:
        for given in (
            each,
            [each],
            np.array(each),
            [np.array(each)],
            np.array([each]),
            np.array([each], dtype=object),
        ):
            np.testing.assert_array_equal(classifier.predict_proba(given), expected)
            assert known.numbers(given).tolist() == [3]
    for wrong in ("03", 1.5, 10**30, np.uint64(2**63 + 3), "x"):
        with pytest.raises(GraphError):
            classifier.predict_proba([wrong])
        with pytest.raises(GraphError):
            known.numbers([wrong])


def test_everything_is_there_after_loading(graph, fitted, tmp_path):
    run = fitted.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(run)  # without its graph, as long as nobody needs that
    assert loaded.classes_.tolist() == NAMES
    assert loaded.n_features_in_ == 3
    for name in ("history_", "best_epoch_", "stopped_", "notes_", "inactive_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    assert loaded.summary()["test_accuracy"] == fitted.score("test")
    assert loaded._repr_html_() == fitted._repr_html_()
    assert loaded.plot_history().get_title() == "Training: accuracy"
    again = scr.NodeClassifier.load(run, graph=graph)
    np.testing.assert_array_equal(again.predict(["n05"]), fitted.predict(["n05"]))
    refitted = clone(again).set_params(seed=1).fit(graph)
    np.testing.assert_array_equal(refitted.predict_proba(), fitted.predict_proba())


def test_the_frame_is_the_file_of_predictions(graph, fitted, tmp_path):
    frame = fitted.predictions_frame(probabilities="all")
    assert frame.columns.tolist() == [
        "id", "prediction", "confidence", "split", "label",
        "probability_zebra", "probability_ape", "probability_lion",
    ]  # fmt: skip
    assert frame["prediction"].tolist() == fitted.predict().tolist()
    assert frame["id"].tolist() == graph.ids.tolist()
    assert (frame["split"] == "test").sum() == 20
    assert frame["label"].tolist() == np.array(NAMES)[graph.labels].tolist()
    fitted.write_predictions(tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(
        fitted.predictions_frame(), pq.read_table(tmp_path / "p.parquet").to_pandas()
    )
    assert fitted.predictions_frame(["n05", "n01"])["id"].tolist() == ["n05", "n01"]


def test_classes_that_are_numbers_are_numbers_in_the_frame(random_graph):
    classifier = scr.NodeClassifier("ssgc", "none", preset="none", epochs=2).fit(random_graph())
    frame = classifier.predictions_frame()
    assert frame["prediction"].tolist() == classifier.predict().tolist()
    assert frame["label"].tolist() == random_graph().labels.tolist()


def test_without_pandas_one_sentence_says_so(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SCRError, match="pip install pandas"):
        fitted.predictions_frame()


def test_a_notebook_shows_a_small_table(graph, fitted):
    shown = fitted._repr_html_()
    valid = np.mean(fitted.predict()[graph.valid] == np.array(NAMES)[graph.labels[graph.valid]])
    for text in ("fitted", "ssgc", "none", f"{valid:.1%}"):
        assert f"<td>{text}</td>" in shown
    assert "<td>not fitted</td>" in scr.NodeClassifier()._repr_html_()


def test_plots_return_axes_with_what_was_measured(graph, fitted):
    from matplotlib.figure import Figure

    first, second, third = Figure().subplots(1, 3)
    assert fitted.plot_history("loss", ax=first) is first
    line = first.get_lines()[0]
    assert line.get_ydata().tolist() == [each["supervised_loss"] for each in fitted.history_]
    assert fitted.plot_confusion(ax=second) is second
    counts = confusion_matrix(graph.labels[graph.test], fitted.predictor_.predict(graph.test, None))
    shown = {(round(text.get_position()[1]), round(text.get_position()[0])): int(text.get_text())
             for text in second.texts}  # fmt: skip
    assert shown == {cell: counts[cell] for cell in zip(*np.nonzero(counts), strict=True)}
    display = ConfusionMatrixDisplay(counts).plot(ax=Figure().subplots())
    assert second.get_xlim() == display.ax_.get_xlim()
    assert fitted.plot_calibration("valid", ax=third) is third
    error = fitted.metrics("valid")["calibration_error"]
    assert third.get_legend().get_texts()[1].get_text() == f"calibration error {error:.1%}"
    for wrong in (lambda: fitted.plot_history("metric"), lambda: fitted.plot_confusion("tset")):
        with pytest.raises(SCRError, match="expected one of"):
            wrong()


def test_verbose_prints_a_line_per_evaluated_epoch(graph, capsys):
    scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph)
    assert capsys.readouterr().out == ""
    seen = []
    classifier = scr.NodeClassifier("ssgc", "none", verbose=1, **QUICK)
    classifier.fit(graph, on_epoch=lambda record: seen.append(record.epoch))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(classifier.history_) == 3
    assert lines[-1].startswith("epoch 6 of 6: loss ")
    assert f"valid accuracy {classifier.history_[-1]['valid_accuracy']:.1%}" in lines[-1]
    assert seen == [1, 2, 3, 4, 5, 6]


def test_digits_keep_their_numbers():
    graph = digits(seed=0)
    classifier = scr.NodeClassifier("ssgc", "none", epochs=1).fit(graph)
    assert classifier.classes_.tolist() == list(range(10))
    assert classifier.predict().dtype == np.int64
