from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.propagation.typed_graphs import random_typed
from typer.testing import CliRunner

from scr.cli import app
from scr.cli._hints import propagate_command
from scr.features import FeatureConfig, fit_features
from scr.propagation import Hops, PropagationConfig, choose_subsets, load_cached_hops, propagate
from scr.propagation.disk._pieces import Pieces
from scr.sources import load_graph
from scr.training import HopsRequest
from scr.typed_features import complete_features

runner = CliRunner()


@pytest.fixture
def store(tmp_path, random_graph):
    graph = random_graph()
    replace(graph, test=graph.test[::2]).save(tmp_path / "store")
    return tmp_path / "store"


def run(*arguments: object):
    return runner.invoke(app, ["propagate", *map(str, arguments)])


def test_hops_are_written_beside_the_store_where_training_finds_them(store):
    result = run(store, "--hops", 2, "--scale", "none", "--dtype", "float16")
    assert result.exit_code == 0, result.output
    assert "3 hops of 60 nodes" in result.output
    graph = load_graph(str(store))
    found = load_cached_hops(graph, PropagationConfig(hops=2, dtype="float16"))
    assert found is not None
    assert np.array_equal(np.asarray(found), np.asarray(propagate(graph, 2, dtype="float16")))
    assert (
        "there already" in run(store, "--hops", 2, "--scale", "none", "--dtype", "float16").output
    )


