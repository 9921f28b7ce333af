"""`--features FILE.npy` from ingest to predict: a run finds its features again."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from scr.cli import main
from scr.graph import open_store

QUICK = ["--encoder", "ssgc", "--set", "training.epochs=4", "--set", "training.evaluate_every=2"]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


@pytest.fixture
def store(tmp_path, random_graph):
    return random_graph().save(tmp_path / "store")


@pytest.fixture
def features(tmp_path, store):
    labels = open_store(store).labels
    values = np.eye(3)[labels] + np.random.default_rng(0).normal(size=(60, 3)) / 10
    np.save(tmp_path / "x.npy", values)
    return tmp_path / "x.npy"


def test_a_run_with_other_features_predicts_with_them_again(tmp_path, store, features, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, file = tmp_path / "run", tmp_path / "predictions.parquet"
    assert scr("train", store, "--features", "x.npy", "--out", run, *QUICK) == 0
    facts = json.loads((run / "run.json").read_text())["graph"]
    assert facts["features_file"] == str(features)
    assert facts["features"] == 3
    monkeypatch.chdir("/")
    assert scr("predict", run, "--out", file, "--probabilities", "all") == 0
    first, again = pq.read_table(run / "predictions.parquet"), pq.read_table(file)
    assert first["prediction"].equals(again["prediction"])
    np.testing.assert_allclose(first["confidence"], again["confidence"], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.bool_])
def test_a_run_with_whole_numbers_predicts_with_them_again(tmp_path, store, dtype):
    # As many columns as the store's own features, so that counts alone would not tell.
    values = np.random.default_rng(0).integers(0, 2, (60, 8)).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    run, file = tmp_path / "run", tmp_path / "predictions.parquet"
    assert scr("train", store, "--features", tmp_path / "x.npy", "--out", run, *QUICK) == 0
    assert scr("predict", run, "--out", file) == 0
    first, again = pq.read_table(run / "predictions.parquet"), pq.read_table(file)
    assert first["prediction"].equals(again["prediction"])
    np.testing.assert_allclose(first["confidence"], again["confidence"], rtol=1e-6)


def test_a_features_file_that_was_replaced_is_refused(tmp_path, store, features, capsys):
    run = tmp_path / "run"
    assert scr("train", store, "--features", features, "--out", run, *QUICK) == 0
    np.save(features, np.load(features)[::-1])
    assert scr("predict", run, "--out", tmp_path / "p.parquet") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "x.npy` is not the graph that the run was trained on" in said
    assert not (tmp_path / "p.parquet").exists()


def test_smooth_finds_the_features_of_a_run_again(tmp_path, store, features):
    run = tmp_path / "run"
    assert scr("train", store, "--features", features, "--out", run, *QUICK) == 0
    steps = ["--set", "postprocess.correct_hops=2", "--set", "postprocess.smooth_hops=2"]
    assert scr("smooth", run, "--no-search", *steps) == 0
    record = json.loads((run / "smooth" / "smooth.json").read_text())
    metrics = json.loads((run / "metrics.json").read_text())
    assert record["test"]["before"] == pytest.approx(metrics["test_accuracy"])


def test_a_run_without_a_file_says_nothing_of_one(tmp_path, store):
    assert scr("train", store, "--out", tmp_path / "run", *QUICK) == 0
    assert "features_file" not in json.loads((tmp_path / "run" / "run.json").read_text())["graph"]


def test_a_run_whose_features_are_gone_says_which(tmp_path, store, features, capsys):
    run = tmp_path / "run"
    assert scr("train", store, "--features", features, "--out", run, *QUICK) == 0
    features.unlink()
    assert scr("predict", run, "--out", tmp_path / "p.parquet") == 2
    assert "x.npy` does not exist" in capsys.readouterr().err
    assert not (tmp_path / "p.parquet").exists()


def test_hops_of_other_features_lie_beside_those_of_the_store(tmp_path, store, features, capsys):
    assert scr("propagate", store, "--hops", 1) == 0
    assert scr("propagate", store, "--hops", 1, "--features", features) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "60 nodes x 8 columns" in printed
    assert "60 nodes x 3 columns" in printed
    assert scr("propagate", store, "--hops", 1, "--features", features) == 0
    assert "there already" in capsys.readouterr().out


def test_compare_and_ingest_take_the_file(tmp_path, store, features, capsys):
    out = tmp_path / "compare"
    options = ["--encoders", "ssgc", "--regularizers", "none", "--seeds", 1]
    settings = ["--set", "training.epochs=2"]
    assert scr("compare", store, "--features", features, "--out", out, *options, *settings) == 0
    assert json.loads((out / "compare.json").read_text())["graph"]["features"] == 3
    assert scr("ingest", store, tmp_path / "new", "--features", features) == 0
    stored = np.load(features).astype(np.float32)
    np.testing.assert_array_equal(open_store(tmp_path / "new").features, stored)
    said = capsys.readouterr().out
    assert "took features from x.npy" in said
    assert "stored features as float32 instead of float64" in said


def test_a_wrong_file_is_one_sentence_and_no_run(tmp_path, store, capsys):
    np.save(tmp_path / "x.npy", np.ones((59, 2)))
    run = tmp_path / "run"
    assert scr("train", store, "--features", tmp_path / "x.npy", "--out", run, *QUICK) == 2
    assert "expected 60 rows" in capsys.readouterr().err
    assert not run.exists()
