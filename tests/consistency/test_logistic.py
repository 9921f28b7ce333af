"""Logistic regression, folds and kappa against scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score

from scr.consistency import linear_accuracy
from scr.consistency._logistic import cohens_kappa, predicted_classes, stratified_folds


def drawn(seed, nodes=120, columns=6, classes=4):
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), generator.integers(classes, size=nodes - classes)])
    return generator.normal(size=(nodes, columns)) + 0.6 * labels[:, None] / classes, labels


@pytest.mark.parametrize("classes", [2, 3, 9])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_those_of_scikit_learn(classes, seed):
    rows, labels = drawn(seed, classes=classes)
    others = np.random.default_rng(99).normal(size=(500, rows.shape[1]))
    for steps in (3, 40):
        model = LogisticRegression(C=100.0, max_iter=steps, tol=1e-5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            expected = model.fit(rows, labels).predict(others)
        settings = {"inverse_penalty": 100.0, "steps": steps, "tolerance": 1e-5}
        found = predicted_classes(rows, labels, others, **settings)
        np.testing.assert_array_equal(found, expected)


@given(
    st.lists(st.integers(0, 4), min_size=12, max_size=60).filter(
        lambda codes: min(np.bincount(codes)[np.unique(codes)]) >= 3
    ),
    st.integers(0, 3),
)
def test_folds_are_those_of_scikit_learn(codes, seed):
    codes = np.array(codes)
    expected = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=seed)
    pairs = zip(stratified_folds(codes, 3, 2, seed), expected.split(codes, codes), strict=True)
    for found, theirs in pairs:
        np.testing.assert_array_equal(found[0], theirs[0])
        np.testing.assert_array_equal(found[1], theirs[1])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_kappa_is_that_of_scikit_learn(pairs):
    first, second = np.array(pairs).T
    if len(np.unique(pairs)) > 1:
        assert cohens_kappa(first, second) == cohen_kappa_score(first, second)


def test_accuracy_is_that_of_scikit_learn_by_a_splitter_of_theirs():
    rows, labels = drawn(5)
    rows = rows - rows.mean(axis=0)
    rows /= np.sqrt(np.square(rows).sum(axis=1).mean())
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=1, random_state=0)
    model = LogisticRegression(C=100.0, max_iter=40, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = cross_val_score(model, rows, labels, cv=folds).mean()
    assert linear_accuracy(rows, labels, folds) == expected
