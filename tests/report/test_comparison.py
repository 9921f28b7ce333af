import io
import json

import numpy as np
import pytest
import scipy.stats
from rich.console import Console

from scr.errors import RunError
from scr.report import (
    compare_runs,
    comparison_table,
    conclusions,
    paired_difference,
    pooled_difference,
)
from scr.report._conclusion import headline


def run(regularizer, seed, test, *, encoder="ssgc", **more):
    return {
        "encoder": encoder, "regularizer": regularizer, "seed": seed, "valid_accuracy": test,
        "test_accuracy": test, "train_seconds": 2.0, **more,
    }  # fmt: skip


def runs_of(**accuracies):
    return [
        run(name.replace("_", "-"), seed, value)
        for name, values in accuracies.items()
        for seed, value in enumerate(values)
    ]


def test_paired_interval_is_the_one_worked_by_hand():
    # Differences 1, 2, 3: mean 2, standard deviation 1, t(0.975, 2) = 4.302653.
    difference = paired_difference([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert difference.mean == 2
    assert difference.high == pytest.approx(2 + 4.302653 / np.sqrt(3), abs=1e-6)
    assert difference.low == pytest.approx(2 - 4.302653 / np.sqrt(3), abs=1e-6)


def test_paired_interval_agrees_with_scipy():
    generator = np.random.default_rng(0)
    ours, base = generator.random(8), generator.random(8)
    expected = scipy.stats.ttest_rel(ours, base).confidence_interval(0.95)
    difference = paired_difference(ours, base)
    assert (difference.low, difference.high) == pytest.approx((expected.low, expected.high))


def test_rows_hold_mean_sample_spread_and_difference():
    base, better = compare_runs(runs_of(scr=[0.82, 0.84, 0.86], none=[0.80, 0.81, 0.84]))
    assert (base["regularizer"], base["verdict"], base["difference"]) == ("none", "base", None)
    assert better["test_mean"] == pytest.approx(0.84)
    assert better["test_std"] == pytest.approx(np.std([0.82, 0.84, 0.86], ddof=1))
    assert better["difference"] == pytest.approx((0.02 + 0.03 + 0.02) / 3)
    assert better["verdict"] == "better"
    assert better["pairs"] == 3


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.9, 0.91, 0.92], "better"),
        ([0.7, 0.71, 0.72], "worse"),
        ([0.9, 0.7, 0.8], "no clear difference"),
        ([0.8, 0.81, 0.82], "no clear difference"),
    ],
)
def test_verdict_follows_the_interval(values, verdict):
    rows = compare_runs(runs_of(none=[0.8, 0.81, 0.82], scr=values))
    assert rows[1]["verdict"] == verdict


@pytest.mark.parametrize("values", [[0.9, 0.85], [0.7, 0.65]])
def test_two_equal_differences_are_no_estimate_of_a_spread(values):
    # 0.9 - 0.8 and 0.85 - 0.75 differ in their last bits: equal numbers need not be the same.
    row = compare_runs(runs_of(none=[0.8, 0.75], scr=values))[1]
    assert row["difference"] == pytest.approx(values[0] - 0.8)
    assert row["verdict"] == "no clear difference"
    assert "two equal differences do not tell how much seeds vary" in conclusions([row])[0]
    assert headline([row]) == "scr made no clear difference with ssgc."
    three = compare_runs(runs_of(none=[0.8, 0.75, 0.7], scr=[*values, values[0] - 0.1]))[1]
    assert three["verdict"] == ("better" if values[0] > 0.8 else "worse")


def test_two_differences_that_are_close_keep_their_verdict():
    # Differences 0.1 and 0.101: half a width of 12.7 * 0.0005 around 0.1005.
    row = compare_runs(runs_of(none=[0.8, 0.8], scr=[0.9, 0.901]))[1]
    assert row["difference_low"] == pytest.approx(0.1005 - 12.7062 * 0.0005, abs=1e-6)
    assert row["verdict"] == "better"


