"""The statistics of the table of networks, against values worked by hand."""

import numpy as np
import pytest


@pytest.fixture
def tables(benchmark_module):
    return benchmark_module("network_tables")


def test_holm_multiplies_the_smallest_most_and_keeps_the_order(tables):
    # 0.005 * 4, 0.01 * 3, 0.03 * 2; 0.04 * 1 would be below the one before it.
    assert tables.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert tables.holm([0.5, 0.9]) == [1.0, 1.0]
    assert tables.holm([]) == []


def test_p_is_that_of_a_paired_t_test(tables):
    # Differences 1, 2, 3: t = 2 / (1 / sqrt(3)) = 3.4641 with two degrees of freedom, for which
    # P(|T| > t) = 1 - t / sqrt(t^2 + 2).
    pair = tables.Pair("mlp", "cora", np.array([80.0, 81, 82]), np.array([81.0, 83, 85]))
    t = 12**0.5
    assert pair.p == pytest.approx(1 - t / (t**2 + 2) ** 0.5)
    assert pair.gain.mean == pytest.approx(2)
    same = tables.Pair("mlp", "cora", np.array([80.0, 81]), np.array([80.0, 81]))
    assert same.p == 1


def test_the_mean_over_pairs_counts_each_pair_the_same(tables):
    first = tables.Pair("mlp", "cora", np.zeros(3), np.array([1.0, 2, 3]))
    second = tables.Pair("sign", "cora", np.zeros(2), np.array([-1.0, 1]))
    third = tables.Pair("sign", "pubmed", np.zeros(2), np.array([4.0, 6]))
    over_seeds, over_graphs = tables.mean_gains([first, second, third])
    assert over_seeds.mean == pytest.approx((2 + 0 + 5) / 3)
    assert over_graphs.mean == pytest.approx((1 + 5) / 2)
    assert over_graphs.pairs == 2


def test_the_gain_in_balanced_accuracy_is_paired_and_none_where_it_was_not_recorded(tables):
    runs = [
        {"encoder": "mlp", "regularizer": name, "seed": seed, "test_accuracy": 0.5,
         "balanced_accuracy": value}
        for name, values in (("none", [0.5, 0.6, None]), ("scr", [0.51, 0.63, 0.9]))
        for seed, value in enumerate(values)
    ]  # fmt: skip
    base, scr = tables._paired(runs, "mlp", "balanced_accuracy")
    pair = tables.Pair("mlp", "cora", base, scr, (base, scr))
    assert pair.balanced_gain.mean == pytest.approx((1 + 3) / 2)
    assert pair.balanced_gain.pairs == 2
    assert tables._paired(runs, "sign", "balanced_accuracy") is None
    assert tables.Pair("mlp", "cora", base, scr).balanced_gain is None
