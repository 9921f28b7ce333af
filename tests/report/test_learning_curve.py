"""What a learning curve says, from runs whose means and differences are worked by hand."""

import csv
import io

import numpy as np
import pytest
from scipy import stats

from scr.report import curve_csv, curve_points, curve_sentences, inactive_runs, last_step

ACCURACIES = {
    (5, "none"): [0.60, 0.62, 0.64],
    (5, "scr"): [0.66, 0.68, 0.73],
    (10, "none"): [0.70, 0.71, 0.72],
    (10, "scr"): [0.74, 0.72, 0.76],
}
RUNS = [
    {"labels_per_class": size, "train_labels": 3 * size, "regularizer": name, "seed": seed,
     "test_accuracy": accuracy}
    for (size, name), each in ACCURACIES.items()
    for seed, accuracy in enumerate(each)
]  # fmt: skip


def test_points_are_means_and_paired_differences():
    first, second = curve_points(RUNS)
    assert (first["labels_per_class"], first["train_labels"]) == (5, 15)
    assert first["base"]["test_mean"] == pytest.approx(0.62)
    assert second["regularized"]["test_std"] == pytest.approx(0.02)
    gaps = np.subtract(ACCURACIES[10, "scr"], ACCURACIES[10, "none"])
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    assert second["difference"]["mean"] == pytest.approx(0.03)
    assert (second["difference"]["low"], second["difference"]["high"]) == pytest.approx((low, high))


def test_the_last_step_is_between_the_two_largest_numbers_of_labels():
    step = last_step(RUNS)
    assert (step["before"], step["after"]) == (5, 10)
    assert step["base"]["mean"] == pytest.approx(0.09)
    assert step["regularized"]["mean"] == pytest.approx(0.05)
    assert last_step([run for run in RUNS if run["labels_per_class"] == 5]) is None


def test_sentences_say_what_was_measured_and_no_more():
    first, second, third = curve_sentences(curve_points(RUNS), last_step(RUNS), "scr", 40)
    assert "71.0% are right without scr and 74.0% with it: +3.00 points" in first
    assert second.startswith("The last doubling of the labels, from 5 to 10 labels per class, ")
    assert "+5.00 points" in second
    assert "+9.00 points" in second
    assert second.endswith("What more labels would bring was not measured.")
    assert "40 held-out labels" in third
    assert "2.5 points" in third
    assert len(curve_sentences(curve_points(RUNS), None, "scr", 400)) == 1


def test_a_step_that_is_no_doubling_is_not_called_one():
    runs = [{**run, "labels_per_class": 2 * run["labels_per_class"] - 5} for run in RUNS]
    (_, step) = curve_sentences(curve_points(runs), last_step(runs), "scr", 400)
    assert step.startswith("Going from 5 to 15 labels per class brought")


def test_the_table_has_a_row_for_each_number_of_labels():
    rows = list(csv.DictReader(io.StringIO(curve_csv(curve_points(RUNS)))))
    assert [row["labels_per_class"] for row in rows] == ["5", "10"]
    assert float(rows[0]["base_mean"]) == pytest.approx(0.62)
    assert float(rows[1]["difference"]) == pytest.approx(0.03)


def test_runs_without_the_regularizer_are_counted():
    runs = [{**run, "consistency": {"acted": run["seed"] > 0}} for run in RUNS]
    assert inactive_runs(runs) == 2
    sentences = curve_sentences(curve_points(runs), None, "scr", 400, inactive_runs(runs))
    assert sentences[-1].startswith("In 2 of 6 runs scr had no part in the result")


def test_a_single_seed_has_no_interval():
    runs = [run for run in RUNS if run["seed"] == 0]
    (point, _) = curve_points(runs)
    assert point["difference"]["low"] is None
    assert "95%" not in curve_sentences([point], None, "scr", 400)[0]
