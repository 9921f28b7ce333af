"""Intervals of shares agree with scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from scr.metrics import share_interval


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_are_those_of_scipy(case):
    expected = binomtest(*case).proportion_ci(method="wilson")
    assert share_interval(*case) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_of_no_nodes_nothing_is_known():
    assert share_interval(0, 0) == (0.0, 1.0)
