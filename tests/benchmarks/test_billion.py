"""The page about a billion nodes says what the plan says."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "billion-nodes.md"


@pytest.fixture
def billion(benchmark_module):
    return benchmark_module("billion")


def test_the_page_has_the_plans_of_today(billion):
    page = PAGE.read_text(encoding="utf-8")
    missing = [line for line in billion.plans() if line not in page]
    assert missing == [], "put what `python benchmarks/billion.py` prints into the page"


def test_a_block_takes_two_matrices_and_every_pass_all_edges(billion):
    found = billion.need(3, 4, "all")
    plan = found.plan
    assert (plan.block_columns, plan.blocks, plan.workers) == (32, 4, 4)
    matrices = 2 * 10**9 * 32 * 2
    bounds_and_scales = 16 * 10**9
    assert matrices + bounds_and_scales < plan.worker_bytes < 1.02 * (matrices + bounds_and_scales)
    # Three hops have parts; hop 0 is read from the features once more.
    edges, features, hops = 40 * 10**9 * 4, 10**9 * 128 * 2, 10**9 * 3 * 128 * 2
    assert plan.read_bytes == 4 * (3 * edges + features) + hops + features
    # Reading takes longer than the 32 cores do.
    assert found.passes_seconds == pytest.approx((3 * edges + features) / 1.8e9)


def test_nodes_beyond_four_bytes_read_twice_as_many_edges(billion):
    few, many = (billion.need(1, 1, "labeled", nodes=n, columns=16, edges=10**9, memory=2**40)
                 for n in (2**31 - 1, 2**31))  # fmt: skip
    assert many.plan.read_bytes - few.plan.read_bytes == pytest.approx(2 * 10**9 * 4, rel=1e-6)
