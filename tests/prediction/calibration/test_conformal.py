"""Prediction sets: the quantile by hand, and the coverage that theory gives."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import betabinom

from scr.errors import ConfigError, GraphError
from scr.prediction.calibration import prediction_sets, score_limit
from scr.prediction.calibration._conformal import score_limits

NAMES = ("red", "green", "blue")


def drawn(nodes, shares, generator):
    """Probabilities of three classes with these shares, and labels that fit them roughly."""
    labels = generator.choice(3, nodes, p=shares)
    logits = 1.5 * generator.standard_normal((nodes, 3)) + 2 * np.eye(3)[labels] * [0.3, 1, 2]
    return softmax(logits, axis=1), labels


def scores_of(probabilities, labels):
    return 1 - probabilities[np.arange(len(labels)), labels]


def test_the_limit_is_the_stated_score_in_order():
    # ceil(10 * 0.9) = 9 of 9; ceil(10 * 0.5) = 5; ceil(10 * 0.51) = 6
    scores = np.array([0.9, 0.1, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6])
    assert score_limit(scores, 0.9) == 0.9
    assert score_limit(scores, 0.5) == 0.5
    assert score_limit(scores, 0.51) == 0.6


@given(st.integers(1, 400), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_the_limit_is_numpys_quantile_or_needs_more_nodes(nodes, coverage):
    scores = np.random.default_rng(nodes).random(nodes)
    wanted = math.ceil(round((nodes + 1) * coverage, 6))
    if wanted > nodes:
        needed = round(coverage / (1 - coverage))
        assert nodes < needed
        with pytest.raises(GraphError, match=f"at least {needed} for sets"):
            score_limit(scores, coverage)
    else:
        # Half a node less: of 181 scores, 91 / 181 is rounded to the 92nd.
        expected = np.quantile(scores, (wanted - 0.5) / nodes, method="inverted_cdf")
        assert score_limit(scores, coverage) == expected


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 90, "much", None, float("nan")])
def test_a_coverage_is_a_share(coverage):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        score_limit([0.5] * 100, coverage)


def test_the_coverage_is_that_of_theory():
    """With distinct scores, k of m new nodes are covered as a beta-binomial says (Vovk 2012)."""
    generator, coverage, valid, new, repeats = np.random.default_rng(0), 0.9, 60, 50, 2_000
    covered = np.empty(repeats)
    for repeat in range(repeats):
        probabilities, labels = drawn(valid + new, [0.2, 0.3, 0.5], generator)
        scores = scores_of(probabilities, labels)
        limit = score_limit(scores[:valid], coverage)
        sets = prediction_sets(probabilities[valid:], limit)
        covered[repeat] = sets[np.arange(new), labels[valid:]].sum()
    position = math.ceil((valid + 1) * coverage)
    theory = betabinom(new, position, valid + 1 - position)
    assert covered.mean() == pytest.approx(theory.mean(), abs=4 * theory.std() / repeats**0.5)
    assert covered.std() == pytest.approx(theory.std(), rel=0.1)
    assert coverage <= theory.mean() / new < coverage + 1 / (valid + 1)


def test_per_class_limits_keep_the_coverage_where_classes_are_shifted():
    """Validation nodes are balanced; of the others nearly all have the class hardest to tell."""
    generator = np.random.default_rng(1)
    known, known_labels = drawn(6_000, [1 / 3, 1 / 3, 1 / 3], generator)
    new, labels = drawn(20_000, [0.9, 0.05, 0.05], generator)
    scores, coverage = scores_of(known, known_labels), {}
    for per_class in (False, True):
        limits = score_limits(scores, known_labels, 0.9, NAMES, per_class=per_class)
        inside = prediction_sets(new, limits)[np.arange(len(labels)), labels]
        coverage[per_class] = inside.mean()
        if per_class:
            for number in range(3):
                assert inside[labels == number].mean() == pytest.approx(0.9, abs=0.025)
    assert coverage[False] < 0.85
    assert coverage[True] == pytest.approx(0.9, abs=0.015)


def test_a_class_with_too_few_nodes_is_named():
    scores, labels = np.linspace(0, 1, 25), np.repeat([0, 1, 2], [10, 10, 5])
    with pytest.raises(GraphError, match=r"5 labeled validation nodes of the class `blue`.* 9 "):
        score_limits(scores, labels, 0.9, NAMES, per_class=True)


@given(st.integers(0, 50), st.floats(0.3, 0.95))
def test_sets_that_are_not_empty_hold_the_likeliest_class(seed, coverage):
    probabilities, labels = drawn(80, [0.2, 0.3, 0.5], np.random.default_rng(seed))
    sets = prediction_sets(probabilities, score_limit(scores_of(probabilities, labels), coverage))
    filled = sets.any(axis=1)
    assert sets[filled, probabilities[filled].argmax(axis=1)].all()


def test_more_coverage_only_adds_classes():
    probabilities, labels = drawn(200, [0.2, 0.3, 0.5], np.random.default_rng(2))
    scores = scores_of(probabilities, labels)
    small, large = (prediction_sets(probabilities, score_limit(scores, c)) for c in (0.7, 0.95))
    assert (small <= large).all()
    assert small.sum() < large.sum()
