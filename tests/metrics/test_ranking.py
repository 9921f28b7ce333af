"""ROC AUC against scikit-learn, with ties, absent classes and nothing to rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scr.metrics import roc_auc
from scr.metrics._ranking import area_under_curve


def drawn(seed, rows, classes, *, rounded):
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), generator.integers(0, classes, rows - classes)])
    probabilities = generator.dirichlet(np.ones(classes), rows)
    if rounded:  # many ties
        probabilities = np.round(probabilities, 1)
        probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), 0.1)
        probabilities[:, 0] += 1 - probabilities.sum(axis=1)
    return labels, probabilities


@given(st.integers(0, 10_000), st.integers(8, 60), st.integers(3, 6), st.booleans())
def test_several_classes_agree_with_scikit_learn(seed, rows, classes, rounded):
    labels, probabilities = drawn(seed, rows, classes, rounded=rounded)
    expected = roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
    assert roc_auc(labels, probabilities) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=30))
def test_two_classes_agree_with_scikit_learn(rows):
    positive, scores = (np.array(column) for column in zip(*rows, strict=True))
    if len(set(positive.tolist())) < 2:
        assert area_under_curve(positive, scores) is None
    else:
        assert area_under_curve(positive, scores) == pytest.approx(roc_auc_score(positive, scores))


def test_classes_that_no_row_has_are_left_out():
    labels, probabilities = drawn(0, 40, 3, rounded=False)
    without = roc_auc(labels, probabilities)
    wider = np.concatenate([probabilities, np.full((40, 2), 0.1)], axis=1)
    assert roc_auc(labels, wider) == without


def test_a_single_class_has_no_area():
    assert roc_auc(np.zeros(5, np.int64), np.full((5, 2), 0.5)) is None


def test_the_area_of_four_rows_by_hand():
    # Of the pairs (0.8, 0.4), (0.8, 0.6), (0.6, 0.4), (0.6, 0.6) three are in order, one ties.
    positive = np.array([True, False, True, False])
    assert area_under_curve(positive, np.array([0.8, 0.4, 0.6, 0.6])) == 3.5 / 4
