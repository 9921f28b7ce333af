"""Files of arrays that somebody else made or damaged: read as NumPy reads them, or one sentence."""

import contextlib
import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from scr.errors import MemoryBudgetError, SCRError, SourceError, StoreError
from scr.storage import load_array, load_arrays, map_array, read_npy_header


def npy(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def header(descr="'<i8'", order="False", shape="(2,)") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


DTYPES = st.sampled_from(["<i8", ">i4", "<f4", ">f8", "|b1", "<U3", ">U2", "|S4", "<u2", "<M8[D]"])


@given(
    array=DTYPES.flatmap(
        lambda dtype: arrays.arrays(
            dtype,
            arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            elements=None if dtype[1] not in "U" else st.text("aé", max_size=int(dtype[2])),
        )
    ),
    fortran=st.booleans(),
)
def test_arrays_are_those_that_numpy_reads(tmp_path_factory, array, fortran):
    folder = tmp_path_factory.mktemp("arrays")
    stored = np.asfortranarray(array) if fortran else array
    np.save(folder / "one.npy", stored)
    np.savez_compressed(folder / "two.npz", a=stored, b=np.arange(3))
    expected = np.load(folder / "one.npy")
    for loaded in (
        load_array(folder / "one.npy", what="an array"),
        load_arrays(folder / "two.npz", what="arrays")["a"],
    ):
        assert loaded.shape == expected.shape
        assert loaded.dtype.isnative or loaded.dtype.kind in "S"
        np.testing.assert_array_equal(loaded, expected)
    np.testing.assert_array_equal(map_array(folder / "one.npy", what="an array"), expected)


def test_headers_of_python_2_and_of_other_writers_are_read():
    old = npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }\n")
    assert read_npy_header(io.BytesIO(old)) == ((2, 3), False, np.dtype("<f8"))
    other = npy(b'{"shape":(4,),"fortran_order":True,"descr":"|u1"}', version=2)
    assert read_npy_header(io.BytesIO(other)) == ((4,), True, np.dtype("u1"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "ends inside its header"),
        (b"PK\x03\x04rest of it", "does not begin as a .npy file"),
        (npy(header(), bytes(16), version=9), "version 9"),
        (npy(header())[:20], "ends inside its header"),
        (npy(header(), bytes(8)), "16 bytes of data, and 8 are there"),
        (npy(header(), bytes(24)), "16 bytes of data, and 24 are there"),
        (npy(header(shape="(-1,)")), "not that of a plain array"),
        (npy(header(shape="(2.5,)")), "not that of a plain array"),
        (npy(header(shape="(3)"), bytes(24)), "the shape"),
        (npy(header(shape="(" + "9" * 30 + ",)")), "beyond any memory"),
        (npy(header(shape="(0, 9223372036854775807, 9)")), "beyond any memory"),
        (npy(header(shape="(1000000000000,)"), bytes(8)), "8,000,000,000,000 bytes of data"),
        (npy(header(shape="(" + "1," * 40 + ")"), bytes(8)), "beyond any memory"),
        (npy(header("[('a', '<i4')]")), "not that of a plain array"),
        (npy(header("'(2,3)f4'")), "expected numbers or text"),
        (npy(header("'|O'"), b"\x80\x04."), "Python objects"),
        (npy(header("'|O'"), bytes(16)), "Python objects"),
        (npy(header("'<f3'")), "expected numbers or text"),
        (npy(header("'|S0'")), "without any bytes"),
        (npy(header("__import__('os')")), "not that of a plain array"),
        (npy(b"[" * 5000), "not that of a plain array"),
        (npy(b"\0" * 64), "not that of a plain array"),
        (npy(header("'|b1'"), b"\x01\x05"), "truth values other than"),
        (npy(header("'<U1'"), b"\xff\xff\xff\xff\0\0\0\0"), "characters that do not exist"),
        (npy(header("'<U1'"), struct.pack("<II", 0xD800, 65)), "characters that do not exist"),
    ],
)
def test_a_damaged_array_is_one_sentence(tmp_path, content, reason):
    path = tmp_path / "labels.npy"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"labels.npy` cannot be read as the labels: ") as caught:
        load_array(path, what="the labels", error=SourceError)
    assert reason in str(caught.value)


def test_missing_files_folders_pipes_and_devices_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for path, reason in (
        (tmp_path / "none.npy", "does not exist; expected the labels"),
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe.npy", "a pipe or a device"),
        ("/dev/zero", "a pipe or a device"),
    ):
        for read in (load_array, load_arrays, map_array):
            with pytest.raises(StoreError, match=reason):
                read(path, what="the labels")


def test_sizes_are_counted_before_anything_is_allocated(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, zeros=np.zeros(2**24, np.uint8))
    assert path.stat().st_size < 2**15
    made = []
    monkeypatch.setattr(np, "empty", lambda *shape, **_: made.append(shape))
    with pytest.raises(MemoryBudgetError, match=r"bomb.npz` takes .*; the budget is 10.00MiB"):
        load_arrays(path, what="arrays", budget=10 * 2**20)
    assert not made


def _archive(path, **arrays_by_name) -> bytes:
    np.savez(path, **arrays_by_name)
    return path.read_bytes()


def test_an_archive_that_declares_more_than_it_can_hold_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(10))
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="declares more bytes than it can hold"):
        load_arrays(path, what="arrays")


def test_entries_that_overlap_or_repeat_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    content = bytearray(_archive(path, a=np.arange(4), b=np.arange(4)))
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = bytes(4)  # the second entry is the first one again
    path.write_bytes(content)
    with pytest.raises(StoreError, match="overlaps another"):
        load_arrays(path, what="arrays")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(header(), bytes(16)))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", npy(header(), bytes(16)))
    with pytest.raises(StoreError, match="the array `a` twice"):
        load_arrays(path, what="arrays")


def test_a_changed_byte_of_an_archive_is_found_by_its_checksum(tmp_path):
    path = tmp_path / "a.npz"
    content = bytearray(_archive(path, a=np.full(4, 7)))
    content[content.index(struct.pack("<q", 7))] = 8
    path.write_bytes(content)
    with pytest.raises(StoreError, match="its array `a`: Bad CRC-32"):
        load_arrays(path, what="arrays")


def test_only_arrays_that_are_asked_for_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(2), b=np.array([{}], object))
    assert set(load_arrays(tmp_path / "a.npz", what="arrays", names=["a"])) == {"a"}
    with pytest.raises(StoreError, match="its array `b`: it holds Python objects"):
        load_arrays(tmp_path / "a.npz", what="arrays")
    with pytest.raises(StoreError, match="it has no array `c`"):
        load_arrays(tmp_path / "a.npz", what="arrays", names=["c"])


@given(data=st.data())
def test_no_damage_ends_in_anything_else(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    np.savez_compressed(folder / "a.npz", a=np.arange(9), b=np.array(["x", "y"]))
    np.save(folder / "a.npy", np.arange(6).reshape(2, 3))
    for name, read in (("a.npz", load_arrays), ("a.npy", load_array), ("a.npy", map_array)):
        content = bytearray((folder / name).read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        (folder / f"damaged-{name}").write_bytes(content[: data.draw(st.integers(0, len(content)))])
        with contextlib.suppress(SCRError):
            read(folder / f"damaged-{name}", what="arrays")
