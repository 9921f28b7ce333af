"""The Python door: fit, predict, score, save, load, and what it refuses."""

import json
import os
import subprocess
import sys
import warnings

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

import scr
from scr.errors import ConfigError, GraphError, InactiveTermWarning, RunError, StoreError
from scr.sources._digits import digits

QUICK = {"epochs": 8, "evaluate_every": 2}


@pytest.fixture(scope="module")
def graph():
    return digits(seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return scr.NodeClassifier("ssgc", "scr", seed=1, **QUICK).fit(graph)


def test_probabilities_are_distributions_and_predictions_their_largest(graph, fitted):
    probabilities = fitted.predict_proba()
    assert probabilities.shape == (graph.num_nodes, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(fitted.predict(), probabilities.argmax(axis=1))
    np.testing.assert_allclose(fitted.predict_proba([5, 2]), probabilities[[5, 2]], rtol=1e-5)


def test_the_score_is_scikit_learns_accuracy(graph, fitted):
    from sklearn.metrics import accuracy_score

    expected = accuracy_score(graph.labels[graph.test], fitted.predict(graph.test))
    assert fitted.score("test") == pytest.approx(expected)


def test_a_seed_decides_everything_bit_for_bit(graph, fitted):
    again = scr.NodeClassifier("ssgc", "scr", seed=1, **QUICK).fit(graph)
    other = scr.NodeClassifier("ssgc", "scr", seed=2, **QUICK).fit(graph)
    assert np.array_equal(fitted.predict_proba(), again.predict_proba())
    assert not np.array_equal(fitted.predict_proba(), other.predict_proba())


def test_fitting_leaves_the_callers_random_state_alone(graph):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    scr.NodeClassifier("ssgc", "none", epochs=1).fit(graph)
    assert torch.equal(torch.rand(3), expected)


def test_training_learns_more_than_chance(graph):
    classifier = scr.NodeClassifier("ssgc", "none", epochs=40).fit(graph)
    assert classifier.score("test") > 0.6


@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
def test_a_saved_classifier_predicts_the_same_after_loading(graph, tmp_path, regularizer):
    encoder = {"name": "gamlp", "hidden": 16}
    classifier = scr.NodeClassifier(encoder, regularizer, seed=1, **QUICK).fit(graph)
    classifier.save(tmp_path / "run", source="digits")
    loaded = scr.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(), classifier.predict_proba())
    assert loaded.score("test") == classifier.score("test")
    assert (
        loaded.recipe_ == classifier.recipe_
        or loaded.recipe_.tables() == classifier.recipe_.tables()
    )


@pytest.mark.parametrize("regularizer", ["none", "scr"])
def test_a_loaded_classifier_tells_what_its_training_did(graph, tmp_path, regularizer):
    # The warm-up of the preset is longer, so the term of `scr` never acts.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = scr.NodeClassifier("ssgc", regularizer, **QUICK).fit(graph)
    path = classifier.save(tmp_path / "run")
    told = classifier.history_, classifier.best_epoch_, classifier.stopped_, classifier.inactive_
    assert len(told[0]) == 4
    assert told[3] == (regularizer == "scr")
    loaded = scr.NodeClassifier.load(path)
    assert (loaded.history_, loaded.best_epoch_, loaded.stopped_, loaded.inactive_) == told
    before, after = classifier.summary(), loaded.summary()
    assert after.pop("peak_memory_bytes") <= before.pop("peak_memory_bytes")  # of another moment
    assert after == before
    (path / "metrics.json").unlink()
    with pytest.raises(RunError, match="expected a finished run"):
        loaded.summary()


def test_a_classifier_without_a_run_has_nothing_to_tell():
    for name in ("history_", "best_epoch_", "stopped_", "inactive_"):
        with pytest.raises(RunError, match="expected a call of `fit` or `load`"):
            getattr(scr.NodeClassifier(), name)
    with pytest.raises(RunError, match="expected a call of `fit` or `load`"):
        scr.NodeClassifier().summary()


def test_a_run_directory_holds_what_is_promised(graph, fitted, tmp_path):
    fitted.save(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "run.json", "metrics.json", "history.jsonl", "model.safetensors",
        "predictions.parquet", "split.npz", "explanation.json", "calibration.npz",
        "breakdown.json", "checksums.json",
    }  # fmt: skip
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for name in (
        "valid_accuracy", "test_accuracy", "best_epoch", "epochs", "train_seconds",
        "propagate_seconds", "peak_memory_bytes",
    ):  # fmt: skip
        assert isinstance(metrics[name], (int, float))
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["preset"]["name"] == "few-labels"
    assert run["seed"] == 1
    assert run["graph"]["fingerprint"] == graph.fingerprint()
    table = pq.read_table(tmp_path / "run" / "predictions.parquet")
    assert table.column_names == ["id", "prediction", "confidence", "split", "label"]
    assert table.num_rows == graph.num_nodes
    assert table["split"].to_pylist().count("train") == len(graph.train)


SMALL_RUN = """
import scr
graph = scr.Graph.from_edges(
    [[0, 1, 2], [1, 2, 3]], features=[[0.0], [1.0], [0.0], [1.0]], labels=[0, 1, 0, 1],
    train=[0, 1], valid=[2], test=[3],
)
print(scr.NodeClassifier("mlp", "none", epochs=1).fit(graph).summary()["peak_memory_bytes"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_the_memory_of_a_run_does_not_count_what_its_parent_holds():
    ballast = np.ones(2**27)  # 1 GiB, touched
    found = subprocess.run([sys.executable, "-c", SMALL_RUN], check=True, capture_output=True)
    assert 2**26 < int(found.stdout) < 0.75 * ballast.nbytes


def test_all_files_of_a_run_are_on_disk_before_its_metrics(fitted, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    run = fitted.save(tmp_path / "run")
    metrics = synced.index((run / "metrics.json").stat().st_ino)
    for file in run.iterdir():
        if file.name != "metrics.json":
            written = synced.index(file.stat().st_ino)
            assert written < metrics, file.name
            assert run.stat().st_ino in synced[written:metrics], file.name


def test_new_nodes_are_predicted_by_a_graph_that_holds_them(graph, fitted):
    half = np.arange(graph.num_nodes) < 900
    smaller = scr.Graph.from_features(np.asarray(graph.features)[half], k=10)
    probabilities = fitted.predict_proba(graph=smaller)
    assert probabilities.shape == (900, 10)
    labels = np.asarray(graph.labels)[half]
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.4


def test_other_features_are_refused_in_one_sentence(fitted):
    narrow = scr.Graph.from_features(np.random.default_rng(0).random((50, 7)), k=3)
    with pytest.raises(GraphError, match="7 columns; expected 64"):
        fitted.predict_proba(graph=narrow)


def test_an_existing_folder_is_not_overwritten(fitted, tmp_path):
    with pytest.raises(RunError, match="exists already"):
        fitted.save(tmp_path)


def test_a_failed_save_leaves_nothing(fitted, tmp_path, monkeypatch):
    def full(*_arguments, **_settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scr.prediction._predictor.write_predictions", full)
    with pytest.raises(StoreError, match="too full"):
        fitted.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"encoder": "gamlq"}, "gamlq(.|\n)*gamlp"),
        ({"regularizer": "scrm"}, "scrm"),
        ({"epoch": 3}, "training.epoch(.|\n)*epochs"),
        ({"epochs": "many"}, "training.epochs"),
        ({"consistency": {"temperature": 2.0}}, "consistency.temperature"),
        ({"preset": "huge"}, "preset"),
        ({"encoder": {"name": "ssgc", "hiden": 3}}, "encoder.hiden(.|\n)*hidden"),
        ({"regularizer": "fixmtch"}, "fixmtch(.|\n)*did you mean `fixmatch`"),
        ({"regularizer": "SCR-M"}, "SCR-M(.|\n)*did you mean `scr-m`"),
        ({"regularizer": "scr_m"}, "scr_m(.|\n)*did you mean `scr-m`"),
        ({"lr": 0.1}, "training.lr(.|\n)*did you mean `learning_rate`"),
        (
            {"encoder": "gamlp", "dropout": 0.1},
            'training.dropout(.|\n)*encoder={"name": "gamlp", "dropout": ...}',
        ),
        ({"views": 3}, 'training.views(.|\n)*consistency={"views": ...}'),
        ({"propagation": {"epochs": 3}}, "propagation.epochs(.|\n)*NodeClassifier[(]epochs=...[)]"),
        (
            {"encoder": {"name": "gcn", "heads": 2}},
            "encoder.heads(.|\n)*`heads` is a setting of `sagn`, `nars-sagn`, `gat`;",
        ),
        (
            {"encoder": {"name": "graph-saint", "clusters": 2}},
            "encoder.clusters(.|\n)*`clusters` is a setting of `cluster-gcn`;",
        ),
        ({"encoder": {"weight_decay": 2.0}}, "encoder.weight_decay(.|\n)*section training"),
    ],
)
def test_wrong_settings_are_named_with_a_way_out(graph, arguments, named):
    with pytest.raises(ConfigError, match=named):
        scr.NodeClassifier(**arguments).fit(graph)


def test_a_graph_without_training_nodes_is_refused(graph):
    import dataclasses

    empty = dataclasses.replace(graph, train=np.zeros(0, np.int64))
    with pytest.raises(GraphError, match=r"no training nodes(.|\n)*`splits=per-class:20,30`"):
        scr.NodeClassifier().fit(empty)


def test_a_node_that_does_not_exist_is_named(fitted):
    with pytest.raises(GraphError, match="no node 99999"):
        fitted.predict_proba([0, 99999])


def test_an_unfitted_classifier_says_what_is_missing():
    with pytest.raises(RunError, match="`fit` or `load`"):
        scr.NodeClassifier().predict()


class Data:
    """What PyG calls a graph, as far as anybody can tell from outside."""

    edge_index = torch.tensor([[0, 1], [1, 2]])
    num_nodes, num_edges, num_features = 3, 2, 1

    def is_directed(self):
        return True


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        (Data(), "from_pyg"),
        (sp.eye_array(3).tocsr(), "from_scipy"),
        (nx.path_graph(3), "from_networkx"),
        ("digits", "load_graph"),
        (3, None),
    ],
    ids=["pyg", "scipy", "networkx", "name", "number"],
)
def test_what_is_no_graph_is_told_how_to_become_one(fitted, found, hint):
    kind = type(found).__name__
    for use in (
        scr.NodeClassifier().fit,
        scr.networks.sampling.NeighborSampler,
        scr.networks.sampling.SaintSampler,
        lambda graph: scr.networks.sampling.partition(graph, 2),
        lambda graph: scr.networks.sampling.ClusterSampler(graph, [0, 1, 0]),
        lambda graph: fitted.predict(graph=graph),
    ):
        with pytest.raises(GraphError, match=f"`{kind}`; expected a `scr.Graph`") as caught:
            use(found)
        assert (hint or "no hint") in (caught.value.hint or "no hint")


def test_graphs_of_pyg_are_told_so_by_themselves():
    data = pytest.importorskip("torch_geometric.data")
    for found in (data.Data(edge_index=Data.edge_index), data.HeteroData()):
        with pytest.raises(GraphError, match=f"torch_geometric `{type(found).__name__}`") as caught:
            scr.NodeClassifier().fit(found)
        assert caught.value.hint == "make one with `scr.Graph.from_pyg(data)`"


@pytest.mark.parametrize("value", [True, False])
def test_directed_is_told_the_setting_that_there_is(value):
    edges, network = [[0, 1], [1, 2]], nx.path_graph(3)
    for make, source in (
        (scr.Graph.from_edges, edges),
        (scr.Graph.from_scipy, sp.eye_array(3).tocsr()),
        (scr.Graph.from_networkx, network),
        (scr.Graph.from_pyg, Data()),
    ):
        with pytest.raises(ConfigError, match=f"`directed` is {value}") as caught:
            make(source, directed=value)
        assert caught.value.hint == f"give `undirected={not value}`"


def test_a_classifier_shows_what_it_is(graph, fitted, tmp_path):
    assert repr(scr.NodeClassifier()) == "NodeClassifier('auto', 'scr', seed=0, not fitted)"
    named = scr.NodeClassifier({"name": "gamlp", "hidden": 8}, recipe={"regularizer": "pi"}, seed=3)
    assert repr(named) == "NodeClassifier('gamlp', 'pi', seed=3, not fitted)"
    assert repr(fitted) == "NodeClassifier('ssgc', 'scr', seed=1, fitted)"
    run = fitted.save(tmp_path / "run")
    assert repr(scr.NodeClassifier.load(run)) == "NodeClassifier('ssgc', 'scr', seed=1, fitted)"


def test_a_classifier_shows_the_name_of_a_module_of_ones_own():
    class Mine(torch.nn.Module):
        def forward(self, hops):
            return hops

    own = scr.NodeClassifier(Mine(), "none")
    assert repr(own) == "NodeClassifier('Mine', 'none', seed=0, not fitted)"


def test_a_regularizer_that_had_no_part_is_warned_of():
    quick = {"epochs": 4, "evaluate_every": 2}
    unsure = scr.NodeClassifier("ssgc", "scr", consistency={"warmup": 4}, **quick)
    with pytest.warns(InactiveTermWarning, match="`scr` had no part in this result.*never acted"):
        unsure.fit(digits(seed=0))
    assert unsure.inactive_
    assert unsure.summary()["consistency"]["acted"] is False
    plain = scr.NodeClassifier("ssgc", "none", **quick).fit(digits(seed=0))
    assert not plain.inactive_
    assert "consistency" not in plain.summary()
