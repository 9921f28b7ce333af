"""Curves over one setting: their numbers and what is said about them, against numbers by hand."""

import csv
import io

import pytest
from scipy import stats

from scr.report import summarize, sweep_cautions, sweep_csv, sweep_curves, sweep_headline
from scr.report._sensitivity import curve_sentence, hurting_ends

# Per seed: what the split is worth. It is the same for every value, so pairing must remove it.
SPLITS = (0.00, 0.10, -0.05, 0.02)
# Per seed and value: noise that pairing does not remove.
NOISE = (0.001, -0.001, 0.002, -0.002)


def made(effects, *, regularizer="scr", setting="consistency.weight", valid=None, noise=NOISE):
    """Runs whose accuracy is 0.8 + split + effect (+ noise), per value and seed."""
    return [
        {
            "setting": setting, "regularizer": regularizer, "value": value, "seed": seed,
            "test_accuracy": 0.8 + split + effect + noise[seed] * (place % 2),
            "valid_accuracy": 0.8 + split + (valid or effects)[value],
        }
        for place, (value, effect) in enumerate(effects.items())
        for seed, split in enumerate(SPLITS)
    ]  # fmt: skip


BASE = made({0.0: 0.0}, regularizer="none", noise=(0, 0, 0, 0))


def curve_of(effects, **settings):
    return sweep_curves(made(effects, **settings), BASE)[0]


def test_a_point_has_mean_spread_and_the_paired_difference_to_the_base():
    point = curve_of({0.1: 0.01, 1.0: 0.03})["points"][1]
    values = [0.8 + split + 0.03 + noise for split, noise in zip(SPLITS, NOISE, strict=True)]
    assert point["test_mean"] == pytest.approx(sum(values) / 4)
    assert point["test_std"] == pytest.approx(stats.tstd(values))
    gap = point["test_difference"]
    interval = stats.ttest_rel(values, [0.8 + split for split in SPLITS]).confidence_interval(0.95)
    assert gap["mean"] == pytest.approx(0.03)
    assert (gap["low"], gap["high"]) == pytest.approx((interval.low, interval.high))
    assert gap["verdict"] == "better"


def test_points_come_by_rising_value_whatever_the_order_of_the_runs():
    curve = sweep_curves(list(reversed(made({0.1: 0, 1.0: 0, 10.0: 0}))), BASE)[0]
    assert [point["value"] for point in curve["points"]] == [0.1, 1.0, 10.0]


def test_an_inner_best_value_with_two_bad_ends_says_that_both_hurt():
    curve = curve_of({0.1: 0.01, 1.0: 0.03, 10.0: -0.02})
    assert curve["best"] == 1.0
    assert curve["lower"]["difference"]["mean"] == pytest.approx(-0.02)
    assert curve["upper"]["difference"]["mean"] == pytest.approx(-0.05)
    assert curve["span"] == pytest.approx(0.05)
    assert hurting_ends(curve) == "both"
    sentence = curve_sentence(curve)
    assert sentence.startswith(
        "consistency.weight with scr: an inner value is best, 1 by validation accuracy; "
        "lower end (0.1) −2.00 points (95% interval −2.29 to −1.71), worse; "
        "upper end (10) −5.00 points"
    )
    assert "Too small and too large both hurt" in sentence
    assert "At 1: +3.00 points of test accuracy against the base" in sentence
    assert sentence.endswith("Means span 5.00 points.")


@pytest.mark.parametrize(
    ("effects", "ends", "phrase"),
    [
        ({0.1: 0.0, 1.0: 0.02, 10.0: 0.0199}, "small", "Too small hurts, too large not clearly"),
        ({0.1: 0.0199, 1.0: 0.02, 10.0: 0.0}, "large", "Too large hurts, too small not clearly"),
        ({0.1: 0.0199, 1.0: 0.02, 10.0: 0.0199}, "neither", "Neither clearly hurts"),
        ({0.1: 0.0, 1.0: 0.02, 10.0: 0.05}, "small", "the largest value tried is best"),
        ({0.1: 0.05, 1.0: 0.02, 10.0: 0.0}, "large", "the smallest value tried is best"),
        ({0.1: 0.0, 1.0: 0.0}, "neither", "The other end does not clearly hurt"),
    ],
)
def test_each_shape_has_its_own_words(effects, ends, phrase):
    curve = curve_of(effects)
    assert hurting_ends(curve) == ends
    assert phrase in curve_sentence(curve)


