"""A model's calibration: what it changes, what it leaves alone, and how it is stored."""

import json
import re
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax

from scr.classifier import NodeClassifier
from scr.cli import main
from scr.errors import ConfigError, GraphError, RunError, StoreError
from scr.graph import open_store
from scr.prediction.calibration import Calibration, apply_temperature
from scr.report.page import run_page

QUICK = {"epochs": 6, "evaluate_every": 2, "preset": "none", "learning_rate": 0.01}


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def fitted(graph, **settings):
    return NodeClassifier("ssgc", "none", **QUICK, **settings).fit(graph)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    from tests.conftest import make_random_graph

    made = make_random_graph(nodes=300, edges=900, class_names=("ant", "bee", "cat"))
    return open_store(made.save(tmp_path_factory.mktemp("graph") / "store"))


@pytest.fixture(scope="module")
def classifier(graph):
    return fitted(graph)


@pytest.fixture(scope="module")
def run(classifier, tmp_path_factory):
    return classifier.save(tmp_path_factory.mktemp("runs") / "run")


def test_only_probabilities_change_not_training_nor_classes(graph, classifier):
    plain = fitted(graph, postprocess={"calibrate": "none"})
    assert plain.summary()["temperature"] == 1
    temperature = classifier.summary()["temperature"]
    assert temperature < 0.9  # six epochs: right more often than it dares to say
    for name, weight in plain.module_.state_dict().items():
        assert weight.equal(classifier.module_.state_dict()[name])
    drop = ("seconds",)
    histories = [
        [{key: value for key, value in epoch.items() if key not in drop} for epoch in each.history_]
        for each in (plain, classifier)
    ]
    assert histories[0] == histories[1]
    np.testing.assert_array_equal(plain.predict(), classifier.predict())
    expected = softmax(np.log(plain.predict_proba().astype(np.float64)) / temperature, axis=1)
    np.testing.assert_allclose(classifier.predict_proba(), expected, rtol=1e-4, atol=1e-6)


def test_the_run_says_what_the_temperature_did(graph, classifier):
    plain = fitted(graph, postprocess={"calibrate": "none"})
    assert plain.notes_ == []
    (note,) = classifier.notes_
    summary = classifier.summary()
    errors = summary["calibration_error"]
    assert errors["test"]["before"] == plain.metrics("test")["calibration_error"]
    assert errors["test"]["after"] == classifier.metrics("test")["calibration_error"]
    assert summary["test"]["log_loss"] < plain.metrics("test")["log_loss"]
    said = f"{errors['valid']['before']:.1%} -> {errors['valid']['after']:.1%}"
    assert note == (
        f"Probabilities were tempered by {summary['temperature']:.3g}: calibration error on "
        f"validation nodes {said}"
    )


def test_a_stored_run_gives_the_same_probabilities_and_sets(graph, classifier, run):
    loaded = NodeClassifier.load(run)
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
    np.testing.assert_allclose(
        loaded.predict_proba(graph=graph), classifier.predict_proba(), rtol=1e-4
    )
    for per_class in (False, True):
        own, stored = (each.predict_sets(None, 0.8, per_class) for each in (classifier, loaded))
        np.testing.assert_array_equal(own, stored)
    assert loaded.notes_ == classifier.notes_
    assert loaded.metrics("test") == classifier.metrics("test")


def test_new_nodes_need_no_labels(graph, classifier, run):
    import dataclasses

    bare = dataclasses.replace(
        graph, labels=np.full(300, -1), train=graph.train[:0], valid=graph.valid[:0],
        test=graph.test[:0], path=None, source=None,
    )  # fmt: skip
    sets = NodeClassifier.load(run).predict_sets(coverage=0.9, graph=bare)
    np.testing.assert_array_equal(sets, classifier.predict_sets(coverage=0.9))


def test_sets_hold_the_classes_of_as_many_validation_nodes_as_the_quantile_says(graph, classifier):
    labels, valid = np.asarray(graph.labels), np.asarray(graph.valid)
    sets = classifier.predict_sets(valid, coverage=0.75)
    inside = sets[np.arange(len(valid)), labels[valid]]
    # Of 60 nodes, as many as ceil(61 * 0.75) = 46 have a score up to the limit.
    assert len(valid) == 60
    assert inside.sum() == 46


