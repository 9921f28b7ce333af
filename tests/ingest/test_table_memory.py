"""Tables that cannot fit are refused before they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scr.compute import resident_bytes
from scr.errors import MemoryBudgetError
from scr.ingest import ingest
from scr.sources import IngestOptions

WRITERS = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_table_that_is_too_large_is_not_read(tmp_path, kind, monkeypatch):
    numbers = np.arange(50_000)
    features = {f"x{column}": np.full(len(numbers), 0.5) for column in range(20)}
    edges = {"source": numbers[1:], "target": numbers[:-1]}
    for name, table in {
        "nodes": {"id": numbers, "label": numbers % 3} | features,
        "edges": edges,
    }.items():
        WRITERS[kind](pa.table(table), tmp_path / f"{name}.{kind}")
    monkeypatch.setattr(pyarrow.csv, "read_csv", lambda *_, **__: pytest.fail("it was read"))
    for name in ("read", "read_row_group", "iter_batches"):
        refused = lambda *_, **__: pytest.fail("it was read")  # noqa: E731
        monkeypatch.setattr(pyarrow.parquet.ParquetFile, name, refused)
    with pytest.raises(MemoryBudgetError, match=rf"Reading `.*\.{kind}`"):
        ingest(tmp_path, tmp_path / "store", IngestOptions(), memory=resident_bytes() + 2**18)
    assert not (tmp_path / "store").exists()
