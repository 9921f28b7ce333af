"""Memory that runs out while a file is read is said as that, and not as damage of the file."""

from __future__ import annotations

import errno
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.conftest import make_random_graph

from scr.compute import is_out_of_memory, resident_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.graph import open_store, write_store
from scr.sources.readers import _gzip_csv
from scr.storage import load_array, load_arrays, reading_within
from scr.tables import read_any_table, read_table_graph

LACKS = {
    "Python": MemoryError(),
    "NumPy": MemoryError("Unable to allocate 8.00 GiB for an array"),
    "Arrow": pa.ArrowMemoryError("malloc of size 256 failed"),
    "threads": pa.ArrowException("Unknown error: Failed to launch worker thread"),
    "torch": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    "system": OSError(errno.ENOMEM, "Cannot allocate memory"),
}


def _write_gzip(path):
    path.write_bytes(gzip.compress(b"1\n2\n"))


READERS = {
    "a.npy": (lambda path: np.save(path, np.arange(3)), lambda path: load_array(path, what="x"),
              "scr.storage._load.read_values"),
    "a.npz": (lambda path: np.savez(path, x=np.arange(3)), lambda path: load_arrays(path, what="x"),
              "scr.storage._load.read_values"),
    "a.csv": (lambda path: path.write_text("id,label\n0,1\n"), read_any_table,
              "pyarrow.csv.read_csv"),
    "a.parquet": (lambda path: pa.parquet.write_table(pa.table({"id": [1]}), path), read_any_table,
                  "pyarrow.parquet.ParquetFile.read"),
    "a.arrow": (lambda path: pa.feather.write_feather(pa.table({"id": [1]}), path), read_any_table,
                "pyarrow.ipc.open_stream"),
    "a.csv.gz": (_write_gzip, _gzip_csv.read_column, "pyarrow.csv.open_csv"),
    "store/indptr.npy": (lambda path: write_store(make_random_graph(), path.parent),
                         lambda path: open_store(path.parent), "numpy.memmap"),
}  # fmt: skip


@pytest.mark.parametrize("lack", LACKS)
@pytest.mark.parametrize("name", READERS)
def test_a_lack_of_memory_names_the_file_and_is_no_damage(tmp_path, monkeypatch, name, lack):
    write, read, place = READERS[name]
    path = tmp_path / name
    write(path)

    def fail(*_: object, **__: object) -> None:
        raise LACKS[lack]

    monkeypatch.setattr(place, fail)
    with pytest.raises(MemoryBudgetError, match=r"^Memory ran out while ") as caught:
        read(path)
    assert f"`{path}` was read" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert is_out_of_memory(caught.value)  # which the command line ends at once


def test_two_tables_that_do_not_fit_are_a_lack_of_memory_as_well(tmp_path, monkeypatch):
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / name).write_text("id,label\n0,1\n")

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pyarrow.csv.read_csv", fail)
    with pytest.raises(MemoryBudgetError, match=r"nodes\.csv` was read"):
        read_table_graph(tmp_path / "nodes.csv", tmp_path / "edges.csv")


def test_a_damaged_file_that_declares_much_is_damage(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    content = (tmp_path / "a.npy").read_bytes().replace(b"(3,), }", b"(2305843009213693,), }", 1)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read as x"):
        load_array(tmp_path / "a.npy", what="x")


ROWS = 1 << 19


@pytest.mark.parametrize("name", ["a.csv.gz", "a.arrow", "a.feather", "column.csv.gz"])
def test_packed_tables_count_against_the_budget(tmp_path, name):
    path, table = tmp_path / name, pa.table({"id": np.zeros(ROWS, np.int64)})
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(b"0\n" * ROWS * (4 if name == "a.csv.gz" else 1)))
    elif name == "a.arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    else:
        pa.feather.write_feather(table, path, compression="zstd")
    read = _gzip_csv.read_column if name.startswith("column") else read_any_table
    with (
        reading_within(resident_bytes() + (1 << 20)),
        pytest.raises(MemoryBudgetError, match=r"^Reading `.*` takes .*; the budget is"),
    ):
        read(path)
    read(path)
