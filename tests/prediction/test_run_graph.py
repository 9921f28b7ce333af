"""The graph of a run is found again as it was, or refused."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from scr.classifier import NodeClassifier
from scr.cli import main
from scr.errors import RunError
from scr.graph import open_store
from scr.prediction import load_run_graph
from scr.sources import IngestOptions, load_graph

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
    graph = load_run_graph(run)
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


@pytest.fixture
def bundle(tmp_path, random_graph):
    """A file with a graph, whose split is its own."""
    graph = random_graph()
    edges = np.stack(graph.adjacency().nonzero())
    splits = {"train_idx": graph.train, "val_idx": graph.valid, "test_idx": graph.test}
    names = np.array(["a", "b", "c"])
    np.savez(
        tmp_path / "toy.npz",
        edge_index=edges,
        x=graph.features,
        y=graph.labels,
        label_names=names,
        **splits,
    )
    return tmp_path / "toy.npz"


def fitted(graph):
    return NodeClassifier("ssgc", "none", **QUICK).fit(graph)


@pytest.mark.parametrize("of", ["bundle", "store", "digits"])
def test_a_graph_of_load_graph_is_found_again_from_another_folder(
    tmp_path, bundle, of, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    load_graph(bundle).save("store")
    source = {"bundle": "toy.npz", "store": "store", "digits": "digits"}[of]
    classifier = fitted(load_graph(source, splits="per-class:4,4"))
    run = classifier.save(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(NodeClassifier.load(run).predict(), classifier.predict())
    assert scr("predict", run, "--out", "new.parquet", "--probabilities", "none") == 0
    assert pq.read_table("new.parquet").equals(pq.read_table(run / "predictions.parquet"))


def test_a_store_that_was_opened_is_found_again_from_another_folder(
    tmp_path, random_graph, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    classifier = fitted(open_store(random_graph().save("store")))
    run = classifier.save(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(NodeClassifier.load(run).predict(), classifier.predict())


def test_train_and_save_record_the_same_source(tmp_path, bundle, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--encoder", "ssgc", "--set", "training.epochs=2"]
    assert scr("train", "toy.npz", "--out", "trained", *options) == 0
    fitted(load_graph("toy.npz")).save("saved")
    recorded = [
        json.loads((tmp_path / run / "run.json").read_text()) for run in ("trained", "saved")
    ]
    assert [run["graph"]["source"] for run in recorded] == [str(bundle.resolve())] * 2


def test_the_prefix_of_several_files_is_recorded_in_full(tmp_path, monkeypatch):
    from scr.sources._load import lasting_source

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert lasting_source("data/ind.cora") == str(tmp_path.resolve() / "data" / "ind.cora")
    assert lasting_source("ogbn-arxiv") == "ogbn-arxiv"
    (tmp_path / "digits").mkdir()
    assert lasting_source("digits") == str(tmp_path.resolve() / "digits")


def changed(graph, what):
    """The graph with one part of it changed, as people do."""
    last = np.flatnonzero(np.diff(graph.indptr))[-1]
    indices = np.array(graph.indices)
    indices[graph.indptr[last]] = (indices[graph.indptr[last]] + 1) % 60
    changes = {
        "edges": {"indices": indices},
        "weights": {"weights": np.full(graph.num_edges, 2, np.float32)},
        "features": {"features": np.asarray(graph.features)[:, ::-1]},
        "labels": {"labels": (np.asarray(graph.labels) + 1) % 3},
        "class_names": {"class_names": ("c", "b", "a")},
    }
    return dataclasses.replace(graph, **changes[what])


@pytest.mark.parametrize("of", ["bundle", "store"])
@pytest.mark.parametrize("what", ["edges", "weights", "features", "labels", "class_names"])
def test_a_graph_that_was_changed_after_loading_is_not_taken_for_its_source(
    tmp_path, bundle, what, of
):
    load_graph(bundle).save(tmp_path / "store")
    graph = changed(load_graph(bundle if of == "bundle" else tmp_path / "store"), what)
    classifier = fitted(graph)
    run = classifier.save(tmp_path / "run")
    with pytest.raises(RunError, match="not the graph that the run was trained on"):
        NodeClassifier.load(run).predict()
    again = NodeClassifier.load(run, graph=graph)
    np.testing.assert_array_equal(again.predict(), classifier.predict())


def test_a_graph_that_was_written_to_after_loading_is_not_taken_for_its_source(tmp_path, bundle):
    graph = load_graph(bundle)
    graph.features[0, 0] += 1
    run = fitted(graph).save(tmp_path / "run")
    with pytest.raises(RunError, match="not the graph that the run was trained on"):
        NodeClassifier.load(run).predict()


def test_a_split_that_was_changed_after_loading_comes_back_with_the_graph(tmp_path, bundle):
    graph = load_graph(bundle)
    split = graph.with_split(graph.test, graph.train)
    run = fitted(split).save(tmp_path / "run")
    found = load_run_graph(run)
    assert found.train.tolist() == graph.test.tolist()
    assert found.fingerprint() == split.fingerprint()


def test_options_that_the_source_does_not_know_leave_no_source(tmp_path, bundle):
    graph = load_graph(bundle, options=IngestOptions(symmetrize=False))
    run = fitted(graph).save(tmp_path / "run")
    with pytest.raises(RunError, match="options of its own"):
        NodeClassifier.load(run).predict()


def test_a_choice_of_relations_has_no_source(random_graph):
    relations = {("n", "one", "n"): [[0, 1], [1, 2]], ("n", "two", "n"): [[0], [2]]}
    graph = type(random_graph()).from_relations(relations, num_nodes={"n": 3}, target="n")
    loaded = dataclasses.replace(graph, source="somewhere")
    assert loaded.only("one").source is None
