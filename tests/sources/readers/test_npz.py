import shutil
import zipfile

import numpy as np
import pytest

from scr.errors import SourceError, StoreError
from scr.sources.readers import _npz as npz
from scr.sources.readers._npz import NpzFile

ARRAYS = {
    "numbers": np.arange(60, dtype=np.int64).reshape(2, 30),
    "odd": np.arange(7, dtype=np.int8),  # so that what follows is not aligned
    "values": np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "nothing": np.zeros((0, 4)),
}


@pytest.fixture
def no_small_members(monkeypatch):
    monkeypatch.setattr(npz, "SMALL_BYTES", 0)


def test_stored_members_are_mapped_where_they_lie(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS)
    for key, expected in ARRAYS.items():
        found = NpzFile(tmp_path / "a.npz").mapped(key)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert isinstance(found, np.memmap) == (expected.size > 0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_compressed_members_are_unpacked_once(tmp_path, no_small_members, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", **ARRAYS)
    for key in ("numbers", "values", "columns"):
        found = NpzFile(tmp_path / "a.npz").mapped(key)
        np.testing.assert_array_equal(found, ARRAYS[key])
        assert isinstance(found, np.memmap)
    assert len(list((tmp_path / "a-unpacked").iterdir())) == 3
    monkeypatch.setattr(npz, "_unpack", None)  # a second time would fail
    np.testing.assert_array_equal(NpzFile(tmp_path / "a.npz").mapped("values"), ARRAYS["values"])


def test_another_archive_of_the_same_name_is_unpacked_again(tmp_path, no_small_members):
    for number in (1, 2):
        np.savez_compressed(tmp_path / "a.npz", x=np.full(9, number))
        assert NpzFile(tmp_path / "a.npz").mapped("x")[0] == number


def test_small_compressed_members_are_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", **ARRAYS)
    np.testing.assert_array_equal(NpzFile(tmp_path / "a.npz").mapped("values"), ARRAYS["values"])
    assert not (tmp_path / "a-unpacked").exists()


def test_a_full_disk_leaves_nothing(tmp_path, no_small_members, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", **ARRAYS)
    usage = shutil._ntuple_diskusage(100, 99, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreError, match="1 are free"):
        NpzFile(tmp_path / "a.npz").mapped("values")
    assert list((tmp_path / "a-unpacked").iterdir()) == []


def test_a_damaged_member_is_refused_and_leaves_nothing(tmp_path, no_small_members):
    values = np.random.default_rng(0).standard_normal(5000)
    np.savez_compressed(tmp_path / "a.npz", x=values)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(SourceError, match=r"`x` in .*a.npz` is damaged"):
        NpzFile(tmp_path / "a.npz").mapped("x")
    assert list((tmp_path / "a-unpacked").iterdir()) == []


def test_a_member_shorter_than_its_header_says_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", (tmp_path / "x.npy").read_bytes()[:-8])
        archive.writestr("y.npy", (tmp_path / "x.npy").read_bytes())
    with pytest.raises(SourceError, match="damaged"):
        NpzFile(tmp_path / "a.npz").mapped("x")


def test_pickles_and_missing_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], object))
    with pytest.raises(SourceError, match="Python objects"):
        NpzFile(tmp_path / "a.npz").mapped("x")
    with pytest.raises(SourceError, match=r"no array `y`; its arrays are x"):
        NpzFile(tmp_path / "a.npz").mapped("y")
    with pytest.raises(SourceError, match="does not exist"):
        NpzFile(tmp_path / "b.npz").mapped("y")
