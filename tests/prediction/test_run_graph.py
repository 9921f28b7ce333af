"""The graph of a run is found again as it was, or refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from scr.classifier import NodeClassifier
from scr.cli import main
from scr.errors import RunError
from scr.graph import open_store
from scr.prediction.run_directory import read_run
from scr.prediction.run_graph import load_run_graph

QUICK = {"epochs": 2, "evaluate_every": 1, "select": "last"}


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def saved(graph, folder):
    """A run on a store of this graph."""
    stored = open_store(graph.save(folder / "store"))
    return NodeClassifier("ssgc", "none", **QUICK).fit(stored).save(folder / "run")


@pytest.mark.parametrize("missing", [["valid"], ["test"], ["valid", "test"]])
def test_a_run_without_some_splits_is_predicted_and_smoothed(tmp_path, random_graph, missing):
    run = saved(random_graph(**dict.fromkeys(missing)), tmp_path)
    file = tmp_path / "predictions.parquet"
    assert scr("predict", run, "--out", file, "--probabilities", "none") == 0
    assert pq.read_table(file).equals(pq.read_table(run / "predictions.parquet"))
    assert scr("smooth", run, "--no-search") == 0
    record = json.loads((run / "smooth" / "smooth.json").read_text())
    for split in ("valid", "test"):
        assert (record[split]["after"] is None) == (split in missing)


def test_the_graph_comes_back_with_the_split_of_the_run(tmp_path, random_graph):
    stored = open_store(random_graph().save(tmp_path / "store"))
    split = stored.with_split(stored.test, stored.train)
    run = NodeClassifier("ssgc", "none", **QUICK).fit(split).save(tmp_path / "run")
    graph = load_run_graph(run, read_run(run))
    assert graph.fingerprint() == split.fingerprint()
    assert graph.train.tolist() == stored.test.tolist()
    assert len(graph.test) == 0


@pytest.mark.parametrize("what", ["features", "labels", "edges"])
def test_a_graph_of_the_same_size_with_other_content_is_refused(tmp_path, random_graph, what):
    graph = random_graph()
    run = saved(graph, tmp_path)
    changes = {
        "features": {"features": np.asarray(graph.features) + 1},
        "labels": {"labels": (graph.labels + 1) % 3},
        "edges": {"seed": 1, "features": graph.features, "labels": graph.labels},
    }
    random_graph(**changes[what]).save(tmp_path / "store", overwrite=True)
    with pytest.raises(RunError, match="not the graph that the run was trained on"):
        NodeClassifier.load(run).predict()


def test_a_graph_that_was_made_in_memory_is_asked_for(tmp_path, random_graph):
    graph = random_graph()
    run = NodeClassifier("ssgc", "none", **QUICK).fit(graph).save(tmp_path / "run")
    with pytest.raises(RunError, match="made in memory"):
        NodeClassifier.load(run).predict()
    assert NodeClassifier.load(run, graph=graph).predict().shape == (60,)
