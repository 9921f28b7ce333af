"""The metrics that can be chosen, against scikit-learn, and how uncertain each is."""

import numpy as np
import pytest
import sklearn.metrics

from scr.metrics import METRICS, effective_nodes, metric_of

LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 1])
PROBABILITIES = np.random.default_rng(3).dirichlet(np.ones(3), len(LABELS))
PREDICTED = PROBABILITIES.argmax(axis=1)
EXPECTED = {
    "accuracy": sklearn.metrics.accuracy_score(LABELS, PREDICTED),
    "balanced": sklearn.metrics.balanced_accuracy_score(LABELS, PREDICTED),
    "macro-f1": sklearn.metrics.f1_score(LABELS, PREDICTED, average="macro"),
    "roc-auc": sklearn.metrics.roc_auc_score(LABELS, PROBABILITIES, multi_class="ovr"),
    "log-loss": sklearn.metrics.log_loss(LABELS, PROBABILITIES),
}


@pytest.mark.parametrize("name", METRICS)
def test_each_is_scikit_learns(name):
    assert METRICS[name].measure(LABELS, PROBABILITIES) == pytest.approx(EXPECTED[name])


def test_rows_without_a_label_do_not_count():
    labels = np.append(LABELS, -1)
    rows = np.append(PROBABILITIES, [[1.0, 0.0, 0.0]], axis=0)
    for name, metric in METRICS.items():
        assert metric.measure(labels, rows) == pytest.approx(EXPECTED[name])
        assert metric.measure([-1], [[0.5, 0.5]]) is None


def test_records_that_name_no_metric_are_of_accuracy():
    assert metric_of({}).name == "accuracy"
    assert metric_of({"metric": "roc-auc"}).key == "roc_auc"


def test_a_mean_over_classes_is_as_uncertain_as_its_rarest_class():
    labels = np.repeat([0, 1], [990, 10])
    assert effective_nodes(labels, METRICS["accuracy"]) == 1000
    # The standard error of a mean of two recalls r: sqrt(r(1 - r) (1/990 + 1/10)) / 2.
    assert effective_nodes(labels, METRICS["balanced"]) == int(4 / (1 / 990 + 1 / 10))
    assert effective_nodes(labels, METRICS["roc-auc"]) == 20
    assert effective_nodes(np.repeat([0, 1, 2], 50), METRICS["macro-f1"]) == 150


def test_the_uncertainty_of_balanced_accuracy_is_that_of_many_draws():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [200, 40, 10])
    hits = generator.random((4000, len(labels))) < 0.7
    balanced = np.mean([hits[:, labels == each].mean(axis=1) for each in range(3)], axis=0)
    predicted = np.sqrt(0.7 * 0.3 / effective_nodes(labels, METRICS["balanced"]))
    assert predicted == pytest.approx(balanced.std(), rel=0.05)
