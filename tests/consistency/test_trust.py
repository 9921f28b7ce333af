"""Trust in pseudo labels: high where features tell classes apart, none where they do not."""

import numpy as np
import pytest

from scr.consistency import agreement_beyond_chance, trusted_share


def blobs(distance, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(300) % 3
    centers = np.eye(3, 8) * distance
    return centers[labels] + generator.standard_normal((300, 8)), labels


def test_separated_classes_are_trusted_and_noise_is_not():
    assert agreement_beyond_chance(*blobs(8.0)) > 0.95
    assert agreement_beyond_chance(*blobs(0.0)) < 0.15


def test_agreement_is_scikit_learns_cross_validation():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.preprocessing import StandardScaler

    rows, labels = blobs(2.0)
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    model = LogisticRegression(C=1e3)
    predicted = cross_val_predict(model, StandardScaler().fit_transform(rows), labels, cv=folds)
    expected = ((predicted == labels).mean() - 1 / 3) / (2 / 3)
    assert agreement_beyond_chance(rows, labels) == pytest.approx(expected, abs=0.04)


def test_wide_features_are_rotated_without_changing_the_answer():
    rows, labels = blobs(2.0)
    wide = np.concatenate([rows, np.zeros((300, 400))], axis=1)
    narrow = agreement_beyond_chance(rows, labels)
    assert agreement_beyond_chance(wide, labels) == pytest.approx(narrow, abs=0.01)


def test_a_class_between_two_others_is_seen():
    """Least squares would mask the middle one of three classes on a line."""
    generator = np.random.default_rng(0)
    labels = np.arange(300) % 3
    rows = labels[:, None] * 4.0 + generator.standard_normal((300, 1))
    assert agreement_beyond_chance(rows, labels) > 0.9


def test_too_few_labels_to_judge_means_full_trust():
    assert agreement_beyond_chance(np.ones((4, 2)), np.array([0, 1, 0, 1])) == 1.0


def test_the_share_is_a_clipped_line():
    assert [trusted_share(value) for value in (-0.2, 0.15, 0.2, 0.25, 1.0)] == [0, 0, 0.5, 1, 1]


def test_many_classes_with_small_gradients_are_judged_all_the_same():
    """A solver that stops before its first step would call these features worthless."""
    generator = np.random.default_rng(0)
    labels = np.arange(900) % 45
    rows = np.eye(45)[labels] + 0.1 * generator.standard_normal((900, 45))
    assert agreement_beyond_chance(rows, labels) > 0.9
