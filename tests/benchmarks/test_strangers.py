"""Which runs a stranger's graph gets, in which order, and what is kept of them."""

import json
import time
from concurrent.futures import Future

import numpy as np
import pytest

import scr


@pytest.fixture
def strangers(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("strangers")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(benchmark_module("stranger_tables"), "RESULTS", tmp_path)
    return module


def test_the_first_splits_of_all_label_counts_come_first_and_slow_peers_after_fast_ones(strangers):
    runs = strangers.queue(["gcnii", "sgc"], ["flickr", "cora"], ["5", "20"], 4)
    assert runs[:8] == [
        ("cora", "20", 0, "sgc"), ("cora", "20", 1, "sgc"), ("cora", "20", 2, "sgc"),
        ("flickr", "20", 0, "sgc"), ("flickr", "20", 1, "sgc"), ("flickr", "20", 2, "sgc"),
        ("cora", "20", 0, "gcnii"), ("cora", "20", 1, "gcnii"),
    ]  # fmt: skip
    assert runs[12] == ("cora", "5", 0, "sgc")
    assert runs[24:26] == [("cora", "20", 3, "sgc"), ("flickr", "20", 3, "sgc")]
    assert len(runs) == len(set(runs)) == 2 * 2 * 2 * 4


def test_grand_is_last_and_on_small_graphs_alone(strangers):
    runs = strangers.queue(["grand", "sgc"], ["pubmed", "acm"], ["20", "50"], 5)
    assert [run for run in runs if run[3] == "grand"] == runs[-2:]
    assert runs[-2:] == [("acm", "20", 0, "grand"), ("acm", "20", 1, "grand")]
    assert not any(run[3] == "grand" for run in strangers.queue(["grand"], ["acm"], ["5"], 5))


def test_what_has_a_row_is_not_run_again_unless_it_is_older_than_the_code(strangers, tmp_path):
    versions = {"sgc": strangers.code_version("stranger_peers"), "gcn": "before"}
    rows = [
        {"labels": "20", "split": 0, "method": name, "code": code}
        for name, code in versions.items()
    ]
    (tmp_path / "stranger_peers").mkdir()
    (tmp_path / "stranger_peers" / "cora.json").write_text(json.dumps({"rows": rows}))
    runs = [("cora", "20", 0, method) for method in ("sgc", "gcn", "scr")]
    assert strangers.missing(runs, older=False) == runs[2:]
    assert strangers.missing(runs, older=True) == runs[1:]


def test_balanced_accuracy_is_the_mean_recall(strangers):
    graph = scr.Graph.from_edges(
        np.array([[0, 1], [1, 2]]), features=np.eye(6, dtype=np.float32),
        labels=np.array([0, 1, 0, 0, 0, 1]), train=[0, 1], valid=[2], test=[3, 4, 5],
    )  # fmt: skip
    predictions = np.array([0, 0, 1, 0, 1, 1])
    assert strangers.scores(graph, predictions) == {
        "valid_accuracy": 0.0, "test_accuracy": 0.66667, "balanced_accuracy": 0.75,
    }  # fmt: skip


def test_a_run_that_takes_too_much_processor_time_is_recorded_as_such(strangers, monkeypatch):
    def forever(*_):
        end = time.process_time() + 30
        while time.process_time() < end:
            pass
        pytest.fail("ran over its limit")

    graph = scr.load_graph("digits")
    monkeypatch.setattr(strangers, "whole_graph", lambda name: graph)
    monkeypatch.setattr(strangers, "run_peer", forever)
    monkeypatch.setattr(strangers, "LIMIT", 0.05)
    row, about = strangers.run("digits", "5", 0, "gcn")
    assert row["over_limit"] == 0.05
    assert "test_accuracy" not in row
    assert about["nodes"] == graph.num_nodes


def test_facts_of_a_graph_count_edges_once_and_leave_unknown_labels_out(strangers, monkeypatch):
    graph = scr.Graph.from_edges(
        np.array([[0, 1, 2, 0], [1, 2, 3, 3]]), features=np.eye(4, dtype=np.float32),
        labels=np.array([0, 0, 1, -1]), train=[0, 2], valid=[1],
    )  # fmt: skip
    monkeypatch.setattr(strangers, "whole_graph", lambda name: graph)
    facts = strangers.facts("some")
    assert facts == {"nodes": 4, "edges": 4, "classes": 2, "homophily": 0.5}


@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_are_written_one_by_one_into_the_file_of_their_kind(
    strangers, tmp_path, monkeypatch, jobs
):
    about = {"nodes": 4, "homophily": 0.5}

    class Pool:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, function, *each):
            assert each[2] == 0, "ran a split that is known to be over the limit"
            future = Future()
            if each[3] == "gcn":
                future.set_exception(MemoryError())
            elif each[3] == "gcnii":
                future.set_result(({"over_limit": strangers.LIMIT}, about))
            else:
                row = {"test_accuracy": 0.5, "processor_seconds": 1.0}
                future.set_result((row, about))
            return future

    monkeypatch.setattr(strangers, "ProcessPoolExecutor", Pool)
    runs = [("cora", "20", 0, method) for method in ("scr", "sgc", "gcn", "gcnii")]
    assert strangers.fill([*runs, ("cora", "20", 1, "gcnii")], jobs) == 1
    for kind, methods in (("strangers", ["scr"]), ("stranger_peers", ["sgc", "gcnii", "gcnii"])):
        content = json.loads((tmp_path / kind / "cora.json").read_text())
        assert sorted(row["method"] for row in content["rows"]) == sorted(methods)
        assert {row["code"] for row in content["rows"]} == {strangers.code_version(kind)}
        assert content["settings"]["graph"] == about
    assert content["rows"][-1] | {"split": 1, "as_split": 0} == content["rows"][-1]


def test_methods_whose_arguments_the_classifier_takes_are_run(strangers, monkeypatch):
    monkeypatch.setitem(strangers.ARGUMENTS, "best", {"no_such_argument": 1})
    assert strangers.methods_of(["ours", "sgc", "scr"]) == ["scr", "base", "sgc"]
    with pytest.raises(SystemExit, match="does not take"):
        strangers.methods_of(["best"])