def test_the_best_value_is_chosen_on_validation_nodes_not_on_test_nodes():
    test, valid = {0.1: 0.05, 1.0: 0.0, 10.0: 0.0}, {0.1: 0.0, 1.0: 0.01, 10.0: 0.0}
    curve = curve_of(test, valid=valid)
    assert curve["best"] == 1.0
    assert curve["lower"]["difference"]["verdict"] == "better"
    assert hurting_ends(curve) == "neither"


def test_without_test_nodes_differences_are_of_validation_accuracy():
    runs = [{**run, "test_accuracy": None} for run in made({0.1: 0.0, 1.0: 0.02})]
    curve = sweep_curves(runs, BASE)[0]
    assert curve["measured_on"] == "valid"
    assert "points of validation accuracy" in curve_sentence(curve)


def test_one_seed_gives_no_interval_and_no_claim():
    runs = [run for run in made({0.1: 0.0, 1.0: 0.03, 10.0: 0.0}) if run["seed"] == 0]
    curve = sweep_curves(runs, BASE)[0]
    sentence = curve_sentence(curve)
    assert "hurt" not in sentence
    assert "95%" not in sentence
    assert "on a single seed" in sentence
    assert "use more seeds" in sweep_headline([curve])


def test_a_setting_that_changed_no_run_is_said_to_have_no_effect():
    curve = curve_of({0.1: 0.01, 1.0: 0.01}, noise=(0, 0, 0, 0))
    assert curve_sentence(curve).endswith("so it had no effect here.")


def test_only_seeds_in_common_are_paired():
    curve = sweep_curves(made({0.1: 0.0, 1.0: 0.03}), BASE[:2])[0]
    assert curve["points"][0]["n"] == 4
    assert curve["points"][0]["test_difference"]["pairs"] == 2


def test_the_headline_counts_the_shapes():
    both = curve_of({0.1: 0.0, 1.0: 0.02, 10.0: 0.0})
    flat = curve_of({0.1: 0.0, 1.0: 0.0}, setting="consistency.temperature")
    assert sweep_headline([both, flat]) == (
        "Of 2 curves, in 1 too small and too large values both hurt, in 1 neither end is clearly "
        "worse than the best value."
    )
    assert sweep_headline([]).startswith("There is nothing to show")


def test_cautions_name_many_ends_and_weights_turned_down():
    curve = curve_of({0.1: 0.0, 1.0: 0.02, 10.0: 0.0})
    assert sweep_cautions([curve]) == []
    assert "6 ends" in sweep_cautions([curve] * 3)[0]
    notes = ["Consistency weight turned down from 1 to 0.5: held-out", "something else"]
    assert sweep_cautions([curve], notes)[0].startswith("In 1 run the consistency weight")


def test_the_table_has_a_row_per_point_and_one_for_the_base():
    curves = sweep_curves(made({0.1: 0.0, 1.0: 0.03}), BASE)
    base = summarize({run["seed"]: run for run in BASE}, {}, 0.0)
    rows = list(csv.DictReader(io.StringIO(sweep_csv(curves, base))))
    assert [(row["setting"], row["value"], row["seeds"]) for row in rows] == [
        ("", "", "4"),
        ("consistency.weight", "0.1", "4"),
        ("consistency.weight", "1", "4"),
    ]
    assert rows[0]["test_difference"] == ""
    assert float(rows[2]["test_difference"]) == pytest.approx(0.03)
