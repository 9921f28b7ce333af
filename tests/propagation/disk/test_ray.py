"""Propagation on a cluster: the bytes of one process, whatever is lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import RAY_MACHINE
from tests.propagation.disk.test_out_of_core import block_of, chunks_of, stored
from tests.propagation.typed_graphs import random_typed

from scr.features import FeatureConfig, fit_features, transform_lazily
from scr.propagation import choose_subsets, propagate
from scr.propagation._config import PropagationConfig
from scr.propagation.disk import DiskRequest, fetched_store
from scr.propagation.disk import _joining_plan as joining_plan
from scr.propagation.disk import _out_of_core as out_of_core
from scr.propagation.disk import _plan as disk_plan
from scr.propagation.disk._sending import received, sendable
from scr.sources import load_graph
from scr.storage import verify

ray = pytest.importorskip("ray", reason="Ray is not installed")

SECONDS = 60
"""That a test waits for a worker; it takes a few."""


def content(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.npy")}


@pytest.fixture
def watched(tmp_path, monkeypatch):
    return watch(tmp_path, monkeypatch)


def watch(tmp_path, monkeypatch):
    """Let workers note their blocks in a file, and wait before the second hop of held blocks."""
    log, held, start = tmp_path / "log", tmp_path / "held", out_of_core.start_worker
    held.mkdir(exist_ok=True)

    def watched_start(setup):
        import os
        import time

        from scr.propagation.disk import _blocks as blocks

        machine = ray.get_runtime_context().get_node_id()
        product, work, hops = blocks.product_by_chunks, start(setup), []

        def slow_product(*arguments, **keywords):
            hops.append("hop")
            while len(hops) == 3 and (held / hops[0]).exists():
                time.sleep(0.02)
            return product(*arguments, **keywords)

        def compute(task):
            if not hasattr(task, "block"):
                return work(task)
            hops[:] = [str(task.block)]
            blocks.product_by_chunks = slow_product
            with log.open("a") as file:
                file.write(f"{task.block} {os.getpid()} {machine}\n")
            return work(task)

        return compute

    monkeypatch.setattr(out_of_core, "start_worker", watched_start)
    return log, held


def entries(log, count=1):
    """Blocks that were begun, each with its process and machine; waits for so many."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        lines = log.read_text().splitlines() if log.exists() else []
        if len(lines) >= count:
            return [(int(line.split()[0]), int(line.split()[1]), line.split()[2]) for line in lines]
        time.sleep(0.02)
    raise AssertionError(f"{count} blocks were not begun")


def test_a_cluster_makes_the_bytes_of_one_process(tmp_path, connected_cluster):
    graph = stored(tmp_path, directed=True)
    fitted = fit_features(graph.features, FeatureConfig(scale="standard"))
    lazy = transform_lazily(fitted, graph.features)
    settings = {"hops": 2, "direction": "separate", "dtype": "float16", "features": lazy}
    done = []
    propagate(graph, out=tmp_path / "local", **settings)
    propagate(
        graph, out=tmp_path / "ray", engine="ray", on_progress=lambda *a: done.append(a),
        copy_to=tmp_path / "copies", **settings,
    )  # fmt: skip
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    verify(tmp_path / "ray")
    (copy,) = (tmp_path / "copies").iterdir()  # both machines are this one
    verify(copy)
    assert not (tmp_path / ".ray.work").exists()
    passes = 4 * graph.num_edges  # hops 2, both ways
    assert [a for a in done if a[0] == "Propagating"] == [
        ("Propagating", 1 * passes, 2 * passes), ("Propagating", 2 * passes, 2 * passes)
    ]  # fmt: skip


def test_workers_read_the_copy_that_is_on_their_machine(tmp_path, connected_cluster):
    graph, folder = stored(tmp_path), tmp_path / "copies"
    propagate(graph, 2, out=tmp_path / "local")
    received(sendable(DiskRequest(graph, PropagationConfig(), graph.features, copy_to=folder), 1))
    # Of what is in its place, workers would make other hops.
    edges = np.zeros_like(graph.indices)
    (graph.path / "indices.npy").unlink()
    np.save(graph.path / "indices.npy", edges)
    propagate(graph, 2, out=tmp_path / "ray", engine="ray", copy_to=folder)
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_workers_copy_a_store_from_its_url(tmp_path, connected_cluster):
    graph = stored(tmp_path)
    url, there = f"file://{graph.path}", tmp_path / "there"
    propagate(graph, 2, out=tmp_path / "local")
    here = replace(load_graph(fetched_store(url, tmp_path / "here")), source=url)
    propagate(here, 2, out=tmp_path / "ray", engine="ray", copy_to=there)
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    (copy,) = there.iterdir()
    verify(copy)


def test_a_graph_in_memory_with_subsets_of_relations_is_sent_to_the_workers(
    tmp_path, connected_cluster
):
    graph = random_typed(0, papers=60, others=40, edges=200)
    features = np.random.default_rng(0).normal(size=(graph.num_nodes, 33)).astype(np.float32)
    subsets = choose_subsets(graph, PropagationConfig(subsets=2))
    settings = {"hops": 2, "subsets": subsets, "features": features, "rows": np.arange(0, 60, 2)}
    propagate(graph, out=tmp_path / "local", **settings)
    propagate(graph, out=tmp_path / "ray", engine="ray", **settings)
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert not (tmp_path / ".ray.work").exists()


