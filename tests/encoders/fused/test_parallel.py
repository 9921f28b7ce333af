"""Ranges of rows on threads: each row once, whatever the counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.encoders.fused import dropout
from scr.encoders.fused._parallel import run_rows


@pytest.fixture(autouse=True)
def _restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@given(count=st.integers(1, 50), threads=st.integers(1, 9), size=st.sampled_from([1, 1 << 20]))
def test_every_row_is_visited_once(count, threads, size):
    torch.set_num_threads(threads)
    visits = np.zeros(count, np.int64)

    def kernel(target, start, stop):
        target[start:stop] += 1

    run_rows(kernel, count, size, visits)
    assert (visits == 1).all()


def test_an_error_on_another_thread_is_raised():
    torch.set_num_threads(2)

    def kernel(start, stop):
        if start > 0:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_rows(kernel, 10, 1 << 20)


def test_kernels_may_run_on_several_threads_of_the_caller():
    torch.set_num_threads(2)
    ones = torch.ones(500, 200)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: dropout(ones, 0.5), range(16)))
    assert all(set(result.unique().tolist()) == {0.0, 2.0} for result in results)
