"""Mixed batches: every labeled node once per epoch, unlabeled ones beside them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.training import _batches as batches
from scr.training._batches import EpochNodes


def drawn(labeled, confident, seed=0, **settings):
    train, nobody = torch.arange(labeled), torch.zeros(0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    nodes = EpochNodes(0, train, confident, nobody, generator=generator, **settings)
    return [(step.labeled, step.unlabeled) for step in nodes.steps()]


@given(st.integers(1, 200), st.integers(0, 100), st.integers(1, 64), st.integers(1, 64))
def test_an_epoch_is_one_pass_over_the_labeled_nodes(labeled, pool, size, unlabeled):
    confident = torch.arange(1000, 1000 + pool)
    steps = drawn(labeled, confident, batch_size=size, unlabeled_per_batch=unlabeled)
    seen = torch.cat([first for first, _ in steps])
    assert sorted(seen.tolist()) == list(range(labeled))
    assert len(steps) == -(-labeled // size)
    for first, second in steps:
        assert 0 < len(first) <= size
        assert len(second) == min(unlabeled, pool)
        assert set(second.tolist()) <= set(confident.tolist())


def test_parts_are_even_so_that_no_batch_has_a_single_row():
    sizes = [len(first) for first, _ in drawn(101, torch.empty(0, dtype=torch.int64),
                                              batch_size=50, unlabeled_per_batch=1)]  # fmt: skip
    assert sizes == [34, 34, 33]


def test_unlabeled_nodes_repeat_only_after_the_pool_is_used_up():
    steps = drawn(100, torch.arange(50), batch_size=10, unlabeled_per_batch=10)
    first_pass = torch.cat([second for _, second in steps[:5]])
    assert sorted(first_pass.tolist()) == list(range(50))


def test_proportional_batches_cut_both_pools_into_equally_many_parts():
    # 50 labeled and 75 confident rows in batches of 25: 5 steps of 10 + 15.
    steps = drawn(50, torch.arange(75), batch_size=25, unlabeled_per_batch="proportional")
    assert [(len(first), len(second)) for first, second in steps] == [(10, 15)] * 5
    assert sorted(torch.cat([second for _, second in steps]).tolist()) == list(range(75))


def test_no_confident_nodes_means_labeled_rows_only():
    empty = torch.empty(0, dtype=torch.int64)
    for unlabeled in (10, "proportional"):
        steps = drawn(20, empty, batch_size=10, unlabeled_per_batch=unlabeled)
        assert [len(second) for _, second in steps] == [0, 0]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides_the_order(seed):
    settings = {"batch_size": 8, "unlabeled_per_batch": 4}
    one, two = (drawn(32, torch.arange(16), seed=seed, **settings) for _ in range(2))
    other = drawn(32, torch.arange(16), seed=seed + 7, **settings)
    assert all(
        torch.equal(a, b) for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True)
    )
    assert not all(torch.equal(x[0], y[0]) for x, y in zip(one, other, strict=True))


def test_from_a_large_pool_distinct_nodes_are_drawn_evenly(monkeypatch):
    monkeypatch.setattr(batches, "LARGE_POOL", 10)
    pool = torch.arange(0, 200, 10)
    generator = torch.manual_seed(0)
    counts = torch.zeros(20, 6)
    for _ in range(3000):
        nodes = batches._draw(pool, 6, generator)
        assert len(set(nodes.tolist())) == 6
        counts[nodes // 10, torch.arange(6)] += 1
    # Every node is as likely at every place: 150 of 3,000 each, give or take five deviations.
    assert (counts - 150).abs().max() < 5 * 12
