"""Tables of every form come out alike, and whatever cannot be read is one sentence."""

import gzip
import subprocess
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import ConfigError, SCRError, SourceError
from scr.tables import read_any_table

ROWS = {"id": ["007", "b"], "note": ["a, b", "Grün"]}


def written(path, delimiter=",", encoding="utf-8"):
    lines = [delimiter.join(ROWS)]
    lines += [
        delimiter.join(f'"{cell}"' for cell in row) for row in zip(*ROWS.values(), strict=True)
    ]
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_delimiter_and_encoding_of_text_files_are_found(tmp_path, delimiter, encoding):
    table = read_any_table(written(tmp_path / "nodes.csv", delimiter, encoding))
    assert table.to_pydict() == ROWS


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "csv.gz", "parquet", "arrow", "feather"])
def test_files_of_every_form_are_the_same_table(tmp_path, ending):
    path, table = tmp_path / f"nodes.{ending}", pa.table(ROWS)
    if ending == "csv.gz":
        path.write_bytes(gzip.compress(written(tmp_path / "n.csv").read_bytes()))
    elif ending == "parquet":
        pyarrow.parquet.write_table(table.to_pandas().astype("category").pipe(pa.table), path)
    elif ending == "feather":
        pyarrow.feather.write_feather(table, path)
    elif ending == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    else:
        written(path)
    assert read_any_table(path).to_pydict() == ROWS


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_in_memory_are_read_as_they_are(library):
    module = pytest.importorskip(library)
    frame = module.DataFrame({**ROWS, "size": [1, 2]})
    table = read_any_table(frame)
    assert table.to_pydict() == {**ROWS, "size": [1, 2]}
    assert table.schema.types == [pa.string(), pa.string(), pa.int64()]
    assert read_any_table(pa.table(ROWS)).to_pydict() == ROWS


def test_reading_a_file_imports_neither_pandas_nor_polars(tmp_path):
    path = written(tmp_path / "nodes.csv")
    code = (
        "import sys; from scr.tables import read_any_table; "
        f"read_any_table({str(path)!r}); print({{'pandas', 'polars'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_cell_may_have_line_breaks_and_rows_of_another_length_are_all_counted(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text('id,note\n1,"two\nlines"\n2,b\n')
    assert read_any_table(path)["note"].to_pylist() == ["two\nlines", "b"]
    path.write_text("id,note\n1,a\n2\n3,a\n4,b,c\n")
    with pytest.raises(SourceError, match=r"2 rows .* 2 cells, first row 2 with 1, row 4 with 3"):
        read_any_table(path)


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_header_may_be_of_any_length(tmp_path, delimiter):
    names = [f"feature {number:05}" for number in range(10_001)]
    path = tmp_path / "nodes.csv"
    path.write_text(f"{delimiter.join(names)}\n{delimiter.join('1' * len(names))}\n")
    table = read_any_table(path)
    assert table.column_names == names
    assert table.num_rows == 1


def test_columns_of_the_same_name_are_numbered():
    pandas = pytest.importorskip("pandas")
    table = read_any_table(pandas.DataFrame([[1, "x"]], columns=[0, "0"]))
    assert table.to_pydict() == {"0": [1], "0.1": ["x"]}


def test_columns_are_numbered_as_pandas_does(tmp_path):
    pandas = pytest.importorskip("pandas")
    for header in ("a,a,a", "a,a,a.1", "a.1,a,a", "a,b,a,b,a.1,a.1", "x"):
        cells = ",".join("1" * len(header.split(",")))
        (tmp_path / "t.csv").write_text(f"{header}\n{cells}\n")
        expected = list(pandas.read_csv(tmp_path / "t.csv").columns)
        assert read_any_table(tmp_path / "t.csv").column_names == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.csv", b"", "is empty"),
        ("nul.csv", b"id,a\n1,\0\n", "NUL"),
        ("half.csv", "id,a\n1,x\n".encode("utf-16-le")[:-1], "NUL|decoded"),
        ("broken.parquet", b"PAR1", "cannot be read"),
        ("broken.csv.gz", b"id,a\n", "cannot be read"),
        ("table.xlsx", b"id", r"ending `.xlsx`; expected .csv"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SourceError, match=reason):
        read_any_table(path)


def test_other_objects_and_settings_are_refused(tmp_path):
    with pytest.raises(SourceError, match="is a `list`"):
        read_any_table([1, 2])
    with pytest.raises(SourceError, match="does not exist"):
        read_any_table(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="`delimiter`"):
        read_any_table(written(tmp_path / "nodes.csv"), delimiter=";;")
    with pytest.raises(ConfigError, match="`encoding`"):
        read_any_table(written(tmp_path / "nodes.csv"), encoding="utf-9")


def test_an_index_that_pandas_wrote_is_left_out(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(",id,a\n0,x,1\n1,y,2\n")
    assert read_any_table(path).column_names == ["id", "a"]
    path.write_text(",id,\n7,x,1\n1,y,2\n")
    assert read_any_table(path).column_names == ["column 1", "id", "column 3"]


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_table_or_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "nodes.csv"
    path.write_bytes(content)
    try:
        table = read_any_table(path)
    except SCRError:
        return
    assert all(kind == pa.string() for kind in table.schema.types)
