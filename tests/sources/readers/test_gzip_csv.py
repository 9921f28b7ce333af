import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sources.readers.ogb_files import write_csv, write_text

from scr.errors import SourceError
from scr.sources.readers import _gzip_csv as gzip_csv
from scr.sources.readers._gzip_csv import count_columns, fill_matrix, read_cells, read_column

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=12)


def read(path, rows, columns, dtype=np.float32):
    matrix = np.empty((rows, columns), dtype)
    fill_matrix(path, matrix, counted_by="counts.csv.gz")
    return matrix


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(values=hnp.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_infinity=False)))
def test_floats_come_back_bit_for_bit_as_pandas_wrote_them(tmp_path, values):
    write_csv(tmp_path / "x.csv.gz", values)
    np.testing.assert_array_equal(read(tmp_path / "x.csv.gz", *values.shape), values)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(values=hnp.arrays(np.int32, SHAPES))
def test_whole_numbers_come_back_also_into_a_transposed_array(tmp_path, values):
    write_csv(tmp_path / "x.csv.gz", values)
    target = np.empty(values.shape[::-1], np.int32)
    fill_matrix(tmp_path / "x.csv.gz", target.T, counted_by="counts.csv.gz")
    np.testing.assert_array_equal(target, values.T)


def test_a_file_of_many_blocks_is_joined_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_csv, "BLOCK_BYTES", 256)
    values = np.random.default_rng(0).standard_normal((500, 3)).astype(np.float32)
    write_csv(tmp_path / "x.csv.gz", values)
    np.testing.assert_array_equal(read(tmp_path / "x.csv.gz", 500, 3), values)
    write_csv(tmp_path / "n.csv.gz", np.arange(5000))
    np.testing.assert_array_equal(read_column(tmp_path / "n.csv.gz"), np.arange(5000))


def test_a_missing_float_is_nan_as_in_pandas(tmp_path):
    write_csv(tmp_path / "x.csv.gz", [1.0, np.nan, 3.0])
    expected = pd.read_csv(tmp_path / "x.csv.gz", header=None).to_numpy()
    np.testing.assert_array_equal(read(tmp_path / "x.csv.gz", 3, 1), expected)
    with pytest.raises(SourceError, match=r"not a table of numbers|row 2: a number is missing"):
        read_column(tmp_path / "x.csv.gz")
    write_text(tmp_path / "n.csv.gz", "1\n\nnan\n")
    with pytest.raises(SourceError, match="a number is missing"):
        read_column(tmp_path / "n.csv.gz")


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(tmp_path, kept):
    path = tmp_path / "x.csv.gz"
    write_csv(path, np.random.default_rng(0).standard_normal((2000, 5)))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(SourceError, match=r"x.csv.gz.*cut off"):
        read(path, 2000, 5)


def test_a_file_that_was_altered_is_refused(tmp_path):
    path = tmp_path / "x.csv.gz"
    write_csv(path, np.random.default_rng(0).standard_normal((2000, 5)))
    content = bytearray(path.read_bytes())
    content[-8] ^= 1  # the checksum
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"x.csv.gz.*damaged"):
        read(path, 2000, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4\n", r"has 2 rows; expected 3, as `counts.csv.gz` says"),
        ("1,2\n3,4\n5,6\n7,8\n", r"has more than 3 rows; expected 3"),
        ("1,2,3\n", r"has 3 columns; expected 2"),
        ("1,2\n3,4\n5\n", r"not a table of numbers"),
        ("1,2\n3,4\n5,x\n", r"not a table of numbers.*'x'"),
        ("", r"has 0 rows; expected 3"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(tmp_path, text, message):
    write_text(tmp_path / "x.csv.gz", text)
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path / "x.csv.gz", 3, 2)
    assert "x.csv.gz" in str(caught.value)


def test_a_missing_or_uncompressed_file_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"x.csv.gz` is missing"):
        read_column(tmp_path / "x.csv.gz")
    (tmp_path / "x.csv.gz").write_text("1\n2\n")
    with pytest.raises(SourceError, match=r"x.csv.gz` is damaged"):
        count_columns(tmp_path / "x.csv.gz")


def test_cells_keep_commas_in_quotes(tmp_path):
    write_text(tmp_path / "x.csv.gz", 'a,b\n\n0,"x, y"\n')
    assert read_cells(tmp_path / "x.csv.gz") == [["a", "b"], ["0", "x, y"]]
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()).startswith(b"a,b")