def test_workers_without_a_block_of_their_own_share_its_rows(
    tmp_path, connected_cluster, watched, monkeypatch
):
    log, _ = watched
    graph = stored(tmp_path, columns=16)  # a row of one cache line
    propagate(graph, 3, out=tmp_path / "local")
    block_of(monkeypatch, 16, ranges=2)
    propagate(graph, 3, out=tmp_path / "ray", engine="ray")
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert not (tmp_path / ".ray.work").exists()
    done = entries(log, 6)
    assert len(done) == 6  # two ranges of rows of three hops
    assert len({machine for _, _, machine in done}) == 2


def test_stretches_of_a_lost_worker_are_put_together_by_another(
    tmp_path, connected_cluster, monkeypatch
):
    graph, kill, log = stored(tmp_path), tmp_path / "kill", tmp_path / "log"
    propagate(graph, 3, out=tmp_path / "local")
    start, small = out_of_core.start_worker, {"STRETCH_BYTES": 8000, "STRETCH_SLABS": 1}

    def watched_start(setup):
        from scr.propagation.disk import _joiner as joiner
        from scr.propagation.disk import _layout as layout
        from scr.storage import _manifest as manifest

        layout.CHUNK_BYTES = manifest.CHUNK_BYTES = 4096
        put, work = joiner._StretchWriter.put, start(setup)

        def putting(self, data, offset):
            put(self, data, offset)
            if kill.exists():
                kill.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

        def compute(task):
            joiner._StretchWriter.put = putting
            if isinstance(task, joiner.Stretch):
                with log.open("a") as file:
                    file.write(f"{task.first} {os.getpid()} \n")
            return work(task)

        return compute

    monkeypatch.setattr(out_of_core, "start_worker", watched_start)
    for name, value in small.items():
        monkeypatch.setattr(joining_plan, name, value)
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)
    monkeypatch.setattr(disk_plan, "SLAB_BYTES", (4000, 4000))
    kill.touch()
    with monkeypatch.context() as patch:
        chunks_of(patch, 4096)
        propagate(graph, 3, out=tmp_path / "ray", engine="ray")
        verify(tmp_path / "ray")
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert not (tmp_path / ".ray.work").exists()
    assert not kill.exists()
    begun = [line.split() for line in log.read_text().splitlines()]
    stretches = [first for first, _ in begun]
    assert len(stretches) == len(set(stretches)) + 1 > 10  # one of them twice
    assert len({process for _, process in begun}) >= 3


@pytest.mark.parametrize("loss", ["worker", "machine"])
def test_what_is_lost_in_the_middle_is_made_again(
    tmp_path, connected_cluster, watched, monkeypatch, loss
):
    log, held = watched
    graph = stored(tmp_path)
    propagate(graph, 3, out=tmp_path / "local")
    block_of(monkeypatch, 16)
    third = connected_cluster.add_node(**RAY_MACHINE) if loss == "machine" else None
    workers = 3 if third else 2
    for block in range(workers):
        (held / str(block)).touch()
    lost = []

    def lose():
        begun = entries(log, workers)
        lost.append(begun[0] if third is None else next(
            each for each in begun if each[2] == third.node_id
        ))  # fmt: skip
        if third is None:
            os.kill(lost[0][1], signal.SIGKILL)
        else:
            connected_cluster.remove_node(third, allow_graceful=False)
        # Workers of a lost machine may go on for a while: theirs is held until it is begun again.
        for file in held.iterdir():
            if file.name != str(lost[0][0]):
                file.unlink()
        entries(log, workers + 1)

    def watch_and_lose():
        try:
            lose()
        finally:  # else workers would wait for ever
            for file in held.iterdir():
                file.unlink()

    watcher = threading.Thread(target=watch_and_lose)
    watcher.start()
    propagate(graph, 3, out=tmp_path / "ray", engine="ray")
    watcher.join()
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    blocks = [block for block, _, _ in entries(log)]
    assert sorted(blocks) == sorted([0, 1, 2, lost[0][0]])  # 40 columns; one of them twice
    assert not (tmp_path / ".ray.work").exists()


KILLED = """
import sys
from tests.propagation.disk import test_ray
test_ray.propagate_watched(*sys.argv[1:])
"""


def propagate_watched(folder, address):
    """What the process does that is killed."""
    import scr

    with pytest.MonkeyPatch.context() as monkeypatch:
        watch(Path(folder), monkeypatch)
        block_of(monkeypatch, 16)
        graph = scr.load_graph(f"{folder}/store")
        scr.propagate(graph, 3, out=f"{folder}/ray", engine="ray", address=address, workers=1)


def test_a_killed_process_resumes_from_finished_blocks(
    tmp_path, connected_cluster, watched, monkeypatch
):
    log, held = watched
    graph = stored(tmp_path)
    propagate(graph, 3, out=tmp_path / "local")
    journal = tmp_path / ".ray.work" / "journal.jsonl"
    (held / "1").touch()
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path, connected_cluster.address])
    try:
        entries(log, 2)
    finally:
        process.kill()
        process.wait()
    (held / "1").unlink()
    block_of(monkeypatch, 16)
    parts = [json.loads(line).get("part") for line in journal.read_text().splitlines()]
    assert [part for part in parts if part and "part" in part] == [f"part-0-{k}" for k in (1, 2, 3)]
    (tmp_path / ".ray.work" / "part-1-0.of-a-lost-worker").touch()
    propagate(graph, 3, out=tmp_path / "ray", engine="ray")
    assert sorted(block for block, _, _ in entries(log)) == [0, 1, 1, 2]
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert not (tmp_path / ".ray.work").exists()
