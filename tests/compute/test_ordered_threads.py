"""Threads change nothing but the time at which things are made."""

import threading
from contextlib import closing

import pytest

from scr.compute import map_in_order


@pytest.mark.parametrize(("threads", "ahead"), [(1, 1), (1, 3), (3, 4)])
def test_results_come_in_the_order_of_the_pieces(threads, ahead):
    squares = map_in_order(lambda item: item * item, range(20), threads=threads, ahead=ahead)
    assert list(squares) == [item * item for item in range(20)]


def test_it_is_made_in_another_thread():
    names = set(map_in_order(lambda _: threading.current_thread().name, range(3)))
    assert names.isdisjoint({threading.current_thread().name})


def test_no_more_is_made_than_what_may_wait():
    asked = []

    def items():
        for item in range(100):
            asked.append(item)
            yield item

    with closing(map_in_order(int, items(), ahead=3)) as made:
        for item in made:
            assert len(asked) <= item + 3
            if item == 5:
                break
    assert len(asked) <= 8


def test_an_error_is_raised_where_its_item_would_have_come():
    def make(item):
        if item == 3:
            raise OSError("the disk is gone")
        return item

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(map_in_order(make, range(10)))
    assert seen == [0, 1, 2]


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with (
        pytest.raises(RuntimeError, match="step"),
        closing(map_in_order(str, range(1000))) as made,
    ):
        for _ in made:
            raise RuntimeError("step")
    assert threading.active_count() == before
