"""A folder of Parquet files: resumed after a stop, and without what a killed worker has left."""

from __future__ import annotations

import os

import pyarrow.dataset
import pyarrow.parquet
import pytest
from tests.conftest import make_random_graph

from scr import NodeClassifier
from scr.errors import StoreError
from scr.prediction import ProbabilityColumns
from scr.prediction import _shards as shards
from scr.sources import load_graph

PARTIAL = ".part-00001.parquet.partial"
"""What a worker that was killed while it wrote leaves."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    graph = load_graph(str(make_random_graph().save(folder / "graph.store")))
    NodeClassifier("sgc", "none", epochs=2).fit(graph).save(folder / "run")
    return folder / "run"


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "ROWS_PER_SHARD", 25)


def stopped(run, out, monkeypatch, **options):
    """Stop after the first file, and leave what a killed worker leaves."""
    written = shards.write_predictions

    def stops(path, **settings):
        if path.name != "part-00000.parquet":
            (path.parent / PARTIAL).mkdir(exist_ok=True)
            (path.parent / PARTIAL / "content").write_text("half")
            raise KeyboardInterrupt
        written(path, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_predictions", stops)
        with pytest.raises(KeyboardInterrupt):
            shards.write_prediction_shards(run, out, **options)
    assert not out.exists()


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_what_was_finished_is_kept_and_nothing_else_is_left(run, tmp_path, monkeypatch):
    shards.write_prediction_shards(run, tmp_path / "whole")
    stopped(run, tmp_path / "out", monkeypatch)
    (first,) = (each for each in tmp_path.rglob("part-00000.parquet") if "whole" not in each.parts)
    before = first.stat().st_mtime_ns
    shards.write_prediction_shards(run, tmp_path / "out")
    assert names(tmp_path / "out") == names(tmp_path / "whole")
    assert (tmp_path / "out" / first.name).stat().st_mtime_ns == before
    tables = [pyarrow.dataset.dataset(tmp_path / name).to_table() for name in ("out", "whole")]
    assert tables[0].equals(tables[1])
    assert names(tmp_path) == ["out", "whole"]


def test_other_columns_begin_anew(run, tmp_path, monkeypatch):
    stopped(run, tmp_path / "out", monkeypatch)
    columns = ProbabilityColumns.parse("all")
    shards.write_prediction_shards(run, tmp_path / "out", columns=columns)
    table = pyarrow.dataset.dataset(tmp_path / "out").to_table()
    single = pyarrow.parquet.read_table(tmp_path / "out" / "part-00000.parquet")
    assert table.num_rows == 60
    assert single.column_names == table.column_names
    assert len(table.column_names) > 4
    assert names(tmp_path) == ["out"]


def test_only_a_folder_of_predictions_is_replaced(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(os.urandom(10))
    for overwrite in (False, True):
        with pytest.raises(StoreError):
            shards.write_prediction_shards(run, tmp_path / "photos", overwrite=overwrite)
    assert names(tmp_path / "photos") == ["cat.jpg"]
    shards.write_prediction_shards(run, tmp_path / "out")
    shards.write_prediction_shards(run, tmp_path / "out", overwrite=True)
    assert len(names(tmp_path / "out")) == 3