def test_a_single_seed_has_no_interval_and_says_so():
    row = compare_runs(runs_of(none=[0.8], scr=[0.9]))[1]
    assert row["difference"] == pytest.approx(0.1)
    assert row["difference_low"] is None
    assert row["test_std"] is None
    assert row["verdict"] == "one seed: no interval"
    assert "single seed" in conclusions([row])[0]


def test_only_seeds_in_common_are_paired():
    rows = compare_runs([run("none", 0, 0.5), run("none", 1, 0.6), run("scr", 1, 0.7),
                         run("scr", 2, 0.1)])  # fmt: skip
    assert rows[1]["pairs"] == 1
    assert rows[1]["difference"] == pytest.approx(0.1)


def test_without_a_seed_in_common_there_is_no_difference():
    row = compare_runs([run("none", 0, 0.5), run("scr", 1, 0.7)])[1]
    assert row["difference"] is None
    assert row["verdict"] == "no seed in common with the base"


def test_runs_without_test_nodes_are_compared_on_validation_nodes():
    runs = [{**made, "test_accuracy": None} for made in runs_of(none=[0.5, 0.6], scr=[0.6, 0.7])]
    row = compare_runs(runs)[1]
    assert row["measure"] == "valid_accuracy"
    assert row["difference"] == pytest.approx(0.1)


def test_two_runs_with_the_same_seed_are_refused():
    with pytest.raises(RunError, match="seed 0"):
        compare_runs([run("scr", 0, 0.5), run("scr", 0, 0.6)])


def test_rows_are_valid_json():
    rows = compare_runs(runs_of(none=[0.5, 0.6], scr=[0.6, 0.7], scr_m=[0.5, 0.5]))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def graph_runs():
    generator = np.random.default_rng(1)
    return [
        run(regularizer, seed, float(generator.normal(0.8 + gain, 0.01)), graph=graph)
        for graph, seeds in (("cora", 6), ("pubmed", 4))
        for regularizer, gain in (("none", 0.0), ("scr", 0.02))
        for seed in range(seeds)
    ]


def differences_on(runs, graph):
    values = {
        name: [r["test_accuracy"] for r in runs if (r["graph"], r["regularizer"]) == (graph, name)]
        for name in ("none", "scr")
    }
    return np.subtract(values["scr"], values["none"])


def test_pooling_over_seeds_adds_up_the_variances_within_graphs():
    runs = graph_runs()
    pooled = pooled_difference(runs, "ssgc", "scr")
    first, second = differences_on(runs, "cora"), differences_on(runs, "pubmed")
    # A sum of two means has the standard error and freedom of Welch's test on (first, -second).
    welch = scipy.stats.ttest_ind(first, -second, equal_var=False).confidence_interval(0.95)
    assert pooled.mean == pytest.approx((first.mean() + second.mean()) / 2)
    assert (pooled.low, pooled.high) == pytest.approx((welch.low / 2, welch.high / 2))
    assert pooled.pairs == 10


def test_pooling_over_graphs_takes_one_mean_per_graph():
    runs = graph_runs()
    pooled = pooled_difference(runs, "ssgc", "scr", unit="graphs")
    means = [differences_on(runs, graph).mean() for graph in ("cora", "pubmed")]
    expected = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (pooled.low, pooled.high) == pytest.approx((expected.low, expected.high))
    assert pooled.pairs == 2


def test_pooling_nothing_is_none():
    assert pooled_difference([run("scr", 0, 0.5)], "ssgc", "scr") is None


