"""Rows out of a file are those of the array, whatever is asked for, and nothing is mapped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import StoreError
from scr.storage import FileRows, take_rows
from scr.storage import _gathering as gathering


@pytest.fixture(scope="module", params=["float16", "float32"])
def stored(request, tmp_path_factory):
    """An array, and the same as a memory map."""
    array = np.random.default_rng(0).standard_normal((500, 3, 4)).astype(request.param)
    path = tmp_path_factory.mktemp("rows") / "array.npy"
    np.save(path, array)
    return array, np.load(path, mmap_mode="r")


@given(
    positions=st.lists(st.integers(0, 499), max_size=60),
    gap=st.sampled_from([0, 50, 1000]),
    longest=st.sampled_from([1, 200, 10_000]),
)
def test_rows_are_those_of_the_array_in_the_order_asked_for(stored, positions, gap, longest):
    array, mapped = stored
    index = np.array(positions, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "SMALL_GAP", gap)
        patch.setattr(gathering, "LONGEST_READ", longest)
        taken = FileRows.behind(mapped).take(index)
    assert taken.dtype == array.dtype
    np.testing.assert_array_equal(taken, array[index])


def test_a_view_of_whole_rows_is_read_from_where_it_begins(stored):
    array, mapped = stored
    view = np.asarray(mapped)[100:300]
    assert FileRows.behind(view) is not None
    np.testing.assert_array_equal(take_rows(view, np.array([199, 0])), array[[299, 100]])


def test_what_is_not_a_file_of_rows_is_left_to_numpy(stored):
    array, mapped = stored
    assert FileRows.behind(array) is None
    assert FileRows.behind(mapped[:, 1]) is None
    assert FileRows.behind(mapped[::2]) is None
    np.testing.assert_array_equal(take_rows(mapped[::2], np.array([3, 3])), array[[6, 6]])


def test_a_file_that_is_gone_leaves_the_map(tmp_path):
    np.save(tmp_path / "array.npy", np.ones((4, 2), np.float32))
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    (tmp_path / "array.npy").unlink()
    assert FileRows.behind(mapped) is None


def test_a_file_cut_short_is_one_sentence(tmp_path):
    np.save(tmp_path / "array.npy", np.ones((4, 1000), np.float32))
    rows = FileRows.behind(np.load(tmp_path / "array.npy", mmap_mode="r"))
    with (tmp_path / "array.npy").open("r+b") as file:
        file.truncate(8000)
    with pytest.raises(StoreError, match=r"ends at byte 8,000; expected"):
        rows.take(np.arange(4))
