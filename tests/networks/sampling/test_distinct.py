import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.compute import stream_key
from scr.networks.sampling._distinct import choose


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 2**64 - 1))
def test_chosen_numbers_are_distinct_and_in_range(wanted, more, key):
    chosen = np.full(wanted + 2, -7)
    choose(chosen, 1, wanted, 1000, wanted + more, np.uint64(key))
    assert chosen[0] == chosen[-1] == -7
    inside = chosen[1:-1]
    assert len(np.unique(inside)) == wanted
    assert ((inside >= 1000) & (inside < 1000 + wanted + more)).all()


def test_every_set_is_equally_likely():
    # 15 sets of 2 out of 6; the chi-square statistic of 14 degrees of freedom exceeds 36.1 with a
    # chance of 0.1%.
    draws, counts = 15000, dict.fromkeys(itertools.combinations(range(6), 2), 0)
    chosen = np.empty(2, np.int64)
    for draw in range(draws):
        choose(chosen, 0, 2, 0, 6, stream_key(0, draw))
        counts[tuple(sorted(chosen.tolist()))] += 1
    expected = draws / len(counts)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 36.1


@pytest.mark.parametrize(("wanted", "limit"), [(40, 64), (63, 64), (20, 70), (40, 100), (99, 100)])
def test_each_number_is_equally_likely(wanted, limit):
    draws, counts, chosen = 4000, np.zeros(limit), np.empty(wanted, np.int64)
    for draw in range(draws):
        choose(chosen, 0, wanted, 0, limit, stream_key(1, draw))
        counts[chosen] += 1
    chance = wanted / limit
    deviation = np.sqrt(chance * (1 - chance) / draws)  # of a frequency
    assert np.abs(counts / draws - chance).max() < 5 * deviation


def test_any_two_numbers_are_equally_often_together():
    # Out of more than 64, so that what was chosen is looked through. With w chosen of n numbers, a
    # pair has the chance w (w - 1) / n (n - 1).
    draws, together = 4000, np.zeros((70, 70))
    chosen = np.empty(30, np.int64)
    for draw in range(draws):
        choose(chosen, 0, 30, 0, 70, stream_key(2, draw))
        together[np.ix_(chosen, chosen)] += 1
    chance = 30 * 29 / (70 * 69)
    pairs = together[np.triu_indices(70, 1)] / draws
    assert np.abs(pairs - chance).max() < 5 * np.sqrt(chance * (1 - chance) / draws)
