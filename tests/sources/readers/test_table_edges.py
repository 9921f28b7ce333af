"""Tables of edges that are read by batches are those that are read at once."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import campaigns

from scr.errors import SourceError
from scr.sources import EdgeSource, IngestOptions, load_graph
from scr.sources.readers import _table_edges as table_edges
from scr.sources.readers import _tables as tables


@pytest.fixture
def by_batches(monkeypatch):
    monkeypatch.setattr(tables, "LARGE_BYTES", 1)
    monkeypatch.setattr(table_edges, "_BLOCK_BYTES", 64)


IDS = {
    "in order": [0, 1, 2, 3, 4, 5],
    "numbers in any order": [70, -3, 12, 5, 900, 6],
    "hashes of 64 bits": [3, 2**64 - 1, 2**63, 2**63 + 1, 12, 2**62],
    "text": ["a", "b", "007", "7", "", "f"],
    "text of numbers": ["1", "2", "3", "4", "5", "6"],
}


def write(folder, kind, ids, ends):
    nodes = pd.DataFrame({"id": ids, "label": [0, 1] * 3})
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "note": "x"}).infer_objects()
    if kind == "csv":
        nodes.to_csv(folder / "nodes.csv", index=False)
        edges.to_csv(folder / "edges.csv", index=False)
    else:
        nodes.to_parquet(folder / "nodes.parquet")
        edges.to_parquet(folder / "edges.parquet")
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("ids", IDS)
@campaigns.examples(10)
@given(seed=st.integers(0, 2**32))
def test_every_kind_of_id_is_found_batch_by_batch(tmp_path_factory, kind, ids, seed):
    if kind == "csv" and "" in IDS[ids]:
        return  # an empty cell of a CSV is a missing id
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 6, (2, 40))
    names = np.array(IDS[ids], object)
    folder = write(tmp_path_factory.mktemp("tables"), kind, IDS[ids], names[rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGE_BYTES", 1)
        patch.setattr(table_edges, "_BLOCK_BYTES", 64)
        raw = tables.read_tables(folder, IngestOptions())
    assert isinstance(raw.edges, EdgeSource)
    assert raw.edges.num_edges == 40
    for size in (7, 100):
        found = np.concatenate([*raw.edges.chunks(size)], axis=1)
        np.testing.assert_array_equal(found, rows)
    found_ids = [str(each) for each in load_graph(folder).ids]
    assert found_ids == [str(each) for each in IDS[ids]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("ids", "bad"), [("in order", 6), ("in order", "x"), ("text", "z")])
def test_an_id_that_no_node_has_is_named_with_its_row(tmp_path, by_batches, kind, ids, bad):
    names = [str(each) or "e" for each in IDS[ids]]
    ends = np.array([names * 10, names * 10], object)
    ends[1, 43] = str(bad)
    folder = write(tmp_path, kind, names, ends)
    with pytest.raises(SourceError, match=rf"row 44: the target is `{bad}`, which is not an id"):
        load_graph(folder)


def test_an_end_that_is_missing_is_named(tmp_path, by_batches):
    ends = [[0, 1, None], [1, 2, 3]]
    folder = write(tmp_path, "parquet", IDS["in order"], ends)
    with pytest.raises(SourceError, match="row 3: the source is empty"):
        load_graph(folder)
