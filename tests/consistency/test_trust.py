"""Trust in pseudo labels: high where features tell classes apart, none where they do not."""

import numpy as np
import pytest
import scipy.sparse as sp

from scr.consistency import (
    agreement_beyond_chance,
    neighbor_agreement,
    trusted_share,
    usual_agreement,
)


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


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_few_labels_per_class_are_enough_to_tell_noise_from_signal(count):
    """Noise where neighbors disagree, signal where they agree: what is usual is 0 and 1/2."""
    shares = {0.0: [], 8.0: []}
    for distance, found in shares.items():
        for seed in range(10):
            rows, labels = blobs(distance, seed)
            few = np.concatenate([np.flatnonzero(labels == each)[:count] for each in range(3)])
            usual = usual_agreement(0.0 if distance == 0 else 0.1)
            agreement = agreement_beyond_chance(rows[few], labels[few], usual=usual)
            found.append(trusted_share(agreement))
    assert shares[8.0] == [1.0] * 10
    assert np.mean(shares[0.0]) < 0.3


def test_few_nodes_are_averaged_with_what_is_usual():
    """Rows that are all equal are at chance; 4 nodes at 0 and 5 at 1/2 make 2.5/9."""
    labels = np.array([0, 1, 0, 1])
    assert agreement_beyond_chance(np.ones((4, 2)), labels) == pytest.approx(2.5 / 9)


def test_a_rare_class_does_not_spoil_the_folds_of_the_others():
    rows, labels = blobs(8.0)
    labels = labels.copy()
    labels[:2] = 3  # two nodes of a fourth class, which five folds cannot hold
    assert agreement_beyond_chance(rows, labels) > 0.9


def test_where_nothing_can_be_held_out_the_usual_counts():
    for labels in (np.arange(3), np.zeros(3, dtype=int)):
        assert agreement_beyond_chance(np.eye(3), labels, usual=0.3) == 0.3


def ring(colors):
    """Each node has an edge to the next one, both ways."""
    nodes = len(colors)
    indices = np.stack([np.roll(np.arange(nodes), 1), np.roll(np.arange(nodes), -1)], axis=1)
    return np.arange(0, 2 * nodes + 1, 2), indices.ravel()


@pytest.mark.parametrize("sparse", [False, True])
def test_the_agreement_of_neighbors_is_cohens_kappa(sparse):
    # Colors in pairs around a ring: of the two neighbors of a node one agrees; chance is one half.
    colors = np.tile([0, 0, 1, 1], 500)
    features = np.eye(2, 3, dtype=np.float32)[colors]
    given = sp.csr_array(features) if sparse else features
    indptr, indices = ring(colors)
    found = neighbor_agreement(given, indptr, indices, np.eye(2, 3))
    assert found == pytest.approx(0.0, abs=0.05)
    halves = np.repeat([0, 1], 1000)
    features = np.eye(2, 3, dtype=np.float32)[halves]
    assert neighbor_agreement(features, *ring(halves), np.eye(2, 3)) > 0.99


def test_neighbors_without_anything_in_common_with_the_examples_say_nothing():
    features = np.eye(4, dtype=np.float32)[np.full(20, 2)]
    assert neighbor_agreement(features, *ring(features), np.eye(2, 4)) is None
    no_edges = np.zeros(21, int), np.zeros(0, int)
    assert neighbor_agreement(features, *no_edges, np.eye(2, 4)) is None


def test_the_share_is_a_clipped_line():
    assert [trusted_share(value) for value in (-0.2, 0.15, 0.2, 0.25, 1.0)] == [0, 0, 0.5, 1, 1]


def test_many_classes_with_small_gradients_are_judged_all_the_same():
    """A solver that stops before its first step would call these features worthless."""
    generator = np.random.default_rng(0)
    labels = np.arange(900) % 45
    rows = np.eye(45)[labels] + 0.1 * generator.standard_normal((900, 45))
    assert agreement_beyond_chance(rows, labels) > 0.9
