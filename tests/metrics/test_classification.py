import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError
from scr.metrics import classification_metrics, confusion_matrix, per_class_table, reliability_curve


def random_predictions(seed: int, nodes: int = 200, classes: int = 5):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(classes), nodes)
    return generator.integers(0, classes, nodes), probabilities


@pytest.mark.parametrize("seed", range(3))
def test_metrics_agree_with_scikit_learn(seed):
    labels, probabilities = random_predictions(seed)
    predictions = probabilities.argmax(axis=1)
    metrics = classification_metrics(labels, probabilities)
    assert metrics["accuracy"] == pytest.approx(np.mean(labels == predictions))
    assert metrics["balanced_accuracy"] == pytest.approx(
        sklearn.metrics.balanced_accuracy_score(labels, predictions)
    )
    assert metrics["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(labels, predictions, average="macro")
    )
    assert metrics["log_loss"] == pytest.approx(
        sklearn.metrics.log_loss(labels, probabilities, labels=range(5))
    )


def test_classes_absent_from_the_labels_stay_out_of_balanced_accuracy():
    # Class 2 has no label, but row 3 predicts it; class 3 occurs nowhere.
    labels = np.array([0, 0, 1, 1])
    predictions = np.array([0, 0, 1, 2])
    probabilities = np.full((4, 4), 0.1)
    probabilities[np.arange(4), predictions] = 0.7
    metrics = classification_metrics(labels, probabilities)
    assert metrics["balanced_accuracy"] == pytest.approx((1 + 0.5) / 2)
    # F1 is 1, 2/3 and, for the predicted but absent class, 0.
    assert metrics["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert metrics["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(labels, predictions, average="macro")
    )


def test_rows_with_an_unknown_label_do_not_count():
    labels, probabilities = random_predictions(0)
    hidden = labels.copy()
    hidden[50:] = -1
    assert classification_metrics(hidden, probabilities) == classification_metrics(
        labels[:50], probabilities[:50]
    )


def test_metrics_of_no_labels_are_none():
    metrics = classification_metrics(np.array([-1, -1]), np.full((2, 3), 1 / 3))
    assert set(metrics.values()) == {None}


def test_a_probability_of_zero_gives_a_finite_log_loss():
    metrics = classification_metrics(np.array([0]), np.array([[0.0, 1.0]], dtype=np.float32))
    assert metrics["log_loss"] == pytest.approx(-np.log(2.0**-23))


def test_calibration_error_is_the_one_worked_by_hand():
    # Bins of width 1/15. (11/15, 12/15] holds 0.75 and 0.80: accuracy 1/2, confidence 0.775.
    # (13/15, 14/15] holds 0.9, right. (14/15, 1] holds 1.0, wrong.
    confidence = np.array([0.75, 0.80, 0.90, 1.00])
    correct = np.array([True, False, True, False])
    curve = reliability_curve(confidence, correct)
    expected = (2 * abs(0.5 - 0.775) + abs(1 - 0.9) + abs(0 - 1.0)) / 4
    assert curve.calibration_error == pytest.approx(expected)
    assert curve.nodes.tolist() == [0] * 11 + [2, 0, 1, 1]
    assert curve.accuracy[11] == pytest.approx(0.5)
    assert np.isnan(curve.accuracy[0])


def test_calibration_error_of_always_sure_and_always_right_is_zero():
    probabilities = np.eye(3)
    assert classification_metrics(np.arange(3), probabilities)["calibration_error"] == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_every_node_falls_in_one_bin_that_holds_its_confidence(pairs):
    confidence, correct = zip(*pairs, strict=True)
    curve = reliability_curve(confidence, correct)
    assert curve.nodes.sum() == len(pairs)
    assert 0 <= curve.calibration_error <= 1
    filled = curve.nodes > 0
    assert (curve.confidence[filled] <= curve.edges[1:][filled] + 1e-9).all()
    assert (curve.confidence[filled] >= curve.edges[:-1][filled] - 1e-9).all()


def test_confusion_matrix_agrees_with_scikit_learn():
    labels, probabilities = random_predictions(1)
    predictions = probabilities.argmax(axis=1)
    np.testing.assert_array_equal(
        confusion_matrix(labels, predictions, classes=5),
        sklearn.metrics.confusion_matrix(labels, predictions),
    )


def test_per_class_table_agrees_with_scikit_learn():
    labels, probabilities = random_predictions(2)
    predictions = probabilities.argmax(axis=1)
    rows = per_class_table(confusion_matrix(labels, predictions, classes=5), list("abcde"))
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(
        labels, predictions
    )
    assert [row["class"] for row in rows] == list("abcde")
    assert [row["nodes"] for row in rows] == support.tolist()
    assert [row["precision"] for row in rows] == pytest.approx(precision.tolist())
    assert [row["recall"] for row in rows] == pytest.approx(recall.tolist())
    assert [row["f1"] for row in rows] == pytest.approx(f1.tolist())


def test_per_class_measures_without_meaning_are_none():
    rows = per_class_table(np.array([[2, 0], [0, 0]]))
    assert rows[1] == {
        "class": "1", "nodes": 0, "predicted": 0, "recall": None, "precision": None, "f1": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "probabilities", "message"),
    [
        ([0, 1], np.ones((3, 2)), "shape"),
        ([0, 2], np.full((2, 2), 0.5), "A label is 2"),
        ([0], np.array([[np.nan, 1.0]]), "not finite"),
    ],
)
def test_wrong_input_is_named(labels, probabilities, message):
    with pytest.raises(GraphError, match=message):
        classification_metrics(np.array(labels), probabilities)
