"""Tables that cannot fit are refused before they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scr.errors import MemoryBudgetError
from scr.fitting._inputs import read_input
from scr.ingest import ingest
from scr.sources import IngestOptions, tables_of_source
from scr.sources._table_sizes import reading_bytes
from scr.tables import TableOptions

WRITERS = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}


def write_tables(folder, kind, nodes=1000):
    numbers = np.arange(nodes)
    features = {f"x{column}": np.full(nodes, 0.5) for column in range(20)}
    edges = {"source": numbers[1:], "target": numbers[:-1]}
    for name, table in {"nodes": {"id": numbers} | features, "edges": edges}.items():
        WRITERS[kind](pa.table(table), folder / f"{name}.{kind}")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_table_that_is_too_large_is_not_even_opened(tmp_path, kind, monkeypatch):
    write_tables(tmp_path, kind)
    monkeypatch.setattr("scr.ingest._ingest.read_raw", lambda *_: pytest.fail("it was read"))
    with pytest.raises(MemoryBudgetError, match=r"Reading `.*edges.*` and `.*nodes.*` takes"):
        ingest(tmp_path, tmp_path / "store", IngestOptions(), memory=2**20)
    assert not (tmp_path / "store").exists()


def test_the_size_of_columns_counts_and_not_of_their_compressed_file(tmp_path):
    write_tables(tmp_path, "parquet", nodes=10_000)
    file = tmp_path / "nodes.parquet"
    assert reading_bytes(file) == 2.5 * 10_000 * 8 * 21  # 20 columns of one value each, and ids
    assert file.stat().st_size < 10_000 * 8 * 3
    write_tables(tmp_path, "csv")
    assert reading_bytes(tmp_path / "nodes.csv") == 4 * (tmp_path / "nodes.csv").stat().st_size


def test_what_is_damaged_or_no_table_is_left_to_its_reader(tmp_path):
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 nothing")
    assert reading_bytes(tmp_path / "nodes.parquet") == 0
    assert reading_bytes(tmp_path / "missing.csv") == 0
    assert tables_of_source(tmp_path / "missing") == []
    (tmp_path / "edges-0.npy").touch()
    (tmp_path / "nodes.parquet").unlink()
    assert tables_of_source(tmp_path) == []


def test_fit_counts_its_tables_too(tmp_path, monkeypatch):
    write_tables(tmp_path, "csv")
    monkeypatch.setattr("scr.fitting._inputs.process_budget", lambda _: 2**20)
    with pytest.raises(MemoryBudgetError, match=r"Reading `.*nodes.csv` and `.*edges.csv` takes"):
        read_input(tmp_path / "nodes.csv", tmp_path / "edges.csv", TableOptions())