def test_the_terminal_table_fits_eighty_columns():
    rows = compare_runs(runs_of(none=[0.5, 0.6], scr=[0.6, 0.7], scr_m=[0.5, 0.7]))
    console = Console(width=80, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as captured:
        console.print(comparison_table(rows))
    text = captured.get()
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    assert "+10.00" in text


def test_names_with_brackets_are_text_and_not_rich_markup():
    rows = compare_runs([run("none", 0, 0.5, encoder="[red]x")])
    console = Console(width=120)
    with console.capture() as captured:
        console.print(comparison_table(rows))
    assert "[red]x" in captured.get()


def test_the_table_has_a_line_per_row_and_explains_itself():
    rows = compare_runs(runs_of(none=[0.5, 0.6], scr=[0.6, 0.7]))
    console = Console(width=400)
    with console.capture() as captured:
        console.print(comparison_table(rows))
    text = captured.get()
    [line] = [line for line in text.splitlines() if "ssgc scr" in line]
    assert line.count("65.0 ±7.1") == 2
    assert "+10.00 (+10.00, +10.00)" in line
    assert "95% interval" in " ".join(text.split())


def test_the_difference_in_balanced_accuracy_stands_beside_that_in_accuracy():
    # Accuracy: 0.02, 0.03, 0.04, mean 0.03; balanced: 0.01, 0.02, 0.03, mean 0.02; both have the
    # standard deviation 0.01 and intervals of 4.302653 * 0.01 / sqrt(3) = 0.0248 to each side.
    runs = [
        run(name, seed, 0.8 + gain * (0.02 + seed / 100),
            balanced_accuracy=0.7 + gain * (0.01 + seed / 100))
        for name, gain in (("none", 0), ("scr", 1))
        for seed in range(3)
    ]  # fmt: skip
    rows = compare_runs(runs)
    assert conclusions(rows)[0] == (
        "ssgc with scr: +3.00 points of test accuracy against its base (95% interval +0.52 to "
        "+5.48, 3 seeds) and +2.00 of balanced accuracy (−0.48 to +4.48); better."
    )


def test_a_gain_that_balanced_accuracy_does_not_share_is_doubted():
    runs = [
        run(name, seed, 0.8 + gain + seed / 100, balanced_accuracy=0.7 + wobble * (-1) ** seed)
        for name, gain, wobble in (("none", 0.0, 0.0), ("scr", 0.02, 0.01))
        for seed in range(4)
    ]
    sentences = conclusions(compare_runs(runs))
    assert any("class prior" in sentence for sentence in sentences)


def test_the_headline_counts_what_helped_and_what_did_not():
    rows = compare_runs(
        runs_of(none=[0.8, 0.81, 0.82], scr=[0.9, 0.91, 0.93], scr_m=[0.8, 0.7, 0.9])
    )
    text = headline(rows)
    assert "1 is better" in text
    assert "1 shows no clear difference" in text


def with_metric(metric, **values):
    """Runs whose accuracies all are 0.5."""
    return [
        run(name, seed, 0.5, metric=metric, valid_metric=value, test_metric=value)
        for name, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]


def test_another_metric_takes_the_place_of_accuracy():
    rows = compare_runs(with_metric("macro-f1", none=[0.6, 0.61, 0.62], scr=[0.7, 0.72, 0.71]))
    row = rows[1]
    assert (row["measure"], row["metric"], row["verdict"]) == ("test_metric", "macro-f1", "better")
    expected = paired_difference([0.7, 0.72, 0.71], [0.6, 0.61, 0.62])
    assert row["difference"] == pytest.approx(expected.mean)
    assert row["test_mean"] == pytest.approx(0.71)
    assert (row["accuracy_mean"], row["accuracy_difference"]) == (0.5, 0)
    said = " ".join(conclusions(rows))
    assert "points of test macro F1 against its base" in said
    assert "Validation macro F1 picks ssgc with scr: test macro F1 71.0 ± 1.0%." in said


def test_less_log_loss_is_better():
    rows = compare_runs(with_metric("log-loss", none=[0.9, 0.91, 0.92], scr=[0.7, 0.72, 0.71]))
    assert rows[1]["verdict"] == "better"
    assert rows[1]["difference"] == pytest.approx(-0.2)
    said = " ".join(conclusions(rows))
    assert "−0.200 nats of test log-loss against its base" in said
    assert "picks ssgc with scr: test log-loss 0.710 ± 0.010." in said
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(comparison_table(rows))
    table = console.export_text()
    assert "0.710 ±0.010" in table
    assert "accuracy" in table


def test_runs_of_different_metrics_are_compared_by_accuracy():
    runs = [*with_metric("macro-f1", none=[0.6]), *with_metric("roc-auc", scr=[0.9])]
    assert compare_runs(runs)[1]["measure"] == "test_accuracy"
