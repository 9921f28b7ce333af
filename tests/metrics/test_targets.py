"""Measures of several yes-or-no targets against scikit-learn, target by target."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError
from scr.metrics import METRICS, effective_nodes, target_metrics


def drawn(seed, rows=60, targets=4, unknown=0.3):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, (rows, targets)).astype(np.int8)
    labels[generator.random(labels.shape) < unknown] = -1
    return labels, np.round(generator.uniform(0.01, 0.99, labels.shape), 2)


def mean_over_targets(function, labels, values):
    columns = [(y[y >= 0], p[y >= 0]) for y, p in zip(labels.T, values.T, strict=True)]
    return np.mean([function(y, p) for y, p in columns])


@given(st.integers(0, 10_000))
def test_they_are_scikit_learns(seed):
    labels, probabilities = drawn(seed)
    measured = target_metrics(labels, probabilities)
    predicted = probabilities > 0.5
    truth, likely = labels[labels >= 0], probabilities[labels >= 0]
    expected = {
        "accuracy": sklearn.metrics.accuracy_score(truth, likely > 0.5),
        "log_loss": sklearn.metrics.log_loss(truth, likely),
        "roc_auc": mean_over_targets(sklearn.metrics.roc_auc_score, labels, probabilities),
        "macro_f1": mean_over_targets(sklearn.metrics.f1_score, labels, predicted),
        "balanced_accuracy": mean_over_targets(
            sklearn.metrics.balanced_accuracy_score, labels, predicted
        ),
    }
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, abs=1e-6), name


def test_a_target_with_one_label_is_left_out_of_the_area():
    labels, probabilities = drawn(0)
    wider = np.column_stack([labels, np.ones(60, np.int8)])
    both = target_metrics(wider, np.column_stack([probabilities, np.full(60, 0.5)]))
    assert both["roc_auc"] == target_metrics(labels, probabilities)["roc_auc"]


def test_without_known_labels_nothing_is_measured():
    measured = target_metrics(np.full((3, 2), -1), np.full((3, 2), 0.5))
    assert set(measured.values()) == {None}


def test_shapes_that_differ_are_refused():
    with pytest.raises(GraphError, match=r"\(2, 3\) and probabilities \(2, 2\)"):
        target_metrics(np.zeros((2, 3)), np.zeros((2, 2)))


def test_the_metric_of_choice_takes_targets_too():
    labels, probabilities = drawn(1)
    measured = target_metrics(labels, probabilities)
    for metric in METRICS.values():
        assert metric.measure(labels, probabilities) == measured[metric.key]


def test_targets_are_as_uncertain_as_their_rarer_label():
    labels = np.zeros((100, 2), np.int8)
    labels[:10, 0] = labels[:40, 1] = 1
    assert effective_nodes(labels, METRICS["roc-auc"]) == int(4 / (1 / 10 + 1 / 40))
    assert effective_nodes(labels, METRICS["accuracy"]) == 100
