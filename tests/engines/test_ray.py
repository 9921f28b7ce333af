"""Workers of a Ray cluster: results as of this machine, and what happens when parts are lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pyarrow.parquet
import pytest
from tests.conftest import RAY_MACHINE, make_random_graph
from tests.engines import workers
from tests.engines.test_local import is_running

pytest.importorskip("ray", reason="Ray is not installed")

from scr.cli import main
from scr.engines import LocalEngine, Needs, open_engine
from scr.engines._ray import _connect
from scr.errors import EngineError, GraphError
from scr.tuning import Effort, tune

pytestmark = [
    # Ray leaves sockets and processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ONE = Needs()
QUICK = ["--encoders", "sgc,sign", "--regularizers", "none", "--seeds", "2",
         "--set", "training.epochs=3"]  # fmt: skip


class Other:
    """What others run on the same cluster."""

    def pid(self):
        return os.getpid()


@pytest.fixture
def engine(connected_cluster):
    """Leaves no workers behind, which would hold the cores of the cluster."""
    with open_engine("ray") as engine:
        yield engine


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_random_graph().save(tmp_path_factory.mktemp("graph") / "graph.store")


def command(*words):
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    assert not caught.value.code


def test_results_are_those_of_this_machine(engine):
    with LocalEngine(2) as local:
        expected = sorted(local.run(workers.scaled, 3, range(6), needs=ONE))
    assert engine.slots(ONE) == 2
    assert sorted(engine.run(workers.scaled, 3, range(6), needs=ONE)) == expected


def test_a_worker_computes_with_the_threads_that_it_was_given(engine):
    assert dict(engine.run(workers.threads, None, [0], needs=ONE)) == {0: (1, 1)}


def test_the_item_of_a_killed_worker_is_run_again(engine, tmp_path):
    results = dict(engine.run(workers.killed_once, str(tmp_path), range(4), needs=ONE))
    assert results == {0: 0, 1: 1, 2: 4, 3: 9}
    assert (tmp_path / "killed").exists()


def test_workers_take_over_from_those_whose_place_others_have(engine, monkeypatch):
    import ray

    monkeypatch.setattr("scr.engines._ray.START_SECONDS", 0.5)
    other = ray.remote(num_cpus=1)(Other).remote()
    ray.get(other.pid.remote())
    try:
        found = dict(engine.run(workers.threads, None, range(4), needs=ONE))
    finally:
        ray.kill(other)
    assert found == dict.fromkeys(range(4), (1, 1))


def test_an_item_that_ends_all_of_its_workers_is_an_error_with_what_they_printed(
    engine, monkeypatch
):
    monkeypatch.setattr("scr.engines._dispatch.MOST_TRIES", 2)
    with pytest.raises(EngineError, match="lost 2 times") as caught:
        list(engine.run(workers.always_killed, None, [0], needs=ONE))
    assert "before the end" in str(caught.value)


def test_errors_of_users_arrive_as_they_are(engine):
    with pytest.raises(GraphError, match="item 0 is refused") as caught:
        list(engine.run(workers.refused, None, [0], needs=ONE))
    assert caught.value.hint == "another item"


def test_other_errors_bring_their_traceback_and_what_the_worker_printed(engine):
    with pytest.raises(EngineError, match="ZeroDivisionError: by nothing") as caught:
        list(engine.run(workers.broken, None, [5], needs=ONE))
    assert "the worker looks at 5" in str(caught.value)
    assert "workers.py" in str(caught.value)


@pytest.mark.parametrize(
    ("needs", "asked"),
    [(Needs(cores=500), "500 cores"), (Needs(memory_bytes=2**50), "1 cores and 1048576.00GiB")],
)
def test_a_worker_that_no_machine_can_hold_is_refused_at_once(engine, needs, asked):
    with pytest.raises(EngineError, match=f"A worker needs ({asked})"):
        list(engine.run(workers.scaled, 1, [0], needs=needs))


def test_what_is_larger_than_the_object_store_is_shared_all_the_same(engine):
    array = np.ones(11_000_000)  # 88 MB, where the stores have 80 MiB
    expected = {item: 11_000_000.0 + item for item in range(2)}
    assert dict(engine.run(workers.total, array, range(2), needs=ONE)) == expected


def test_the_item_of_a_machine_that_is_removed_is_run_on_another(
    engine, connected_cluster, tmp_path
):
    node = connected_cluster.add_node(**RAY_MACHINE)
    connected_cluster.wait_for_nodes()

    until = time.monotonic() + 60  # that workers may take to begin

    def remove():
        while len(list(tmp_path.glob("*-*"))) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        connected_cluster.remove_node(node, allow_graceful=False)
        # Its worker lives a little longer, and must not end its item meanwhile.
        processes = [int(each.name.partition("-")[2]) for each in tmp_path.glob("*-*")]
        while all(is_running(Path(f"/proc/{process}")) for process in processes):
            time.sleep(0.02)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        results = dict(engine.run(workers.waiting, str(tmp_path), range(3), needs=ONE))
    finally:
        thread.join()
    assert results == {0: 0, 1: 1, 2: 4}
    # Each began once, and that of the machine which is gone began again.
    assert len(list(tmp_path.glob("*-*"))) == 4


def test_an_address_where_nothing_is_gives_one_sentence():
    with pytest.raises(EngineError, match=r"No Ray cluster answers at `127\.0\.0\.1:1`.*refused"):
        _connect("127.0.0.1:1")


@pytest.mark.parametrize("has_token", [True, False])
def test_the_token_of_a_user_is_tried_where_there_is_one(has_token, tmp_path):
    (tmp_path / ".ray").mkdir()
    if has_token:
        (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    lines = "from scr.engines._ray import _use_token as use; print(use(), use())"
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("RAY_AUTH_MODE", None)
    said = subprocess.run(
        [sys.executable, "-c", lines], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert said.strip() == f"{has_token} False"  # and only once


def without_times(out):
    """What a comparison found, without what depends on the machine."""
    result = json.loads((out / "compare.json").read_text())
    timed = ("train_seconds", "propagate_seconds")
    return [{k: v for k, v in run.items() if k not in timed} for run in result["runs"]], [
        {k: v for k, v in row.items() if "seconds" not in k} for row in result["rows"]
    ]


def test_a_comparison_that_was_killed_resumes_and_equals_the_local_one(
    connected_cluster, store, tmp_path
):
    out = tmp_path / "out"
    words = ["compare", store, "--out", out, *QUICK, "--engine", "ray", "--address",
             connected_cluster.address]  # fmt: skip
    driver = subprocess.Popen(
        [sys.executable, "-m", "scr.cli", *map(str, words)], stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    lines = out / "runs.jsonl"
    while not lines.exists() or not lines.read_text().endswith("\n"):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.02)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    kept = lines.read_text()
    command(*words)
    assert lines.read_text().startswith(kept)
    keys = [json.loads(line)["key"] for line in lines.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 4
    command("compare", store, "--out", tmp_path / "local", *QUICK, "--jobs", 1)
    assert without_times(out) == without_times(tmp_path / "local")


def test_predictions_in_shards_are_those_of_one_file(
    connected_cluster, store, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    command("train", store, "--encoder", "sign", "--set", "training.epochs=3", "--out", run)
    # Batches as of the shards.
    monkeypatch.setattr("scr.prediction._table.ROWS_PER_PART", 25)
    monkeypatch.setattr("scr.prediction._shards.ROWS_PER_SHARD", 25)
    command("predict", run, "--out", tmp_path / "one.parquet")
    expected = pyarrow.parquet.read_table(tmp_path / "one.parquet")
    assert expected.num_rows == 60
    cluster = ["--engine", "ray", "--address", connected_cluster.address]
    for folder, options in (("here", []), ("there", cluster)):
        command("predict", run, "--out", tmp_path / folder, *options)
        assert sorted(each.name for each in (tmp_path / folder).iterdir()) == [
            f"part-{number:05d}.parquet" for number in range(3)
        ]
        assert pyarrow.dataset.dataset(tmp_path / folder).to_table().equals(expected)


def test_a_search_has_the_trials_of_the_local_one(engine, store, tmp_path):
    from scr.sources import load_graph

    graph = load_graph(str(store))
    members = {
        name: {"encoder": {"name": name}, "training": {"epochs": 3}} for name in ("sgc", "mlp")
    }
    found = []
    for name, where, jobs in (("there", engine, 2), ("here", "local", 1)):
        effort = Effort(time_limit=None, jobs=jobs, portfolio=members, engine=where)
        tune(graph, tmp_path / name, effort)
        content = json.loads((tmp_path / name / "ensemble.json").read_text())
        found.append([(each["name"], each["folds"], each["score"]) for each in content["trials"]])
    assert found[0] == found[1]
