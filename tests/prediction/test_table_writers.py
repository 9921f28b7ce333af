"""Predictions in every format, read back by the libraries that people read them with."""

import csv
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scr
from scr.errors import ConfigError
from scr.prediction import ProbabilityColumns, write_predictions
from scr.prediction import _table as table

PROBABILITIES = np.array([[0.7, 0.3], [0.1, 0.9], [0.4, 0.6]], np.float32)
IDS = ["a,1", 'b "two"', "naïve\nline"]
CLASSES = ("red, or so", "blue")
READERS = {
    "p.csv": lambda path: pl.read_csv(path).to_dicts(),
    "p.tsv": lambda path: pl.read_csv(path, separator="\t").to_dicts(),
    "P.CSV": lambda path: pd.read_csv(path, keep_default_na=False).to_dict("records"),
    "p.parquet": lambda path: pd.read_parquet(path).to_dict("records"),
    "p.arrow": lambda path: pl.read_ipc(path).to_dicts(),
    "p.feather": lambda path: pd.read_feather(path).to_dict("records"),
    "p.json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    "p.jsonl": lambda path: pl.read_ndjson(path).to_dicts(),
}


@pytest.fixture
def graph():
    with pytest.warns(UserWarning, match="1 of 2 classes have no training label"):
        return scr.Graph.from_edges(
            [[0, 1], [1, 2]],
            features=np.eye(3),
            labels=[0, 1, -1],
            train=[0],
            valid=[1],
            ids=IDS,
            class_names=CLASSES,
        )


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("rows_per_part", [1, 100])
def test_other_libraries_read_the_same_rows(name, rows_per_part, graph, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "ROWS_PER_PART", rows_per_part)
    write_predictions(
        tmp_path / name, graph, lambda nodes: PROBABILITIES[nodes],
        columns=ProbabilityColumns.parse("all"), set_limits=np.array([1.0, 1.0]),
    )  # fmt: skip
    rows = READERS[name](tmp_path / name)
    assert [row["id"] for row in rows] == IDS
    assert [row["prediction"] for row in rows] == [CLASSES[0], CLASSES[1], CLASSES[1]]
    assert [row["split"] or "" for row in rows] == ["train", "valid", ""]
    assert [row["label"] for row in rows[:2]] == list(CLASSES)
    assert rows[2]["label"] in (None, "") or np.isnan(rows[2]["label"])
    blue = np.array([float(row["probability_blue"]) for row in rows])
    np.testing.assert_array_equal(blue.astype(np.float32), PROBABILITIES[:, 1])
    sets = [row["prediction_set"] for row in rows]
    sets = [json.loads(each) if isinstance(each, str) else list(each) for each in sets]
    assert sets == [list(CLASSES)] * 3
    assert [int(row["set_size"]) for row in rows] == [2, 2, 2]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
def test_any_text_comes_back_from_csv(texts):
    import pyarrow as pa

    from scr.prediction._table_writers import _CsvWriter

    writer = _CsvWriter.__new__(_CsvWriter)
    part = pa.table({"first": texts, "second": list(range(len(texts)))})
    read = list(csv.reader(io.StringIO(writer.lines(part).decode(), newline="")))
    assert read == [[text, str(number)] for number, text in enumerate(texts)]


@pytest.mark.parametrize("name", ["p.xlsx", "p", "p.csv.gz", "csv"])
def test_other_suffixes_are_refused_before_anything_is_predicted(name, graph, tmp_path):
    def predict(nodes):
        raise AssertionError("predicted")

    with pytest.raises(ConfigError, match=r"ends in one of \.csv, \.tsv, \.parquet"):
        write_predictions(tmp_path / name, graph, predict)
    assert list(tmp_path.iterdir()) == []


FORMULAS = ("=cmd()", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-")
HARMLESS = ("a=1", "1-1", "'x", " =1", "", "a;=1", "naïve")


@pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.tsv", "\t")])
def test_texts_that_a_spreadsheet_would_compute_get_an_apostrophe_on_request(
    name, separator, tmp_path
):
    ids = [*FORMULAS, *HARMLESS]
    count = len(ids)
    graph = scr.Graph.from_edges(
        [[0, 1]], num_nodes=count, features=np.ones((count, 1)), labels=[0, 1] * (count // 2),
        train=[0, 1], ids=ids, class_names=("=A1", "-"),
    )  # fmt: skip
    found = {}
    for safe in (False, True):
        write_predictions(
            tmp_path / name, graph, lambda nodes: np.float32([[0.25, 0.75]] * len(nodes)),
            columns=ProbabilityColumns.parse("all"), set_limits=np.array([1.0, 1.0]),
            spreadsheet_safe=safe,
        )  # fmt: skip
        text = (tmp_path / name).read_bytes().decode()
        found[safe] = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
        if safe:
            assert '"a;=1"' in text  # where the semicolon separates, too
    assert [row["id"] for row in found[False]] == ids
    assert [row["id"] for row in found[True]] == [*(f"'{each}" for each in FORMULAS), *HARMLESS]
    assert {row["prediction"] for row in found[True]} == {"'-"}
    assert {row["label"] for row in found[True]} == {"'=A1", "'-"}
    assert {row["prediction_set"] for row in found[True]} == {'["=A1", "-"]'}
    assert {row["probability_-"] for row in found[True]} == {"0.75"}
    assert {row["confidence"] for row in found[True]} == {"0.75"}


def test_formulas_are_neutralized_in_tables_of_text_alone(graph, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.csv or \.tsv"):
        write_predictions(tmp_path / "p.parquet", graph, None, spreadsheet_safe=True)
    assert list(tmp_path.iterdir()) == []
