from __future__ import annotations

import itertools
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import StoreError
from scr.storage import (
    FileRows,
    ReadBuffers,
    from_cache,
    in_memory,
    region_of,
    release,
    sample_rows,
    stream_rows,
    take_rows,
)
from scr.storage import _descriptors as descriptors
from scr.storage import _file_rows as file_rows


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(60, dtype=np.float32).reshape(20, 3))
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


def test_a_slice_of_a_map_knows_its_place_in_the_file(mapped, tmp_path):
    region = region_of(mapped[4:][2:9])
    data = (tmp_path / "rows.npy").read_bytes()[region.offset :]
    assert np.array_equal(np.frombuffer(data, np.float32)[:21], np.arange(18, 39))
    assert region_of(np.asarray(mapped)) == region_of(mapped)


def test_what_is_in_memory_or_scattered_has_no_place(mapped, tmp_path):
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    for array in (np.zeros(3), mapped[:, 1:], mapped[::2], mapped + 1, private):
        assert region_of(array) is None


@pytest.mark.parametrize("on_disk", [True, False])
def test_rows_are_read_as_they_are_sliced(mapped, on_disk):
    array = mapped if on_disk else np.array(mapped)
    assert np.array_equal(in_memory(array[3:9]), mapped[3:9])
    assert np.array_equal(in_memory(array), mapped)
    assert region_of(in_memory(array)) is None
    for step in (1, 3, 7, 50):
        assert np.array_equal(sample_rows(array, step), mapped[::step])


@given(cuts=st.lists(st.integers(0, 20), min_size=2, max_size=8))
def test_streamed_ranges_are_slices_one_after_the_other(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, np.arange(60, dtype=np.int32).reshape(20, 3))
    mapped, held = np.load(path, mmap_mode="r"), np.arange(20)
    ranges = [(min(a, b), max(a, b)) for a, b in itertools.pairwise(cuts)]
    seen = [(rows.copy(), numbers.copy()) for rows, numbers in stream_rows([mapped, held], ranges)]
    assert len(seen) == len(ranges)
    for (start, stop), (rows, numbers) in zip(ranges, seen, strict=True):
        assert np.array_equal(rows, mapped[start:stop])
        assert np.array_equal(numbers, held[start:stop])


