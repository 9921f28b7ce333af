"""Predictions as a table: the user's ids, the stated columns, whole or not at all."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import scr
from scr.errors import ConfigError, StoreError
from scr.prediction import ProbabilityColumns, write_predictions
from scr.prediction import _table as table

PROBABILITIES = np.array(
    [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3]], np.float32
)


@pytest.fixture
def graph():
    with pytest.warns(UserWarning, match="2 of 3 classes have no training label"):
        return make_graph()


def make_graph():
    return scr.Graph.from_edges(
        [[0, 1, 2], [1, 2, 3]],
        features=np.eye(4),
        labels=[0, 1, 2, -1],
        train=[0],
        valid=[1],
        test=[2],
        ids=["ann", "bob", "cid", "dan"],
        class_names=("red", "green", "blue"),
    )


def predict(nodes):
    return PROBABILITIES[nodes]


def rows(path):
    return pq.read_table(path).to_pylist()


def test_each_row_has_the_users_id_and_class_names(graph, tmp_path):
    write_predictions(tmp_path / "p.parquet", graph, predict)
    found = rows(tmp_path / "p.parquet")
    assert [row["id"] for row in found] == ["ann", "bob", "cid", "dan"]
    assert [row["prediction"] for row in found] == ["red", "blue", "green", "green"]
    assert [row["split"] for row in found] == ["train", "valid", "test", ""]
    assert [row["label"] for row in found] == ["red", "green", "blue", None]
    assert found[1]["confidence"] == pytest.approx(0.8)


def test_all_probabilities_have_a_column_per_class(graph, tmp_path):
    write_predictions(
        tmp_path / "p.parquet", graph, predict, columns=ProbabilityColumns.parse("all")
    )
    found = pq.read_table(tmp_path / "p.parquet")
    named = [found[f"probability_{name}"].to_numpy() for name in ("red", "green", "blue")]
    np.testing.assert_array_equal(np.stack(named, axis=1), PROBABILITIES)


def test_the_likeliest_classes_come_in_order(graph, tmp_path):
    write_predictions(
        tmp_path / "p.parquet", graph, predict, columns=ProbabilityColumns.parse("top-2")
    )
    last = rows(tmp_path / "p.parquet")[3]
    assert (last["class_1"], last["class_2"]) == ("green", "blue")
    assert (last["probability_1"], last["probability_2"]) == pytest.approx((0.5, 0.3))


def test_many_parts_make_the_same_table(graph, tmp_path, monkeypatch):
    write_predictions(tmp_path / "one.parquet", graph, predict)
    monkeypatch.setattr(table, "ROWS_PER_PART", 1)
    seen = []
    write_predictions(tmp_path / "four.parquet", graph, predict, on_rows=seen.append)
    assert seen == [1, 1, 1, 1]
    assert rows(tmp_path / "one.parquet") == rows(tmp_path / "four.parquet")


def test_only_the_nodes_that_were_asked_for(graph, tmp_path):
    write_predictions(tmp_path / "p.parquet", graph, predict, nodes=np.array([3, 1]))
    assert [row["id"] for row in rows(tmp_path / "p.parquet")] == ["dan", "bob"]


def test_a_failure_in_the_middle_leaves_nothing(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "ROWS_PER_PART", 2)

    def fails(nodes):
        if nodes[0] > 1:
            raise OSError(28, "No space left on device")
        return PROBABILITIES[nodes]

    with pytest.raises(StoreError, match="disk is too full"):
        write_predictions(tmp_path / "p.parquet", graph, fails)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["top", "top-0", "top-x", "some", ""])
def test_other_column_choices_are_refused(text):
    with pytest.raises(ConfigError, match="top-K"):
        ProbabilityColumns.parse(text)