def test_a_file_has_sets_beside_predictions(graph, classifier, run, tmp_path):
    file = tmp_path / "predictions.parquet"
    assert scr("predict", run, "--out", file, "--coverage", "0.9", "--probabilities", "none") == 0
    rows = pq.read_table(file).to_pylist()
    sets = classifier.predict_sets(coverage=0.9)
    expected = [[graph.class_names[each] for each in np.flatnonzero(row)] for row in sets]
    assert [row["prediction_set"] for row in rows] == expected
    assert [row["set_size"] for row in rows] == sets.sum(axis=1).tolist()
    assert [row["confidence"] for row in rows] == classifier.predict_proba().max(axis=1).tolist()
    other = tmp_path / "per-class.parquet"
    assert scr("predict", run, "--out", other, "--coverage", "0.9", "--per-class") == 0
    sizes = classifier.predict_sets(coverage=0.9, per_class=True).sum(axis=1)
    assert pq.read_table(other)["set_size"].to_pylist() == sizes.tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--coverage", "1.5"), "between 0 and 1"),
        (("--coverage", "0.99"), "expected at least 99 for sets with a coverage of 0.99"),
        (("--coverage", "0.97", "--per-class"), "of the class `ant`"),
        (("--per-class",), "--coverage 0.9 --per-class"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_anything_is_written(
    run, tmp_path, capsys, options, said
):
    assert scr("predict", run, "--out", tmp_path / "p.parquet", *options) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def altered(run, folder, change):
    """A copy of a run with another `run.json`."""
    import shutil

    copy = shutil.copytree(run, folder / "copy")
    record = json.loads((copy / "run.json").read_text())
    change(record)
    (copy / "run.json").write_text(json.dumps(record))
    (copy / "checksums.json").unlink()
    return copy


def test_runs_of_earlier_versions_load_without_a_temperature(graph, classifier, run, tmp_path):
    old = altered(run, tmp_path, lambda record: record.pop("temperature"))
    (old / "calibration.npz").unlink()
    loaded = NodeClassifier.load(old)
    plain = fitted(graph, postprocess={"calibrate": "none"}).predict_proba()
    np.testing.assert_array_equal(loaded.predict_proba(), plain)
    with pytest.raises(RunError, match="no scores of validation nodes"):
        loaded.predict_sets()


@pytest.mark.parametrize("temperature", [0, -1, "warm", None, 1e9])
def test_a_stored_temperature_is_checked(run, tmp_path, temperature):
    copy = altered(run, tmp_path, lambda record: record.update(temperature=temperature))
    with pytest.raises(StoreError, match=r"run\.json.* has the temperature"):
        NodeClassifier.load(copy)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.5, np.nan], [0, 1]),
        ([0.5, 1.5], [0, 1]),
        ([0.5], [0, 1]),
        ([0.5, 0.5], [0, 3]),
        ([[0.5, 0.5]], [[0, 1]]),
    ],
)
def test_stored_scores_are_checked(run, tmp_path, scores, labels):
    copy = altered(run, tmp_path, lambda record: None)
    np.savez(copy / "calibration.npz", scores=np.array(scores), labels=np.array(labels))
    with pytest.raises(StoreError, match=r"calibration\.npz` is damaged"):
        NodeClassifier.load(copy)


def test_a_truncated_file_of_scores_is_refused(run, tmp_path):
    copy = altered(run, tmp_path, lambda record: None)
    content = (copy / "calibration.npz").read_bytes()
    (copy / "calibration.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match=r"calibration\.npz` cannot be read"):
        NodeClassifier.load(copy)


def test_members_that_are_no_arrays_are_refused(run, tmp_path):
    copy = altered(run, tmp_path, lambda record: None)
    with zipfile.ZipFile(copy / "calibration.npz", "w") as archive:
        archive.writestr("scores.npy", "no array")
        archive.writestr("labels.npy", "no array")
    with pytest.raises(StoreError, match=r"calibration\.npz` cannot be read"):
        NodeClassifier.load(copy)


def test_few_validation_nodes_give_no_temperature_and_few_promises(random_graph):
    made = fitted(random_graph(nodes=60))  # 12 of them validate
    assert made.summary()["temperature"] == 1
    assert made.notes_ == []
    assert made.predict_sets([3, 5], 0.9).shape == (2, 3)
    with pytest.raises(GraphError, match="There are 12 labeled validation nodes; expected at leas"):
        made.predict_sets(coverage=0.95)


def test_without_validation_nodes_nothing_is_calibrated(random_graph, tmp_path):
    made = fitted(random_graph(valid=None), select="last")
    assert made.summary()["temperature"] == 1
    loaded = NodeClassifier.load(made.save(tmp_path / "run"), graph=random_graph(valid=None))
    np.testing.assert_array_equal(loaded.predict_proba(), made.predict_proba())
    with pytest.raises(GraphError, match="There are 0 labeled validation nodes"):
        loaded.predict_sets()


def test_correct_and_smooth_starts_from_tempered_probabilities(run, capsys, tmp_path):
    copy = altered(run, tmp_path, lambda record: None)
    assert scr("smooth", copy, "--set", "postprocess.calibrate=none") == 2
    assert "training decided it" in " ".join(capsys.readouterr().err.split())
    assert scr("smooth", copy) == 0


def test_a_recipe_says_so_only_where_nothing_is_calibrated(graph):
    default = NodeClassifier("ssgc", "none").resolve(graph).tables()
    assert "postprocess" not in default
    without = NodeClassifier("ssgc", "none", postprocess={"calibrate": "none"}).resolve(graph)
    assert without.tables()["postprocess"]["calibrate"] == "none"
    with pytest.raises(ConfigError, match=r"postprocess\.calibrate"):
        NodeClassifier("ssgc", postprocess={"calibrate": "platt"}).resolve(graph)


def test_the_page_shows_calibration_before_and_after(classifier, run):
    errors = classifier.summary()["calibration_error"]["test"]
    page = " ".join(run_page(run).split())
    _, _, table = page.partition("Calibration before and after</caption>")
    row = re.search(r">test nodes</th>(.*?)</tr>", table)[1]
    shown = re.findall(r">([\d.]+)<", row)
    assert shown == [f"{100 * errors[when]:.1f}" for when in ("before", "after")]


def test_probabilities_that_are_not_finite_are_left_alone():
    found = Calibration.of(np.full((30, 2), np.nan, np.float32), np.zeros(30, np.int64))
    assert (found.temperature, found.scores) == (1, None)


def test_an_average_of_probabilities_is_calibrated_as_one_model():
    generator = np.random.default_rng(0)
    truth = softmax(2 * generator.standard_normal((2_000, 3)), axis=1)
    labels = (generator.random((2_000, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    sure = apply_temperature(truth.astype(np.float32), 0.25)
    found = Calibration.of(sure, labels)
    assert found.temperature == pytest.approx(4, rel=0.1)
    np.testing.assert_allclose(found.apply(sure), truth, atol=0.05)
