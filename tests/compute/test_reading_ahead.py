"""Reading ahead changes nothing but the time at which things are made."""

import threading
from contextlib import closing

import pytest

from scr.compute import read_ahead


def test_items_come_in_order_with_what_was_made_of_them():
    made = list(read_ahead(range(20), lambda item: item * item))
    assert made == [(item, item * item) for item in range(20)]


def test_it_is_made_in_another_thread():
    names = {name for _, name in read_ahead(range(3), lambda _: threading.current_thread().name)}
    assert names.isdisjoint({threading.current_thread().name})


def test_no_more_is_made_than_what_may_wait():
    asked = []

    def items():
        for item in range(100):
            asked.append(item)
            yield item

    with closing(read_ahead(items(), str, ahead=2)) as made:
        for item, _ in made:
            assert len(asked) <= item + 1 + 2
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
        for item, _ in read_ahead(range(10), make):
            seen.append(item)
    assert seen == [0, 1, 2]


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with (
        pytest.raises(RuntimeError, match="step"),
        closing(read_ahead(range(1000), str)) as made,
    ):
        for _ in made:
            raise RuntimeError("step")
    assert threading.active_count() == before