@given(longest=st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_memory_that_is_used_again_holds_the_rows_of_the_last_stream(tmp_path_factory, longest):
    folder, memory = tmp_path_factory.mktemp("rows"), ReadBuffers()
    for number, rows in enumerate(longest):
        path = folder / f"{number}.npy"
        np.save(path, np.arange(20 * 3 * (number + 1)).reshape(20, -1))
        mapped = np.load(path, mmap_mode="r")
        ranges = [(0, rows), (rows, 20)]
        seen = [part.copy() for (part,) in stream_rows([mapped], ranges, memory)]
        assert np.array_equal(np.concatenate(seen), mapped)
    (first,), (again,) = (next(stream_rows([mapped], [(0, 5)], memory)) for _ in range(2))
    assert np.shares_memory(first, again)


@given(
    rows=st.integers(0, 5000),
    columns=st.integers(1, 7),
    dtype=st.sampled_from(["float16", "int64", "uint8"]),
    places=st.lists(st.floats(0, 1), min_size=2, max_size=6),
    cached=st.booleans(),
)
def test_ranges_past_the_page_cache_are_slices_too(
    tmp_path_factory, rows, columns, dtype, places, cached
):
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    written = np.random.default_rng(rows).integers(0, 100, (rows, columns)).astype(dtype)
    np.save(path, written)
    with path.open("rb") as file:
        os.fdatasync(file.fileno())  # which tests leave as it is
        if not cached:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cuts = sorted(int(place * rows) for place in places)
    ranges = list(itertools.pairwise(cuts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_rows, "DIRECT_BYTES", 0)
        seen = [part.copy() for (part,) in stream_rows([np.load(path, mmap_mode="r")], ranges)]
    for (start, stop), part in zip(ranges, seen, strict=True):
        assert part.dtype == written.dtype
        assert np.array_equal(part, written[start:stop])


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_that_ends_within_a_page_is_refused(tmp_path, monkeypatch, direct):
    np.save(tmp_path / "rows.npy", np.arange(6000))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr(file_rows, "DIRECT_BYTES", 0 if direct else 1 << 40)
    os.truncate(tmp_path / "rows.npy", 40_000)
    with pytest.raises(StoreError, match="truncated: 8,128 bytes are missing"):
        list(stream_rows([mapped], [(0, 6000)]))


def test_a_file_that_has_become_shorter_is_refused(mapped, tmp_path):
    os.truncate(tmp_path / "rows.npy", 200)
    with pytest.raises(StoreError, match="truncated"):
        list(stream_rows([mapped], [(0, 10), (10, 20)]))


def test_pages_of_a_map_are_given_back_and_can_be_read_again(tmp_path):
    np.save(tmp_path / "large.npy", np.ones(2**22))
    mapped = np.load(tmp_path / "large.npy", mmap_mode="r")

    def resident() -> int:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()

    assert mapped.sum() == 2**22
    before = resident()
    release(mapped[5:])
    assert before - resident() > 2**24
    assert mapped[-1] == 1
    release(np.zeros(3))
    release(None)


def test_what_was_written_into_a_private_map_is_not_given_back(mapped, tmp_path):
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    private[3] = 7
    release(private)
    assert (private[3] == 7).all()


def test_a_file_that_was_replaced_since_it_was_mapped_is_refused(mapped, tmp_path):
    """A map stays on the old file, and plain reads by name would mix it with the new one."""
    np.save(tmp_path / "other.npy", np.arange(60, 120, dtype=np.float32).reshape(20, 3))
    (tmp_path / "other.npy").replace(tmp_path / "rows.npy")
    with pytest.raises(StoreError, match="was replaced"):
        in_memory(mapped)


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
        patch.setattr(file_rows, "SMALL_GAP", gap)
        patch.setattr(file_rows, "LONGEST_READ", longest)
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


def test_positions_beyond_the_end_of_a_file_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.ones((4, 1000), np.float32))
    rows = FileRows.behind(np.load(tmp_path / "array.npy", mmap_mode="r"))
    with (tmp_path / "array.npy").open("r+b") as file:
        file.truncate(8000)
    with pytest.raises(StoreError, match="truncated: 8,128 bytes are missing"):
        rows.take(np.arange(4))


def test_a_large_file_passes_by_the_page_cache_or_comes_from_it(tmp_path, monkeypatch):
    monkeypatch.setattr(file_rows, "DIRECT_BYTES", 1 << 20)
    path, size = tmp_path / "rows.npy", 8 << 20
    rows = np.random.default_rng(0).integers(0, 255, (size // 64, 64), dtype=np.uint8)
    np.save(path, rows)
    with path.open("rb") as file:
        os.fdatasync(file.fileno())  # which tests leave as it is
        if not descriptors.is_cached(file.fileno(), 0, size):
            pytest.skip("this system does not say what its page cache holds")
        if (direct := descriptors.open_direct(path)) is None:
            pytest.skip("this disk has no reads past the page cache")
        os.close(direct)
        mapped = np.load(path, mmap_mode="r")
        monkeypatch.setattr(FileRows, "_check_same", lambda *_: None)  # reads through the cache
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert np.array_equal(in_memory(mapped), rows)
        # Not even in part, as reading ahead would leave it; the map has a page for the header.
        assert not any(
            descriptors.is_cached(file.fileno(), at, 4096) for at in range(1 << 20, size, 1 << 16)
        )
        path.read_bytes()
        buffer = bytearray(size)
        assert descriptors.read_cached(file.fileno(), memoryview(buffer), 128)
        assert buffer == rows.tobytes()
        assert np.array_equal(in_memory(mapped), rows)


@pytest.mark.parametrize(("share", "is_used"), [(1.0, True), (0.99, True), (0.9, False)])
def test_a_few_pages_may_be_missing_from_the_page_cache(tmp_path, monkeypatch, share, is_used):
    np.save(tmp_path / "rows.npy", np.arange(100))
    monkeypatch.setattr(file_rows, "cached_share", lambda *_: share)
    array = from_cache(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert (region_of(array) is None) == is_used
    assert np.array_equal(array, np.arange(100))


def test_a_map_is_used_from_the_page_cache_if_that_holds_it(tmp_path):
    path, rows = tmp_path / "rows.npy", np.arange(1 << 20, dtype=np.int64).reshape(-1, 8)
    np.save(path, rows)
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        if not descriptors.is_cached(file.fileno(), 0, path.stat().st_size):
            pytest.skip("this system does not say what its page cache holds")
        array = from_cache(np.load(path, mmap_mode="r")[5:])
        assert region_of(array) is None  # whoever reads files sees none behind it
        assert np.array_equal(array, rows[5:])
        del array
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        array = from_cache(np.load(path, mmap_mode="r")[5:])
        assert region_of(array) is not None
        assert np.array_equal(array, rows[5:])
    assert from_cache(rows) is rows
