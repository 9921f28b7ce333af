"""Memory that runs out ends a command in one sentence, as an error of the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from tests.conftest import make_random_graph

from scr.compute import check_limits, is_out_of_memory, out_of_memory
from scr.errors import MemoryBudgetError
from scr.graph import write_store

MIB = 2**20


def _numpy() -> None:
    np.empty(2**58, np.uint8)


def _torch() -> None:
    torch.empty(2**58, dtype=torch.uint8)


def _arrow() -> None:
    pa.allocate_buffer(2**58)


@pytest.mark.parametrize("allocate", [_numpy, _torch, _arrow])
def test_every_library_is_understood(allocate):
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        allocate()
    assert is_out_of_memory(caught.value)
    error = out_of_memory(caught.value)
    assert error.message.startswith("Memory ran out: ")
    assert "\n" not in error.message
    assert "alloc_cpu" not in error.message
    assert "--memory" in error.hint
    assert "batch_size" in error.hint


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("mat1 and mat2"), ValueError()]
)
def test_other_errors_are_not(error):
    assert not is_out_of_memory(error)
    assert is_out_of_memory(OSError(12, "Cannot allocate memory"))


def test_a_limit_that_libraries_do_not_load_in_is_refused_first(tmp_path):
    limits = tmp_path / "proc/self/limits"
    limits.parent.mkdir(parents=True)
    (limits.parent / "status").write_text("VmSize: 1000 kB\n")
    limits.write_text(f"Max address space   {2048 * MIB}   unlimited   bytes\n")
    check_limits(tmp_path)
    limits.write_text(f"Max address space   {700 * MIB}   unlimited   bytes\n")
    with pytest.raises(MemoryBudgetError, match=r"`ulimit -v` allows 700.00MiB of address space"):
        check_limits(tmp_path)


def test_a_group_that_libraries_do_not_load_in_is_refused_first(tmp_path):
    group = tmp_path / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (group / "memory.current").write_text(str(20 * MIB))
    (group / "memory.max").write_text(str(512 * MIB))
    check_limits(tmp_path)
    (group / "memory.max").write_text(str(200 * MIB))
    with pytest.raises(MemoryBudgetError, match=r"`/sys/fs/cgroup/job` allows 200.00MiB") as caught:
        check_limits(tmp_path)
    assert "640.00MiB" in caught.value.hint


RUN = """
import mmap, resource, sys
import torch, pyarrow.parquet, pyarrow.csv, numba, sklearn.linear_model, scr, scr.cli
from scr import graph, propagation, training, prediction
from scr.compute._limits import ROOT, number_after
ballast = mmap.mmap(-1, 2**30)  # untouched: a limit that is above the smallest that is accepted
held = 1024 * number_after(ROOT / "proc/self/status", "VmSize")
limit = held + int(sys.argv.pop(1)) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
scr.cli.main()
"""


def _limited(
    *arguments: object, begins: str | tuple[str, ...] = "Memory ran out", room: int = 48
) -> dict[str, str]:
    """The JSON of a command that has so many MiB beside its libraries, and lacks memory."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(room), *map(str, arguments), "--json"],
        capture_output=True, text=True, timeout=200, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["error"].startswith(begins), said
    assert said["hint"]
    return said


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "store"
    write_store(make_random_graph(nodes=100_000, edges=300_000, num_features=64), path)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder, nodes = tmp_path_factory.mktemp("tables"), 400_000
    ids = [f"node {number}" for number in range(nodes)]
    table = {"id": ids, "label": ["a", "b"] * (nodes // 2), "x": np.arange(nodes) / 7}
    pa.csv.write_csv(pa.table(table), folder / "nodes.csv")
    pa.csv.write_csv(pa.table({"source": ids[1:], "target": ids[:-1]}), folder / "edges.csv")
    return folder


linux = pytest.mark.skipif(sys.platform != "linux", reason="`ulimit -v` as Linux has it")


@linux
@pytest.mark.stress
def test_propagation_leaves_nothing(store, tmp_path):
    _limited("propagate", store, "--hops", 5, "--memory", "8GiB", "--out", tmp_path / "hops")
    assert not (tmp_path / "hops").exists()


@linux
@pytest.mark.parametrize("encoder", ["sign", pytest.param("gcn", marks=pytest.mark.stress)])
def test_training_leaves_no_result(store, tmp_path, encoder):
    settings = ["--set", "training.epochs=2", "--set", "data.scale=none"]
    _limited("train", store, "--encoder", encoder, *settings, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.json").exists()


@linux
@pytest.mark.parametrize("command", ["ingest", pytest.param("fit", marks=pytest.mark.stress)])
def test_tables_leave_nothing(tables, tmp_path, command):
    target = tmp_path / "made"
    words = (tables, target) if command == "ingest" else (tables, "--out", target)
    _limited(command, *words, begins=("Reading `", "Memory ran out while `", "The tables have"))
    assert not target.exists() or not (target / "metrics.json").exists()
    assert not (target / "manifest.json").exists()


@linux
@pytest.mark.stress
def test_prediction_leaves_no_table(store, tmp_path):
    write_store(make_random_graph(nodes=300, edges=900, num_features=64), tmp_path / "small")
    training = ["--encoder", "sign", "--set", "training.epochs=1", "--out", tmp_path / "run"]
    command = [sys.executable, "-m", "scr.cli", "train", tmp_path / "small", *training]
    subprocess.run([*map(str, command)], capture_output=True, check=True, timeout=100)
    _limited("predict", tmp_path / "run", "--graph", store, "--out", tmp_path / "table.csv")
    assert not (tmp_path / "table.csv").exists()
