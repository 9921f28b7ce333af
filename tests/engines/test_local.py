"""Processes of this machine: results, errors, and what happens when one of them ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.engines import workers

from scr.engines import LocalEngine, Needs
from scr.errors import EngineError, GraphError

ONE = Needs()


@pytest.fixture
def engine():
    with LocalEngine(jobs=2) as engine:
        yield engine


def test_every_item_comes_back_with_its_result(engine):
    assert sorted(engine.run(workers.scaled, 3, range(7), needs=ONE)) == [
        (item, 3 * item) for item in range(7)
    ]


def test_one_job_runs_here():
    with LocalEngine() as engine:
        assert list(engine.run(workers.process_ids, None, [1], needs=ONE)) == [(1, os.getpid())]


def test_processes_stay_for_the_next_call_with_the_same_setup(engine):
    first, second = (
        {process for _, process in engine.run(workers.process_ids, None, range(8), needs=ONE)}
        for _ in range(2)
    )
    assert second <= first
    assert os.getpid() not in first


def test_no_item_at_the_moment_is_asked_for_again(engine):
    finished = []

    def items():
        yield 1
        while not finished:
            yield None
        yield 2

    for item, _ in engine.run(workers.scaled, 1, items(), needs=ONE):
        finished.append(item)
    assert finished == [1, 2]


def test_a_process_computes_with_the_threads_that_it_was_given(engine):
    assert dict(engine.run(workers.threads, None, [0], needs=ONE)) == {0: (1, 1)}


def test_the_item_of_a_killed_process_is_run_again(engine, tmp_path):
    results = dict(engine.run(workers.killed_once, str(tmp_path), range(4), needs=ONE))
    assert results == {0: 0, 1: 1, 2: 4, 3: 9}
    assert (tmp_path / "killed").exists()


def test_a_process_that_was_killed_while_it_had_no_item_is_replaced(engine):
    processes = {each for _, each in engine.run(workers.process_ids, None, range(8), needs=ONE)}
    for process in processes:
        os.kill(process, signal.SIGKILL)
    later = {each for _, each in engine.run(workers.process_ids, None, range(2), needs=ONE)}
    assert not later & processes


def test_an_item_that_ends_all_of_its_processes_is_an_error(engine, monkeypatch):
    monkeypatch.setattr("scr.engines._dispatch.MOST_TRIES", 2)
    with pytest.raises(EngineError, match=r"lost 2 times.*signal 9"):
        list(engine.run(workers.always_killed, None, [0], needs=ONE))


@pytest.mark.parametrize("start", [workers.refused, workers.refused_setup])
def test_errors_of_users_arrive_as_they_are(engine, start):
    with pytest.raises(GraphError, match=r"item \d is refused|no worker can be set up") as caught:
        list(engine.run(start, None, range(2), needs=ONE))
    assert type(caught.value) is GraphError


def test_other_errors_keep_their_kind_and_their_traceback(engine):
    with pytest.raises(ZeroDivisionError, match="by nothing") as caught:
        list(engine.run(workers.broken, None, range(2), needs=ONE))
    assert "workers.py" in str(caught.value.__cause__)


def test_items_that_cannot_be_sent_are_an_error(engine):
    with pytest.raises(TypeError, match="pickle"):
        list(engine.run(workers.scaled, 1, [1, (each for each in ())], needs=ONE))


SCRIPT = """
import sys, time
from scr.engines import LocalEngine, Needs
print("imported", flush=True)
def start(folder):
    def work(item):
        import os
        from pathlib import Path
        (Path(folder) / f"process-{os.getpid()}").touch()
        if len(sys.argv) > 2:
            time.sleep(60)
        return item + 1
    return work
with LocalEngine(2) as engine:
    print(sorted(engine.run(start, sys.argv[1], range(2), needs=Needs())), flush=True)
"""


def test_a_script_without_a_guard_is_not_imported_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["imported", "[(0, 1), (1, 2)]"]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_their_parent(tmp_path, ending):
    (tmp_path / "script.py").write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path, "slow"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    while len(started := list(tmp_path.glob("process-*"))) < 2:
        assert parent.poll() is None, parent.communicate()
        time.sleep(0.02)
    parent.send_signal(ending)
    began = time.monotonic()
    _, errors = parent.communicate(timeout=20)
    assert time.monotonic() - began < 10
    # Of the parent alone.
    assert errors.count("KeyboardInterrupt") == (ending == signal.SIGINT)
    processes = [Path("/proc") / each.name.removeprefix("process-") for each in started]
    while any(is_running(each) for each in processes):
        assert time.monotonic() - began < 20
        time.sleep(0.02)


def is_running(process):
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
