import contextlib
import io
import os
import pickle
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.errors import SourceError
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._pickles import read_pickle


def read(payload):
    return read_pickle(io.BytesIO(payload), what="`file`")


class Executes:
    """A pickle of this runs a command wherever it is unpickled without care."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_that_calls_os_system_is_refused_and_not_executed(tmp_path, protocol):
    witness = tmp_path / "witness"
    payload = pickle.dumps(Executes(os.system, f"touch {witness}"), protocol=protocol)
    with pytest.raises(SourceError, match=r"names `(posix|nt)\.system`"):
        read(payload)
    assert not witness.exists()
    pickle.loads(payload)  # the same bytes do harm elsewhere, so the refusal is what saved us
    assert witness.exists()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(eval, ("1 + 1",)), (getattr, (int, "real")), (__import__, ("os",)), (np.fromfile, ("x",))],
)
def test_any_other_global_is_refused_by_name(function, arguments):
    with pytest.raises(SourceError, match=function.__name__):
        read(pickle.dumps(Executes(function, *arguments)))


def test_an_object_array_in_an_npz_goes_through_the_same_door(tmp_path):
    witness = tmp_path / "witness"
    array = np.array(Executes(os.system, f"touch {witness}"), dtype=object)
    np.savez(tmp_path / "bad.npz", adj_matrix=array)
    with pytest.raises(SourceError, match="adj_matrix"):
        NpzFile(tmp_path / "bad.npz")["adj_matrix"]
    assert not witness.exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "int64", "bool", "S3", "U4", ">f4"]
)
def test_arrays_come_back_as_they_were(protocol, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    payload = pickle.dumps(array, protocol=protocol)
    found = read(payload)
    assert found.dtype == pickle.loads(payload).dtype  # byte order may become the machine's own
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_matrices_come_back_as_they_were(protocol, kind):
    dense = np.array([[0, 2.0, 0], [1, 0, 3]])
    np.testing.assert_array_equal(
        read(pickle.dumps(kind(dense), protocol=protocol)).toarray(), dense
    )


def test_plain_containers_come_back():
    value = {1: [2, 3], "a": (None, True, 2.5), b"x": OrderedDict(k=np.float64(1.5))}
    assert read(pickle.dumps(value)) == value
    neighbors = defaultdict(list, {0: [1], 1: [0, 2]})
    assert read(pickle.dumps(neighbors, protocol=2)) == {0: [1], 1: [0, 2]}


def test_a_python_2_pickle_of_an_array_is_read():
    # What Python 2's pickle.dumps(numpy.array([1.0, 2.0]), 2) wrote.
    payload = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b"
        b"\x87Rq\x03(K\x01K\x02\x85cnumpy\ndtype\nq\x04U\x02f8K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ"
        b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00"
        b"\x00\x00\x00\x00\x00@tb."
    )
    np.testing.assert_array_equal(read(payload), [1.0, 2.0])


def test_a_crafted_matrix_never_reaches_compiled_code():
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[1] = 10_000_000
    with pytest.raises(SourceError, match="outside its shape"):
        read(pickle.dumps(matrix))
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indptr[-1] = 50
    with pytest.raises(SourceError, match="outside its shape"):
        read(pickle.dumps(matrix))


def test_another_sparse_format_is_refused_rather_than_misread():
    with pytest.raises(SourceError, match="csc"):
        read(pickle.dumps(sp.csc_matrix(np.eye(3))))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_a_clear_error_or_plain_data(data):
    payload = bytearray(pickle.dumps({"m": np.arange(4.0), "s": [1, "x"]}, protocol=2))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(SourceError):
        read(bytes(payload[: data.draw(st.integers(1, len(payload)))]))


def shared(levels, width=2, kind=b"t"):
    """A pickle of lists or tuples in each other, each of which is referred to `width` times."""
    payload = b"\x80\x02(K\x01" + kind + b"q\x00"
    for level in range(levels):
        payload += b"(" + b"h" + bytes([level]) + (b"h" + bytes([level])) * (width - 1)
        payload += kind + b"q" + bytes([level + 1])
    return payload


@pytest.mark.parametrize("kind", [b"t", b"l"])
def test_a_part_that_is_referred_to_again_and_again_is_refused_at_once(kind):
    # Expanded, these 40 levels of five references each are 5^40 entries.
    payload = shared(40, width=5, kind=kind) + b"."
    assert len(payload) < 600
    with pytest.raises(SourceError, match="same parts again and again"):
        read(payload)


@pytest.mark.parametrize("ending", [b"}h\x28K\x01s.", b"}(h\x28K\x01u.", b"(h\x28K\x01d."])
def test_a_key_that_would_be_hashed_for_ever_is_refused(ending):
    with pytest.raises(SourceError, match="a tuple for a key"):
        read(shared(40) + ending)


def test_containers_in_each_other_and_in_themselves_are_refused():
    with pytest.raises(SourceError, match="containers in each other"):
        read(b"N" + b"\x85" * 100_000 + b".")
    with pytest.raises(SourceError, match="refers to itself"):
        read(b"]q\x00h\x00a.")
    with pytest.raises(SourceError, match="refers to itself"):
        read(b"}q\x00K\x01h\x00s.")


def test_one_part_may_be_shared_by_a_few():
    names = ["a name"] * 20
    assert read(pickle.dumps([names, names], protocol=2)) == [names, names]


@pytest.mark.parametrize(
    "payload",
    [
        b"cbuiltins\nbytearray\n(J\x00\x00\x00\x7ftR.",  # bytearray(2130706432)
        b"cbuiltins\nlist\n(X\x04\x00\x00\x00abcdtR.",
        b"\x80\x04\x8e\x00\x00\x00\x00\x01\x00\x00\x00ab.",  # 4 GiB of bytes are declared
        b"\x80\x05\x96\x00\x00\x00\x00\x01\x00\x00\x00ab.",
        b"\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x80ab.",
        b"\x80\x02\x8b\xff\xff\xff\x7f1.",
        b"X\xff\xff\xff\xffa.",
        b"T\xff\xff\xff\xffa.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.x"[:-2],
        b"L" + b"9" * 5000 + b"L\n.",
        b"\x80\x02\x8b\x10\x27\x00\x00" + b"\x7f" * 10_000 + b".",  # a number of 80,000 bits
        b"V\\ud800\n.",
        b".",
        b"0.",
        b"Ptext\n.",
    ],
)
def test_declared_sizes_that_are_not_there_are_refused(payload):
    with pytest.raises(SourceError, match="`file` is a"):
        read(payload)


def test_memory_is_not_allocated_by_what_a_memo_is_called():
    assert read(b"K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff.") == 7


def test_content_is_not_copied_again_and_again():
    again = b"c_codecs\nencode\n(h\x00X\x06\x00\x00\x00latin1tR"
    payload = b"(X\x10\x27\x00\x00" + b"x" * 10_000 + b"q\x00" + again * 3 + b"l."
    with pytest.raises(SourceError, match="copies the same content"):
        read(payload)


def test_an_array_may_be_shared_by_a_few_and_not_by_all():
    once = np.zeros(10_000, np.uint8)
    for array in read(pickle.dumps([once] * 3, protocol=4)):
        np.testing.assert_array_equal(array, once)
    with pytest.raises(SourceError, match="same parts again and again"):
        read(pickle.dumps([once] * 100, protocol=4))
