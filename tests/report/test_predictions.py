import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import sklearn.metrics

from scr.errors import RunError
from scr.report import _predictions as module
from scr.report import reliability_curve
from scr.report._predictions import summarize_predictions


def write(path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture
def rows():
    generator = np.random.default_rng(3)
    return {
        "id": np.arange(500),
        "prediction": generator.integers(0, 12, 500),
        "confidence": generator.random(500),
        "split": generator.choice(["train", "valid", "test"], 500),
        "label": generator.integers(-1, 12, 500),
    }


def test_streamed_summary_agrees_with_all_rows_at_once(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(module, "_BATCH_ROWS", 37)
    summary = summarize_predictions(write(tmp_path / "p.parquet", **rows))
    kept = (rows["split"] == "test") & (rows["label"] >= 0)
    labels, predictions = rows["label"][kept], rows["prediction"][kept]
    split, test = summary.measured_split()
    names = summary.class_names()
    assert split == "test"
    assert names == [str(i) for i in range(12)]
    np.testing.assert_array_equal(
        test.confusion(names),
        sklearn.metrics.confusion_matrix(labels, predictions, labels=range(12)),
    )
    expected = reliability_curve(rows["confidence"][kept], labels == predictions)
    assert test.curve.calibration_error == pytest.approx(expected.calibration_error)
    np.testing.assert_allclose(test.curve.confidence, expected.confidence)


def test_shown_nodes_are_the_extremes_of_all_batches(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(module, "_BATCH_ROWS", 37)
    summary = summarize_predictions(write(tmp_path / "p.parquet", **rows))
    unseen = np.flatnonzero(rows["split"] != "train")
    rising = unseen[np.argsort(rows["confidence"][unseen])]
    unknown = rising[rows["label"][rising] < 0]
    assert [node.id for node in summary.least_sure] == [str(i) for i in unknown[:8]]
    wrong = [row for row in rising if rows["label"][row] not in (-1, rows["prediction"][row])]
    assert [node.id for node in summary.surest_mistakes] == [str(i) for i in wrong[::-1][:8]]
    assert all(node.label != node.prediction for node in summary.surest_mistakes)
    assert all(node.label is not None for node in summary.surest_mistakes)


def test_nodes_whose_label_is_known_are_no_candidates_for_labels(tmp_path):
    path = write(
        tmp_path / "p.parquet", id=["a", "b", "c", "d"], prediction=["x", "y", "x", "y"],
        confidence=[0.1, 0.2, 0.4, 0.3], split=["test", "valid", "", ""],
        label=["x", "y", None, None],
    )  # fmt: skip
    assert [node.id for node in summarize_predictions(path).least_sure] == ["d", "c"]


def test_predictions_without_labels_or_splits_have_nothing_to_measure(tmp_path):
    path = write(tmp_path / "p.parquet", id=["a"], prediction=["x"], confidence=[0.5])
    summary = summarize_predictions(path)
    assert summary.measured_split() is None
    assert summary.least_sure[0].label is None


def test_minus_one_is_unknown_as_a_number_and_a_class_as_text(tmp_path):
    columns = {"id": [1, 2], "confidence": [0.5, 0.6], "split": ["test", "test"]}
    numbers = write(tmp_path / "n.parquet", **columns, prediction=[0, 1], label=[-1, 1])
    texts = write(tmp_path / "t.parquet", **columns, prediction=["-1", "1"], label=["-1", "1"])
    assert summarize_predictions(numbers).class_names() == ["0", "1"]
    assert summarize_predictions(numbers).splits["test"].pairs.total() == 1
    assert summarize_predictions(texts).splits["test"].pairs.total() == 2


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(RunError, match="confidence"):
        summarize_predictions(write(tmp_path / "p.parquet", id=[1], prediction=[1]))


def test_a_file_that_is_not_parquet_is_a_clear_error(tmp_path):
    (tmp_path / "p.parquet").write_bytes(b"not a table at all")
    with pytest.raises(RunError, match="Parquet"):
        summarize_predictions(tmp_path / "p.parquet")
