"""Two processes with one experiment in one folder: every run is made once, and used by both."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.conftest import make_random_graph

from scr.cli import main
from scr.errors import StoreError
from scr.experiments import RUNS, Runner, _claims, compare, plan

COMMAND = ["--encoders", "ssgc", "--regularizers", "none,scr", "--seeds", "3",
           "--set", "training.epochs=15"]  # fmt: skip


def start(store, out, *options):
    arguments = ["compare", store, "--out", out, *COMMAND, *options]
    return subprocess.Popen(
        [sys.executable, "-m", "scr.cli", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def keys(out):
    return [json.loads(line)["key"] for line in (out / RUNS).read_text().splitlines()]


@pytest.fixture
def store(tmp_path):
    return make_random_graph().save(tmp_path / "graph.store")


def test_two_processes_make_every_run_once(store, tmp_path):
    out = tmp_path / "out"
    other = start(store, out)
    # Once it has begun, this process joins in.
    while not (list(out.glob(".claims/*.lock")) or (out / RUNS).exists()):
        assert other.poll() is None, other.communicate()
        time.sleep(0.01)
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(store), "--out", str(out), *COMMAND])
    assert not ended.value.code
    results = [json.loads((out / "compare.json").read_text())]
    _, error = other.communicate()
    assert other.returncode == 0, error
    results.append(json.loads((out / "compare.json").read_text()))
    assert len(keys(out)) == len(set(keys(out))) == 6
    assert results[0] == results[1]
    assert sorted(path.name for path in out.iterdir()) == ["compare.json", "report.html", RUNS]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.store", "out"]


@pytest.mark.stress
def test_runs_of_a_process_that_was_killed_are_made_by_the_other(store, tmp_path):
    out = tmp_path / "out"
    killed = start(store, out)
    while not list(out.glob(".claims/*.lock")):
        time.sleep(0.01)
    other = start(store, out)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    _, error = other.communicate()
    assert other.returncode == 0, error
    assert len(keys(out)) == len(set(keys(out))) == 6
    assert not (out / ".claims").exists()


def test_a_damaged_record_is_run_again(tmp_path):
    runner = Runner(make_random_graph(), out=tmp_path)
    tasks = plan(["ssgc"], ["none"], range(2), layers=[{"training": {"epochs": 2}}])
    before = compare(runner, tasks)
    first, second = (json.loads(line) for line in (tmp_path / RUNS).read_text().splitlines())
    first["test_accuracy"] = 0.99
    (tmp_path / RUNS).write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    after = compare(runner, tasks)
    assert [run["test_accuracy"] for run in after["runs"]] == [
        run["test_accuracy"] for run in before["runs"]
    ]
    assert len(keys(tmp_path)) == 3


@pytest.mark.parametrize("command", ["compare", "sweep", "efficiency", "train", "tune"])
def test_an_impossible_folder_is_refused_before_the_graph_is_read(command, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([command, "no-such-graph", "--out", str(tmp_path / "file" / "out")])
    assert ended.value.code == 2
    assert "is a file; expected a folder" in " ".join(capsys.readouterr().err.split())


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path, monkeypatch):
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b'{"key": "first"}\n{"key": "torn by a ki')
    real = _claims.write_all

    def fills_up(descriptor, data, offset):
        real(descriptor, data[:7], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(_claims, "write_all", fills_up)
        with pytest.raises(StoreError, match="No space left on device"):
            _claims._append(file, {"key": "second"})
    assert file.read_bytes() == b'{"key": "first"}\n'
    _claims._append(file, {"key": "second"})
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == [
        "first",
        "second",
    ]
