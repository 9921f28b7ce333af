"""Shares of the classes among unlabeled nodes: estimates of known shares, and what they change."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from typer.testing import CliRunner

from scr import NodeClassifier
from scr.cli import app
from scr.errors import ConfigError, GraphError
from scr.prediction import bbse_shares, correction_gain, em_shares, reweighted
from scr.prediction._class_shares import ClassShares, label_shares

EVEN = np.full(3, 1 / 3)
SHIFTED = np.array([0.7, 0.2, 0.1])


def gaussian_classes(nodes, shares, distance=2.0, seed=0):
    """Labels, and the exact posteriors of Gaussian classes that are equally likely in training."""
    generator = np.random.default_rng(seed)
    centers = distance * np.eye(len(shares))
    labels = generator.choice(len(shares), nodes, p=shares)
    points = generator.normal(size=(nodes, len(shares))) + centers[labels]
    exponents = points @ centers.T
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return labels, weights / weights.sum(axis=1, keepdims=True)


def log_likelihood(predicted, source, shares):
    return float(np.log(predicted @ (shares / source)).mean())


def test_both_estimates_recover_shares_that_the_mean_prediction_misses():
    labels, predicted = gaussian_classes(40_000, SHIFTED)
    valid_labels, valid = gaussian_classes(6_000, EVEN, seed=1)
    true = label_shares(labels, 3)
    # A share of 0.7 of 40,000 nodes is known to 0.2 points; classes overlap, which costs more.
    np.testing.assert_allclose(em_shares(predicted, EVEN), true, atol=0.01)
    np.testing.assert_allclose(bbse_shares(valid, valid_labels, predicted), true, atol=0.02)
    assert np.abs(predicted.mean(axis=0) - true).max() > 0.08


def test_without_a_shift_the_shares_stay_those_of_training():
    _, predicted = gaussian_classes(40_000, EVEN)
    valid_labels, valid = gaussian_classes(6_000, EVEN, seed=1)
    np.testing.assert_allclose(em_shares(predicted, EVEN), EVEN, atol=0.01)
    np.testing.assert_allclose(bbse_shares(valid, valid_labels, predicted), EVEN, atol=0.02)


def test_bbse_holds_for_a_model_that_is_too_sure_of_itself_and_em_does_not():
    labels, predicted = gaussian_classes(40_000, SHIFTED, distance=1.0)
    valid_labels, valid = gaussian_classes(20_000, EVEN, distance=1.0, seed=1)

    def overconfident(probabilities):
        powers = probabilities**6
        return powers / powers.sum(axis=1, keepdims=True)

    true, sure = label_shares(labels, 3), overconfident(predicted)
    by_em = np.abs(em_shares(sure, EVEN) - true).max()
    by_bbse = np.abs(bbse_shares(overconfident(valid), valid_labels, sure) - true).max()
    assert by_bbse < 0.03 < by_em


def test_em_of_two_classes_is_the_root_of_its_likelihood():
    # Scipy finds the share of class 0 at which the derivative of the likelihood is 0.
    _, predicted = gaussian_classes(2_000, np.array([0.8, 0.2]))
    source = np.array([0.5, 0.5])
    best = minimize(
        lambda share: -log_likelihood(predicted, source, np.array([share[0], 1 - share[0]])),
        [0.5], bounds=[(1e-6, 1 - 1e-6)], tol=1e-14,
    ).x[0]  # fmt: skip
    assert em_shares(predicted, source, steps=5_000)[0] == pytest.approx(best, abs=1e-4)


def test_bbse_of_two_classes_is_solved_by_hand():
    # A model that is right on 80% of class 0 and on 90% of class 1 says class 0 with
    # 0.8 q + 0.1 (1 - q); at 45% of the nodes, q is one half.
    confusion = np.array([[0.8, 0.1], [0.2, 0.9]])
    valid, labels = confusion.T, [0, 1]
    assert bbse_shares(valid, labels, [[0.45, 0.55]]) == pytest.approx([0.5, 0.5])
    # Less class 0 than the model would say of class 1 alone: none at all.
    assert bbse_shares(valid, labels, [[0.05, 0.95]]) == pytest.approx([0, 1], abs=1e-6)


def test_bbse_is_the_constrained_least_squares_solution_of_scipy():
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 5, 400)
    valid = 0.5 * np.eye(5)[labels] + 0.5 * generator.dirichlet(np.ones(5), 400)
    predicted = generator.dirichlet([6, 0.2, 3, 0.1, 1], 300)
    confusion = np.stack([valid[labels == each].mean(axis=0) for each in range(5)], axis=1)
    solved = minimize(
        lambda q: ((confusion @ q - predicted.mean(axis=0)) ** 2).sum(), np.full(5, 0.2),
        method="SLSQP", bounds=[(0, 1)] * 5, tol=1e-14,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
    )  # fmt: skip
    found = bbse_shares(valid, labels, predicted)
    assert found.min() == 0  # a bound is active, so this is more than a linear solution
    np.testing.assert_allclose(found, solved.x, atol=1e-4)


def test_bbse_takes_a_class_without_validation_nodes_as_predicted_right():
    valid, labels = [[0.9, 0.1, 0], [0.2, 0.8, 0]], [0, 1]
    mean = 0.5 * np.array([0, 0, 1]) + 0.25 * np.array([1.1, 0.9, 0])
    assert bbse_shares(valid, labels, [mean]) == pytest.approx([0.25, 0.25, 0.5], abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0.05, 5))
def test_no_step_of_em_makes_predictions_less_likely(seed, classes, concentration):
    generator = np.random.default_rng(seed)
    predicted = generator.dirichlet(np.full(classes, concentration), 50)
    source = generator.dirichlet(np.full(classes, 5.0))
    likelihoods = [
        log_likelihood(predicted, source, em_shares(predicted, source, steps=steps))
        for steps in range(12)
    ]
    assert np.diff(likelihoods).min() >= -1e-10
    shares = em_shares(predicted, source)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


def test_reweighting_is_the_rule_of_bayes():
    # Half and half before; three times as common makes 0.6 : 0.4 into 1.8 : 0.4.
    even, target = [0.5, 0.5], [0.75, 0.25]
    found = reweighted(np.array([[0.6, 0.4]], np.float32), even, target)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[1.8 / 2.2, 0.4 / 2.2]], rtol=1e-6)
    # It gives the posteriors of the shifted classes, which minimize the error.
    labels, predicted = gaussian_classes(20_000, SHIFTED)
    before = (predicted.argmax(axis=1) == labels).mean()
    assert (reweighted(predicted, EVEN, SHIFTED).argmax(axis=1) == labels).mean() > before + 0.01


def test_reweighting_leaves_what_it_cannot_weigh():
    predicted = np.array([[0.0, 1.0], [0.5, 0.5]])
    # Nobody should be of class 1, and the first node can be of no other.
    np.testing.assert_array_equal(reweighted(predicted, [0.5, 0.5], [1.0, 0.0]), [[0, 1], [1, 0]])
    # A class that training did not have is not weighed up from nothing.
    assert em_shares(predicted, [1.0, 0.0]).tolist() == [1, 0]


def test_a_gain_is_found_where_classes_differ_in_share_and_none_where_they_do_not():
    _, shifted = gaussian_classes(20_000, SHIFTED, distance=1.0)
    _, even = gaussian_classes(20_000, EVEN, distance=1.0, seed=5)
    labels, valid = gaussian_classes(3_000, EVEN, distance=1.0, seed=1)
    gain = correction_gain(valid, labels, shifted, EVEN, em_shares(shifted, EVEN))
    assert gain.verdict == "helps"
    # The accuracy that it promises is what fresh nodes with these shares show.
    fresh_labels, fresh = gaussian_classes(40_000, SHIFTED, distance=1.0, seed=2)
    right = reweighted(fresh, EVEN, SHIFTED).argmax(axis=1) == fresh_labels
    real = right.mean() - (fresh.argmax(axis=1) == fresh_labels).mean()
    assert gain.accuracy == pytest.approx(real, abs=gain.error)
    assert gain.balanced_accuracy < 0  # rare classes pay for it
    assert correction_gain(valid, labels, even, EVEN, em_shares(even, EVEN)).verdict == "unclear"
    # Shares that nodes do not have.
    wrong = correction_gain(valid, labels, even, EVEN, SHIFTED)
    assert wrong.verdict == "harms"
    assert wrong.accuracy < -wrong.error < 0


@pytest.mark.parametrize("shares", [[0.5, 0.6], [1.5, -0.5], [[0.5, 0.5]]])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(GraphError, match="add up to 1"):
        em_shares([[0.5, 0.5]], shares)


def test_predictions_that_are_none_are_refused():
    with pytest.raises(GraphError, match="finite numbers"):
        em_shares([[np.nan, 1.0]], [0.5, 0.5])
    with pytest.raises(GraphError, match="at least one node"):
        bbse_shares([[0.5, 0.5]], [0], np.empty((0, 2)))


@pytest.fixture
def classifier(random_graph):
    return NodeClassifier(
        {"name": "ssgc", "hidden": 8}, "none", preset="none", epochs=5, learning_rate=0.01
    ).fit(random_graph())


def test_a_run_records_shares_and_predicts_by_them_on_request(classifier, tmp_path):
    graph = classifier._trained().graph
    run = classifier.save(tmp_path / "run")
    recorded = json.loads((run / "metrics.json").read_text())["class_shares"]
    np.testing.assert_allclose(
        recorded["training"], label_shares(graph.labels[graph.train], graph.num_classes)
    )
    plain = classifier.predict_proba()
    others = np.setdiff1d(np.arange(graph.num_nodes), np.concatenate([graph.train, graph.valid]))
    assert recorded["nodes"] == len(others)
    np.testing.assert_allclose(recorded["predicted"], plain[others].mean(axis=0), rtol=1e-5)
    for name in ("em", "bbse"):
        expected = reweighted(plain, recorded["training"], recorded[name])
        found = classifier.predict_proba(class_shares=name)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert set(recorded["gains"][name]) == {
            "accuracy", "error", "balanced_accuracy", "verdict"
        }  # fmt: skip
    again = NodeClassifier.load(run, graph=graph)
    np.testing.assert_array_equal(again.predict_proba(class_shares="em"),
                                  classifier.predict_proba(class_shares="em"))  # fmt: skip
    path = tmp_path / "corrected.parquet"
    again.write_predictions(path, class_shares="bbse")
    stored = pq.read_table(path)["confidence"].to_numpy()
    np.testing.assert_allclose(stored, found.max(axis=1), rtol=1e-6)


def test_the_command_corrects_predictions_and_names_the_estimates(
    classifier, random_graph, tmp_path
):
    from scr.graph import write_store

    write_store(random_graph(), tmp_path / "store")
    run = classifier.save(tmp_path / "run", source=str(tmp_path / "store"))
    out = tmp_path / "out.parquet"
    command = ["predict", str(run), "--out", str(out), "--class-shares"]
    assert CliRunner().invoke(app, [*command, "em"]).exit_code == 0
    stored = pq.read_table(out)["confidence"].to_numpy()
    expected = classifier.predict_proba(class_shares="em").max(axis=1)
    np.testing.assert_allclose(stored, expected, rtol=1e-6)
    refused = CliRunner().invoke(app, [*command, "guess", "--overwrite"])
    assert refused.exit_code == 2
    assert "expected one of none, em, bbse" in " ".join(refused.output.split())


def test_another_graph_has_shares_of_its_own(classifier, random_graph):
    other = random_graph()
    plain = classifier.predict_proba(graph=other)
    # The same graph: the same shares.
    np.testing.assert_allclose(
        classifier.predict_proba(graph=other, class_shares="bbse"),
        classifier.predict_proba(class_shares="bbse"), rtol=1e-4, atol=1e-6,
    )  # fmt: skip
    assert not np.array_equal(plain, classifier.predict_proba(graph=other, class_shares="bbse"))


def test_bbse_without_validation_nodes_is_refused_in_one_sentence():
    shares = ClassShares.estimated(
        np.array([0.5, 0.5]), np.array([[0.9, 0.1]]), np.empty((0, 2)), np.empty(0, np.int64)
    )
    assert shares.tables()["bbse"] is None
    assert shares.gains == {}
    with pytest.raises(ConfigError, match="no validation nodes"):
        shares.corrected(np.array([[0.9, 0.1]], np.float32), "bbse")
