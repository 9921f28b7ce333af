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


def test_agreement_is_that_of_scikit_learns_ridge():
    from sklearn.linear_model import Ridge

    from scr.consistency.trust import RIDGE

    rows, labels = blobs(2.0)
    order = np.random.default_rng(0).permutation(300)
    rows_, labels_ = rows[order], labels[order]
    right = 0
    for fold in range(5):
        held = np.arange(300) % 5 == fold
        centered = rows_[~held] - rows_[~held].mean(0)
        penalty = RIDGE * np.square(centered).sum(1).mean()
        model = Ridge(alpha=penalty).fit(rows_[~held], np.eye(3)[labels_[~held]])
        right += (model.predict(rows_[held]).argmax(1) == labels_[held]).sum()
    expected = (right / 300 - 1 / 3) / (2 / 3)
    assert agreement_beyond_chance(rows, labels) == pytest.approx(expected)


def test_wide_features_take_the_dual_form_with_the_same_answer():
    rows, labels = blobs(2.0)
    wide = np.concatenate([rows, np.zeros((300, 400))], axis=1)
    assert agreement_beyond_chance(wide, labels) == agreement_beyond_chance(rows, labels)


def test_too_few_labels_to_judge_means_full_trust():
    assert agreement_beyond_chance(np.ones((4, 2)), np.array([0, 1, 0, 1])) == 1.0


def test_the_share_is_a_clipped_line():
    assert [trusted_share(value) for value in (-0.2, 0.15, 0.25, 0.35, 1.0)] == [0, 0, 0.5, 1, 1]
