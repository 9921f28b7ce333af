from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.propagation.kernel._row_sets import RowSet


@settings(max_examples=100, deadline=None)
@given(
    count=st.sampled_from([1, 7, 63, 64, 65, 128, 200]),
    kind=st.sampled_from([np.int32, np.int64]),
    data=st.data(),
)
def test_a_row_set_is_a_set_of_numbers_in_order(count, kind, data):
    numbers = st.lists(st.integers(0, count - 1), max_size=60)
    some, others = data.draw(numbers), data.draw(numbers)
    rows = RowSet(count, np.array(some, kind), np.array(others, kind))
    expected = sorted({*some, *others})
    assert len(rows) == len(expected)
    first = data.draw(st.integers(0, count))
    last = data.draw(st.integers(first, count))
    assert rows.between(first, last).tolist() == [row for row in expected if first <= row < last]
    asked = np.array(data.draw(numbers), kind)
    places = [sum(row < each for row in expected) for each in asked.tolist()]
    assert rows.places(asked, threads=2).tolist() == places
    values = np.random.default_rng(0).random(count).astype(np.float32)
    assert np.array_equal(rows.take(values, threads=2), values[expected])
    rows.places(asked, out=asked)
    assert asked.tolist() == places


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_many_rows_are_found_by_several_threads(share):
    count = 100_001
    members = np.random.default_rng(1).random(count) < share
    rows = RowSet(count, np.flatnonzero(members))
    assert np.array_equal(rows.between(0, count), np.flatnonzero(members))
    assert np.array_equal(rows.places(np.arange(count), threads=3), np.cumsum(members) - members)
    assert np.array_equal(rows.take(np.arange(count), threads=3), np.flatnonzero(members))