def test_hops_are_written_elsewhere_on_request(store, tmp_path):
    out = tmp_path / "elsewhere"
    settings = ("--hops", 1, "--norm", "row", "--self-loops", "--direction", "separate")
    assert run(store, *settings, "--out", out).exit_code == 0
    assert Hops.open(out).shape == (60, 3, 8)
    again = run(store, *settings, "--out", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert run(store, *settings, "--out", out, "--overwrite").exit_code == 0


def test_a_plan_prints_sizes_and_writes_nothing(store):
    result = run(store, "--hops", 3, "--plan", "--memory", "8GiB")
    assert result.exit_code == 0
    assert f"{60 * 4 * 8 * 4:,} bytes" in result.output
    assert "3 over the edges" in result.output
    assert not (store / "hops").exists()


def test_only_rows_of_labeled_nodes_or_of_a_file_are_kept(store, tmp_path):
    result = run(store, "--hops", 2, "--rows", "labeled", "--threads", 1)
    assert result.exit_code == 0, result.output
    assert "of memory" in result.output
    graph = load_graph(str(store))
    labeled = np.sort(np.concatenate([graph.train, graph.valid, graph.test]))
    (folder,) = (store / "hops").iterdir()
    assert np.array_equal(Hops.open(folder).nodes_kept, labeled)
    assert "there already" in run(store, "--hops", 2, "--rows", "labeled").output
    np.save(tmp_path / "nodes.npy", [9, 3, 3])
    chosen = run(store, "--hops", 2, "--rows", tmp_path / "nodes.npy", "--out", tmp_path / "out")
    assert chosen.exit_code == 0, chosen.output
    assert Hops.open(tmp_path / "out").nodes_kept.tolist() == [3, 9]


def test_hops_of_some_rows_do_not_stand_for_all(store):
    assert run(store, "--hops", 2, "--rows", "labeled").exit_code == 0
    result = run(store, "--hops", 2)
    assert "there already" not in result.output
    assert "of 60 nodes" in result.output


def test_a_command_that_was_stopped_goes_on_when_it_is_given_again(store, tmp_path, monkeypatch):
    out, record = tmp_path / "out", Pieces.record

    def stop(self, name, *piece):
        if name == "part-0-2":
            raise KeyboardInterrupt
        record(self, name, *piece)

    with monkeypatch.context() as patch:
        patch.setattr(Pieces, "record", stop)
        assert run(store, "--hops", 2, "--scale", "none", "--out", out).exit_code != 0
    assert (tmp_path / ".out.work" / "part-0-1").exists()
    assert run(store, "--hops", 2, "--scale", "none", "--out", out).exit_code == 0
    assert not (tmp_path / ".out.work").exists()
    expected = propagate(load_graph(str(store)), 2)
    assert np.array_equal(np.asarray(Hops.open(out)), np.asarray(expected))


@pytest.mark.parametrize("scale", ["standard", "row"])
def test_features_are_scaled_part_by_part_as_they_would_be_at_once(store, tmp_path, scale):
    assert run(store, "--hops", 2, "--scale", scale, "--out", tmp_path / "out").exit_code == 0
    graph = load_graph(str(store))
    features = np.array(graph.features)
    scaled = fit_features(features, FeatureConfig(scale=scale)).transform(features)
    expected = propagate(graph, 2, features=scaled)
    assert np.array_equal(np.asarray(Hops.open(tmp_path / "out")), np.asarray(expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "some"], "`all`, `labeled` or node numbers"),
        (["--rows", "missing.npy"], "does not exist"),
        (["--disk", "10"], "on disk"),
        (["--memory", "10"], "smallest that works"),
        (["--memory", "much"], "a size such as"),
        (["--norm", "column"], "column"),
    ],
)
def test_bad_requests_exit_with_two_and_write_nothing(store, arguments, message):
    result = run(store, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(store.glob("hops/*"))


def test_a_graph_without_a_store_needs_a_place():
    result = run("digits")
    assert result.exit_code == 2
    assert "--out" in result.stderr


@pytest.fixture
def typed_store(tmp_path):
    random_typed(0).save(tmp_path / "typed")
    return tmp_path / "typed"


def test_hops_over_subsets_are_left_where_training_finds_them(typed_store):
    result = run(typed_store, "--hops", 2, "--subsets", 3, "--subset-seed", 1)
    assert result.exit_code == 0, result.output
    graph = load_graph(str(typed_store))
    made = complete_features(graph)
    assert f"7 hops of 12 nodes x {made.matrix.shape[1]} columns" in result.output
    assert made.steps[0] in " ".join(result.output.split())
    config = PropagationConfig(hops=2, norm="row", subsets=3, subset_seed=1)
    subsets = choose_subsets(graph, config)
    assert f"Subset 1: {' '.join(map(str, subsets[0]))}" in result.output
    found = load_cached_hops(graph, config, made.fitted.identity, subsets=subsets)
    expected = propagate(graph, 2, features=made.matrix, subsets=subsets)
    assert np.array_equal(np.asarray(found), np.asarray(expected))
    again = run(typed_store, "--hops", 2, "--subsets", 3, "--subset-seed", 1)
    assert "there already" in again.output
    assert "there already" not in run(typed_store, "--hops", 2, "--norm", "row").output


def test_the_command_that_training_names_leaves_what_it_looks_for(typed_store):
    graph = load_graph(str(typed_store))
    config = PropagationConfig(hops=1, norm="row", subsets="single", subset_seed=3, dtype="float16")
    data = FeatureConfig(missing="random", embedding_seed=5, scale="none")
    request = HopsRequest(
        store=str(typed_store), features_file=None, rows="all",
        propagation=config, data=data, walks_subsets=True,
    )  # fmt: skip
    command = propagate_command(request).split()
    assert run(*command[2:]).exit_code == 0
    identity = complete_features(graph, data).fitted.identity
    subsets = choose_subsets(graph, config)
    assert load_cached_hops(graph, config, identity, subsets=subsets) is not None


@pytest.mark.parametrize(
    ("setting", "message"),
    [("data.missing=nothing", "`average`"), ("propagation.hops=3", "a setting of `data`")],
)
def test_settings_that_propagation_does_not_know_are_refused(typed_store, setting, message):
    result = run(typed_store, "--subsets", 2, "--set", setting)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (typed_store / "hops").exists()


def test_features_of_several_types_keep_to_the_memory_that_is_given(typed_store):
    result = run(typed_store, "--subsets", 2, "--memory", "1MiB")
    assert result.exit_code == 2
    assert "Averaging features" in result.stderr
    assert list(typed_store.glob("features/*")) == []


@pytest.mark.parametrize(("subsets", "count"), [("single", 5), ("all", 1), ("FILE", 2)])
def test_subsets_come_from_words_or_from_a_file(typed_store, tmp_path, subsets, count):
    (tmp_path / "FILE").write_text("cites\nwrites has_topic\n")
    asked = tmp_path / "FILE" if subsets == "FILE" else subsets
    out = ("--out", tmp_path / "out", "--rows", "labeled")
    assert run(typed_store, "--hops", 1, "--subsets", asked, *out).exit_code == 0
    assert Hops.open(tmp_path / "out").shape[:2] == (8, 1 + count)


def test_a_plan_of_subsets_prints_sizes_and_writes_nothing(typed_store):
    result = run(typed_store, "--hops", 2, "--subsets", "single", "--plan")
    assert result.exit_code == 0, result.output
    columns = load_graph(str(typed_store)).num_features
    assert f"{12 * 11 * columns * 4:,} bytes" in result.output
    assert "10 over the edges" in result.output
    assert "a subset of a block begins again" in result.output
    assert not (typed_store / "hops").exists()
    assert not (typed_store / "features").exists()


@pytest.mark.parametrize(
    ("subsets", "message"),
    [("0", "1 or more"), ("some", "does not exist"), ("LINES", "never reaches")],
)
def test_bad_subsets_exit_with_two_and_write_nothing(typed_store, tmp_path, subsets, message):
    (tmp_path / "LINES").write_text("affiliated\n")
    asked = tmp_path / "LINES" if subsets == "LINES" else subsets
    result = run(typed_store, "--subsets", asked)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (typed_store / "hops").exists()


def test_sparse_features_that_do_not_fit_are_refused_before_they_are_made_dense(
    tmp_path, random_graph, monkeypatch
):
    features = sp.csr_array(np.eye(60, 5000, dtype=np.float32))
    random_graph(features=features).save(tmp_path / "store")
    monkeypatch.setattr("scr.features._prepare.FittedFeatures.transform", None)
    monkeypatch.setattr("scr.compute.resident_bytes", lambda: 0)
    words = [tmp_path / "store", "--reduce", "none", "--out", tmp_path / "hops", "--memory"]
    # Dense numbers of 4 bytes, 60 sparse ones of 4 and 4 bytes, and a part that is being scaled.
    needed = 60 * 5000 * 4 + 60 * 8 + 4 * 8 * 60 * 5000
    refused = run(*words, needed - 1)
    assert refused.exit_code == 2
    assert "60 x 5,000 sparse features dense takes 26.31MiB" in refused.output
    assert isinstance(run(*words, needed).exception, TypeError)  # it goes on
    assert not (tmp_path / "hops").exists()
