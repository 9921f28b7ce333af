"""The harness of the benchmarks: its figures are those of allocations that we know."""

import signal
import sys

import pytest

MIB = 2**20


@pytest.fixture
def harness(benchmark_module):
    return benchmark_module("harness")


def python(code, *arguments):
    return [sys.executable, "-S", "-c", code, *map(str, arguments)]


def test_memory_is_that_of_the_command_and_not_of_its_starter(harness):
    ballast = bytearray(b"x") * (300 * MIB)
    small = harness.measure(python("pass"))
    large = harness.measure(python("x = bytearray(b'x') * (200 * 2**20)"))
    assert len(ballast) > small.memory_bytes
    difference = large.memory_bytes - small.memory_bytes
    assert difference == pytest.approx(200 * MIB, rel=0.05)


def test_disk_is_what_is_allocated_at_the_end_and_at_the_peak(harness, tmp_path):
    code = """
import os, sys, time
folder = sys.argv[1]
for name, size in (("kept", 3), ("removed", 5)):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(b"x" * size * 2**20)
        os.fsync(file.fileno())
with open(f"{folder}/hole", "wb") as file:
    file.truncate(2**40)
os.link(f"{folder}/kept", f"{folder}/again")
time.sleep(1.5)
os.remove(f"{folder}/removed")
"""
    found = harness.measure(python(code, tmp_path), folders=[tmp_path])
    assert found.seconds > 1.5
    assert found.disk_bytes == pytest.approx(3 * MIB, rel=0.05)
    assert found.disk_peak_bytes == pytest.approx(8 * MIB, rel=0.05)


def test_a_command_that_fails_stops_the_benchmark_with_its_output(harness):
    with pytest.raises(SystemExit, match=r"(?s)ended with 3:.*no such luck"):
        harness.measure(python("import sys; print('no such luck'); sys.exit(3)"))


def test_a_command_is_killed_after_the_time_asked_for(harness):
    found = harness.measure(python("import time; time.sleep(60)"), kill_after=0.3, check=False)
    assert found.code == -signal.SIGKILL
    assert 0.3 <= found.seconds < 30


def test_rows_are_kept_over_runs_of_the_same_settings_alone(harness, tmp_path):
    file = tmp_path / "found.json"
    first = harness.Results(file, {"columns": 32})
    first.add({"nodes": 10, "step": "a"}, {"seconds": 1})
    first.add({"nodes": 10, "step": "b"}, {"seconds": 2})
    first.add({"nodes": 10, "step": "a"}, {"seconds": 3})
    again = harness.Results(file, {"columns": 32})
    assert again.find(step="a") == {"nodes": 10, "step": "a", "seconds": 3, "code": again.code}
    assert len(again.rows) == 2
    assert harness.Results(file, {"columns": 64}).rows == []


def test_a_file_of_any_name_has_the_version_of_the_kind_that_is_named(harness, tmp_path):
    named = harness.Results(tmp_path / "cora.json", {}, kind="propagation")
    assert named.code == harness.code_version("propagation")
    assert harness.Results(tmp_path / "scale.json", {}).code == harness.code_version("scale")
    assert harness.code_version("cora") != named.code
