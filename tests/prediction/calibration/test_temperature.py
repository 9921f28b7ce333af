"""Temperature scaling: the optimum, its guards, and what it leaves alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from scr.errors import GraphError
from scr.prediction.calibration import apply_temperature, fit_temperature
from scr.prediction.calibration._temperature import lowest_loss
from scr.report import classification_metrics


def drawn(nodes, classes=4, seed=0, spread=2.0):
    """Logits, and labels that are drawn from their probabilities."""
    generator = np.random.default_rng(seed)
    logits = spread * generator.standard_normal((nodes, classes))
    chances = np.cumsum(softmax(logits, axis=1), axis=1)
    labels = (generator.random((nodes, 1)) > chances[:, :-1]).sum(axis=1)
    return logits, labels


def two_classes(right, wrong, gap):
    """So many nodes right and wrong, all with logits that far apart."""
    return np.tile([gap, 0.0], (right + wrong, 1)), np.repeat([0, 1], [right, wrong])


@pytest.mark.parametrize(("right", "wrong", "gap"), [(60, 40, 3.0), (90, 10, 1.0), (75, 25, 5.0)])
def test_equal_nodes_get_the_confidence_that_is_their_accuracy(right, wrong, gap):
    # sigmoid(gap / T) = accuracy, solved for T
    logits, labels = two_classes(right, wrong, gap)
    temperature = fit_temperature(logits, labels)
    assert temperature == pytest.approx(gap / np.log(right / wrong), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_scipys(seed):
    logits, labels = drawn(300, seed=seed)
    logits *= 2.5

    def loss(log_temperature):
        logs = log_softmax(logits / np.exp(log_temperature[0]), axis=1)
        return -logs[np.arange(300), labels].mean()

    expected = np.exp(minimize(loss, [0.0], method="BFGS", options={"gtol": 1e-9}).x[0])
    assert fit_temperature(logits, labels) == pytest.approx(expected, rel=1e-4)


@given(st.floats(0.5, 2.0), st.integers(0, 20))
def test_logits_times_a_factor_have_a_temperature_times_that_factor(factor, seed):
    logits, labels = drawn(120, seed=seed)
    one = lowest_loss(logits, labels)
    assert lowest_loss(factor * logits, labels) == pytest.approx(factor * one, rel=1e-4)


def test_logits_and_log_probabilities_give_the_same():
    logits, labels = drawn(200)
    logs = log_softmax(3 * logits, axis=1)
    assert fit_temperature(3 * logits, labels) == pytest.approx(fit_temperature(logs, labels))


def test_a_factor_of_many_nodes_is_recovered():
    logits, labels = drawn(20_000)
    assert fit_temperature(3 * logits, labels) == pytest.approx(3, rel=0.03)


def test_the_calibration_error_of_overconfident_predictions_falls():
    logits, labels = drawn(4_000)
    sure = softmax(3 * logits, axis=1).astype(np.float32)
    half = slice(0, 2_000), slice(2_000, None)
    temperature = fit_temperature(np.log(sure[half[0]]), labels[half[0]])
    before, after = (
        classification_metrics(labels[half[1]], each[half[1]])["calibration_error"]
        for each in (sure, apply_temperature(sure, temperature))
    )
    assert before > 0.15
    assert after < 0.04


def test_few_nodes_have_no_temperature():
    logits, labels = two_classes(12, 7, 5.0)
    assert fit_temperature(logits, labels) == 1
    logits, labels = two_classes(12, 8, 5.0)
    assert fit_temperature(logits, labels) > 1


def test_without_gain_on_nodes_left_out_the_temperature_is_1():
    # Calibrated as they are: 3 of 4 nodes are right, with a confidence of 3/4.
    logits, labels = two_classes(75, 25, np.log(3))
    order = np.random.default_rng(0).permutation(100)
    assert fit_temperature(logits[order], labels[order]) == 1


def test_one_class_has_no_temperature():
    assert fit_temperature(np.zeros((30, 1)), np.zeros(30)) == 1


def test_shapes_and_numbers_are_checked():
    with pytest.raises(GraphError, match=r"\(3, 2\) and labels \(2,\)"):
        fit_temperature(np.zeros((3, 2)), [0, 1])
    with pytest.raises(GraphError, match="not finite"):
        fit_temperature(np.full((30, 2), np.nan), np.zeros(30))


ROWS = arrays(np.float32, (5, 3), elements=st.floats(0, 40, width=32))


@given(ROWS, st.floats(0.1, 10))
def test_tempering_keeps_the_class_and_is_the_softmax_of_scaled_logits(logits, temperature):
    before = softmax(logits.astype(np.float64), axis=1).astype(np.float32)
    after = apply_temperature(before, temperature)
    assert after.dtype == np.float32
    np.testing.assert_array_equal(after.argmax(axis=1), before.argmax(axis=1))
    expected = softmax(logits.astype(np.float64) / temperature, axis=1)
    np.testing.assert_allclose(after, expected, rtol=1e-3, atol=1e-6)


def test_rounding_does_not_change_the_class():
    one = np.float32(0.5)
    close = np.array([[one, np.nextafter(one, np.float32(1))]], np.float32)
    assert apply_temperature(close, 10.0).argmax() == 1


def test_a_temperature_of_1_changes_no_bit():
    before = softmax(drawn(10)[0], axis=1).astype(np.float32)
    assert apply_temperature(before, 1.0) is before


def test_probabilities_of_0_stay_finite():
    after = apply_temperature(np.array([[1.0, 0.0]], np.float32), 5.0)
    assert np.isfinite(after).all()
    # The smallest normal float32 is 2**-126.
    assert after[0, 1] == pytest.approx(2 ** (-126 / 5), rel=1e-4)


def test_parts_make_the_same(monkeypatch):
    from scr.prediction.calibration import _temperature

    before = softmax(drawn(100)[0], axis=1).astype(np.float32)
    whole = apply_temperature(before, 2.0)
    monkeypatch.setattr(_temperature, "ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(apply_temperature(before, 2.0), whole)
