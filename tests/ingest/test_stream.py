"""Ingest part by part: the store of memory, whole or not at all, and gone on with after a kill."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import campaigns

from scr.compute import default_threads
from scr.config import parse_bytes
from scr.errors import GraphError, MemoryBudgetError, SourceError, StoreError
from scr.features import open_features
from scr.graph import open_store
from scr.ingest import IngestPlan, ingest, plan_of
from scr.ingest import _plan as ingest_plan
from scr.ingest import _row_writer as row_writer
from scr.ingest import _stream as stream_ingest
from scr.ingest._plan import IngestSize, plan_ingest
from scr.ingest._row_buckets import RowRules
from scr.sources import IngestOptions, load_graph, read_raw
from scr.sources.readers import _npz as npz
from scr.storage import is_verified, read_manifest, row_chunks
from scr.storage import verify as verify_store


class Tight(IngestPlan):
    """A plan whose memory is what a test says."""

    bytes_per_thread = 1000

    def room(self, resident=0, chunk_edges=None):
        return self.bytes_per_thread * (default_threads() + 1)


def tight():
    return Tight(
        method="buckets", budget=2**40, resident=0, memory_bytes=0, temporary_bytes=0,
        final_bytes=0, chunk_edges=16,
    )  # fmt: skip


def write_shards(folder, *, nodes=40, edges=300, seed=0, shards=3, dtype=np.int32):
    generator = np.random.default_rng(seed)
    folder.mkdir()
    ends = (generator.random((2, edges)) ** 1.2 * nodes).astype(dtype)
    for number, part in enumerate(np.array_split(ends, shards, axis=1)):
        np.save(folder / f"edges-{number:05}.npy", part)
    labels = np.arange(nodes) % 3
    labels[-5:] = -1
    np.save(folder / "labels.npy", labels)
    np.save(folder / "train.npy", np.arange(10))
    np.save(folder / "valid.npy", np.arange(10, 20))
    features = generator.standard_normal((nodes, 4)).astype(np.float16)
    np.save(folder / "features.npy", features)
    return folder


def stream(source, store, options=None, *, bits=2, **settings):
    options = options or IngestOptions()
    raw = read_raw(source, options)
    features = raw.features
    if options.features is not None:
        features = open_features(options.features, raw.num_nodes, "the source")
    parts = stream_ingest.take_apart(raw, features)
    return stream_ingest.stream_ingest(
        parts, options, source, store, tight(), bits=bits, **settings
    )


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def digests(store):
    return {name: entry.checksums for name, entry in read_manifest(store).arrays.items()}


def test_a_streamed_store_is_known_as_verified_in_the_end(tmp_path):
    source = write_shards(tmp_path / "source", seed=0)
    stream(source, tmp_path / "store")
    assert is_verified(read_manifest(tmp_path / "store"))


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32),
    options=st.builds(
        IngestOptions,
        symmetrize=st.booleans(),
        drop_self_loops=st.booleans(),
        splits=st.sampled_from([None, "per-class:2,2"]),
    ),
    dtype=st.sampled_from([np.int32, np.int64, np.uint16]),
)
def test_buckets_make_the_store_of_memory(tmp_path_factory, seed, options, dtype):
    folder = tmp_path_factory.mktemp("ingest")
    source = write_shards(folder / "source", seed=seed, dtype=dtype)
    made = stream(source, folder / "store", options)
    expected = load_graph(source, options=options)
    expected.save(folder / "memory")
    assert digests(folder / "store") == digests(folder / "memory")
    found, wanted = (read_manifest(folder / name).metadata for name in ("store", "memory"))
    assert found == wanted
    assert made.fingerprint() == expected.fingerprint()
    assert left(folder) == ["memory", "source", "store"]
    verify_store(folder / "store")


def test_features_of_a_file_are_converted_as_in_memory(tmp_path):
    source = write_shards(tmp_path / "source")
    generator = np.random.default_rng(1)
    for dtype in (np.float64, np.float32, np.int32):
        np.save(tmp_path / "x.npy", (100 * generator.standard_normal((40, 3))).astype(dtype))
        options = IngestOptions(features=tmp_path / "x.npy", splits="random:0.3,0.3")
        stream(source, tmp_path / "streamed", options, overwrite=True)
        expected = load_graph(source, options=options)
        expected.save(tmp_path / "memory", overwrite=True)
        assert digests(tmp_path / "streamed") == digests(tmp_path / "memory")
        found, wanted = (read_manifest(tmp_path / name) for name in ("streamed", "memory"))
        assert found.metadata == wanted.metadata


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (17, 3), (39, 2)])
def test_features_that_are_not_finite_are_named(tmp_path, monkeypatch, link, row, column):
    one_row_at_a_time = partial(row_chunks, size=1)
    monkeypatch.setattr("scr.ingest._features.row_chunks", one_row_at_a_time)
    source = write_shards(tmp_path / "source")
    features = np.load(source / "features.npy")
    features[row, column] = np.inf
    np.save(source / "features.npy", features)
    with pytest.raises(GraphError, match=rf"Feature {column} of node {row} is inf"):
        stream(source, tmp_path / "store", link=link)
    assert left(tmp_path) == ["source"]


def test_a_bad_node_number_late_in_the_stream_leaves_nothing(tmp_path):
    source = write_shards(tmp_path / "source", shards=3)
    last = np.load(source / "edges-00002.npy")
    last[1, 97] = 40
    np.save(source / "edges-00002.npy", last)
    with pytest.raises(GraphError, match=r"^Edge 297 goes from node \d+ to node 40, outside"):
        stream(source, tmp_path / "store")
    assert left(tmp_path) == ["source"]


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite"])
def test_a_full_disk_leaves_what_is_finished_whenever_it_fills_up(tmp_path, monkeypatch, call):
    source = write_shards(tmp_path / "source")
    load_graph(source).save(tmp_path / "memory")
    real, room = getattr(os, call), [0]

    def fills_up(*arguments):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, call, fills_up)
    said = []
    for calls in range(0, 200, 3):
        room[0] = calls
        try:
            stream(source, tmp_path / "store")
            break
        except StoreError as full:
            said.append(str(full))
            assert not (tmp_path / "store").exists()
            work = tmp_path / ".store.work"
            assert work.exists() == ("what is finished stays in" in said[-1])
            if work.exists():
                parts = {}
                for line in map(json.loads, (work / "journal.jsonl").read_text().splitlines()):
                    parts[line.get("part")] = line.get("files", ())
                    parts.pop(line.get("forgotten"), None)
                files = {Path(name).parts[0] for names in parts.values() for name in names}
                assert {*left(work)} == {*files, "journal.jsonl", "lock"}
    assert len(said) > 1
    assert all("disk is too full" in each for each in said)
    assert "what is finished stays in" in said[-1]
    monkeypatch.undo()
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")
    assert left(tmp_path) == ["memory", "source", "store"]


def test_rows_that_do_not_fit_name_the_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_plan, "LARGE_EDGES", 1)
    source = write_shards(tmp_path / "source")
    with pytest.raises(MemoryBudgetError, match=r"the budget is 1\.00MiB") as error:
        ingest(source, tmp_path / "store", IngestOptions(), memory="1MiB")
    assert left(tmp_path) == ["source"]
    smallest = error.value.hint.split("`")[1]
    graph = ingest(source, tmp_path / "store", IngestOptions(), memory=smallest)
    assert graph.fingerprint() == load_graph(source).fingerprint()


def test_a_hub_that_no_plan_can_see_works_in_the_budget_that_is_named(monkeypatch):
    monkeypatch.setattr(ingest_plan, "default_threads", lambda: 2)
    hub, size = 100_000_000, IngestSize(nodes=2_000_000, edges=200_000_000)

    def fitted(budget):
        plan = plan_ingest(size, budget=budget, resident=0, free_disk=1 << 45)
        rules = RowRules(num_nodes=size.nodes, chunk_edges=plan.chunk_edges, threads=2)
        return plan.fit(rules, hub, 0)

    with pytest.raises(MemoryBudgetError, match="the rows with the most edges") as error:
        fitted(1 << 30)
    _, keys = fitted(parse_bytes(error.value.hint.split("`")[1]))
    assert keys == 1 << 24


def interrupted(monkeypatch, source, store, pieces, **settings):
    """Stop after some pieces of rows, as Ctrl-C would."""
    real = row_writer._Output.write

    def write(self, rows):
        nonlocal pieces
        pieces -= 1
        if pieces < 0:
            raise KeyboardInterrupt
        return real(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(row_writer._Output, "write", write)
        with pytest.raises(KeyboardInterrupt):
            stream(source, store, **settings)


@pytest.mark.parametrize("then", [1000, 600])
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_interrupted_work_resumes_also_with_less_memory(tmp_path, monkeypatch, then, pieces):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 1)
    source = write_shards(tmp_path / "source")
    load_graph(source).save(tmp_path / "memory")
    interrupted(monkeypatch, source, tmp_path / "store", pieces)
    assert left(tmp_path) == [".store.work", "memory", "source"]
    told = []
    with monkeypatch.context() as patch:
        # What is finished is not done again.
        patch.setattr("scr.ingest._row_writer.count_units", None)
        patch.setattr(stream_ingest, "make_graph", None)
        patch.setattr(Tight, "bytes_per_thread", then)
        stream(source, tmp_path / "store", on_progress=lambda *each: told.append(each))
    assert ("fill buckets" in {what for what, *_ in told}) == (then < 1000)
    assert "copy features" not in {what for what, *_ in told}
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")
    assert left(tmp_path) == ["memory", "source", "store"]


def test_buckets_are_removed_when_their_rows_are_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 1)
    source, counts, real = write_shards(tmp_path / "source"), [], row_writer._Output.write

    def write(self, rows):
        counts.append(len(left(tmp_path / ".store.work" / "buckets")))
        return real(self, rows)

    monkeypatch.setattr(row_writer._Output, "write", write)
    stream(source, tmp_path / "store")
    assert len(counts) > 3
    assert counts == list(range(len(counts), 0, -1))


@pytest.mark.parametrize("file", ["indices.npy", "buckets/00003.keys"])
def test_rows_or_buckets_that_changed_are_made_again_from_the_source(tmp_path, monkeypatch, file):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 1)
    source = write_shards(tmp_path / "source")
    load_graph(source).save(tmp_path / "memory")
    interrupted(monkeypatch, source, tmp_path / "store", 3)
    damaged = tmp_path / ".store.work" / file
    content = bytearray(damaged.read_bytes())
    content[-1 if "keys" in file else 200] ^= 1
    damaged.write_bytes(content)
    told = []
    stream(source, tmp_path / "store", on_progress=lambda what, *_: told.append(what))
    assert "fill buckets" in told
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")


def test_a_kill_after_the_last_row_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 1)
    source = write_shards(tmp_path / "source", nodes=41)  # the last block of rows is not whole
    load_graph(source).save(tmp_path / "memory")

    def killed(self, loops):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(row_writer._Output, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            stream(source, tmp_path / "store")
    stream(source, tmp_path / "store")
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")


def test_work_that_is_not_gone_on_with_does_not_stay(tmp_path, monkeypatch):
    source = write_shards(tmp_path / "source")
    interrupted(monkeypatch, source, tmp_path / "store", 3)
    assert left(tmp_path) == [".store.work", "source"]
    ingest(source, tmp_path / "store", IngestOptions())  # in memory, where there is enough
    assert left(tmp_path) == ["source", "store"]


def test_files_that_are_named_by_a_prefix_or_below_home_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.save(tmp_path / "x.npy", np.ones(3))
    (tmp_path / "ind.cora.graph").write_bytes(b"")
    rules = RowRules(num_nodes=3)
    options = IngestOptions(features="~/x.npy")
    files = stream_ingest._identity(options, tmp_path / "ind.cora", rules, link=False)["files"]
    assert [Path(name).name for name, *_ in files] == ["ind.cora.graph", "x.npy"]


@pytest.mark.parametrize("change", ["source", "options"])
def test_another_source_or_other_options_start_afresh(tmp_path, monkeypatch, change):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 1)
    source = write_shards(tmp_path / "source")
    interrupted(monkeypatch, source, tmp_path / "store", 3)
    options = IngestOptions()
    if change == "options":
        options = dataclasses.replace(options, symmetrize=False)
    else:
        edges = np.load(source / "edges-00000.npy")
        np.save(source / "edges-00000.npy", edges[::-1, ::-1])
        os.utime(source / "edges-00000.npy", ns=(1, 1))
    stream(source, tmp_path / "store", options)
    load_graph(source, options=options).save(tmp_path / "memory")
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")


@pytest.mark.parametrize("ends", [(1, 3), (10_000, 3), (-1, -1), (0, 43)])
def test_edges_that_change_after_they_were_counted_are_refused(tmp_path, monkeypatch, ends):
    source = write_shards(tmp_path / "source", nodes=41)
    store_features = stream_ingest.store_features

    def change(*arguments, **settings):
        edges = np.load(source / "edges-00001.npy")
        edges[:, 10:50] = np.reshape(ends, (2, 1))
        np.save(source / "edges-00001.npy", edges)
        return store_features(*arguments, **settings)

    monkeypatch.setattr(stream_ingest, "store_features", change)
    with pytest.raises(SourceError, match="not those that were counted"):
        stream(source, tmp_path / "store")
    assert left(tmp_path) == ["source"]


_KILLED = """
import sys
from pathlib import Path
from scr.ingest import _plan as ingest_plan, _row_writer as row_writer
from scr.ingest._ingest import ingest
from scr.sources import IngestOptions
ingest_plan.LARGE_EDGES, row_writer.CHECKPOINT_BYTES = 1, 1
ingest_plan.LARGEST_CHUNK = 1 << 12
ingest_plan.IngestPlan.room = lambda self, resident=0, chunk_edges=0: 1 << 21
print("begun", flush=True)
ingest(sys.argv[1], sys.argv[2], IngestOptions())
"""


@campaigns.seeds(20)
def test_killed_at_any_moment_and_run_again_it_makes_the_same_store(tmp_path, seed):
    source = write_shards(tmp_path / "source", nodes=400_000, edges=600_000)
    load_graph(source).save(tmp_path / "memory")
    command = [sys.executable, "-c", _KILLED, str(source), str(tmp_path / "store")]
    kills = 4 if seed else 2
    for wait in np.random.default_rng(seed).uniform(0, np.linspace(0.3, 1.2, kills)):
        print(f"killed after {wait:.3f} s")
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        if (tmp_path / "store").exists():
            break  # it was faster than the signal
    else:
        subprocess.run(command, check=True, capture_output=True)
        assert left(tmp_path) == ["memory", "source", "store"]
    verify_store(tmp_path / "store")
    assert digests(tmp_path / "store") == digests(tmp_path / "memory")


_MEASURED = """
import json, re, sys
from pathlib import Path
from scr.ingest._ingest import ingest, plan_of
from scr.sources import IngestOptions
plan = plan_of(sys.argv[1], sys.argv[2], IngestOptions(), memory=sys.argv[3])
graph = ingest(sys.argv[1], sys.argv[2], IngestOptions(), memory=sys.argv[3])
# Not ru_maxrss, which begins with what the process that started this one held.
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([plan.method, peak, graph.num_edges]))
"""


def test_the_process_stays_within_its_budget(tmp_path):
    # In memory, 8 million edges take 0.7 GB; here the whole process gets half of that.
    source = write_shards(tmp_path / "source", nodes=1_000_000, edges=8_000_000)
    command = [sys.executable, "-c", _MEASURED, str(source), str(tmp_path / "store"), "330MiB"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    method, peak, edges = json.loads(done.stdout)
    assert method == "buckets"
    assert peak <= 330 * 2**20
    assert edges == open_store(tmp_path / "store").num_edges
    verify_store(tmp_path / "store")


@pytest.mark.parametrize("large", [False, True])
def test_linked_features_are_not_copied(tmp_path, monkeypatch, large):
    if large:
        monkeypatch.setattr(ingest_plan, "LARGE_EDGES", 1)
    source = write_shards(tmp_path / "source")
    graph = ingest(source, tmp_path / "store", IngestOptions(), link=True)
    assert not (tmp_path / "store" / "features.npy").exists()
    assert graph.fingerprint() == load_graph(source).fingerprint()
    again = open_store(tmp_path / "store")
    assert again.fingerprint() == graph.fingerprint()
    np.testing.assert_array_equal(again.features, np.load(source / "features.npy"))
    verify_store(tmp_path / "store")
    (source / "features.npy").rename(source / "moved.npy")
    with pytest.raises(StoreError, match=r"features\.npy`, to which `features` of .* is missing"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", ["float64", "fortran", "none"])
def test_features_that_cannot_be_linked_are_refused(tmp_path, monkeypatch, kind, large):
    if large:
        monkeypatch.setattr(ingest_plan, "LARGE_EDGES", 1)
    source = write_shards(tmp_path / "source")
    features = np.load(source / "features.npy")
    if kind == "none":
        (source / "features.npy").unlink()
    else:
        changed = {"float64": features.astype(float), "fortran": np.asfortranarray(features)}
        np.save(source / "features.npy", changed[kind])
    with pytest.raises(SourceError, match="The features cannot be linked"):
        ingest(source, tmp_path / "store", IngestOptions(), link=True)
    assert left(tmp_path) == ["source"]


def test_members_of_an_archive_are_not_linked(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "SMALL_BYTES", 0)
    features = np.ones((3, 2), np.float32)
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 2]]), x=features)
    with pytest.raises(SourceError, match="not in a file of their own"):
        plan_of(tmp_path / "graph.npz", tmp_path / "store", IngestOptions(), link=True)


def test_a_plan_writes_nothing(tmp_path):
    source = write_shards(tmp_path / "source")
    plan = plan_of(source, tmp_path / "deep" / "store", IngestOptions(), memory="8GiB")
    assert plan.method == "memory"
    assert left(tmp_path) == ["source"]
    with pytest.raises(SourceError, match="nothing to plan"):
        plan_of("digits", tmp_path / "store", IngestOptions())


def test_a_store_that_exists_is_refused_before_any_work(tmp_path):
    source = write_shards(tmp_path / "source")
    stream(source, tmp_path / "store")
    with pytest.raises(StoreError, match="exists already"):
        stream(source, tmp_path / "store", on_progress=lambda *_: pytest.fail("it has begun"))
    assert left(tmp_path) == ["source", "store"]


def test_progress_of_every_step_goes_from_nothing_to_all(tmp_path):
    source, told = write_shards(tmp_path / "source"), {}
    stream(
        source, tmp_path / "store",
        on_progress=lambda what, done, total: told.setdefault(what, []).append((done, total)),
    )  # fmt: skip
    assert set(told) == {"copy features", "count edges", "fill buckets", "sort buckets"}
    for steps in told.values():
        assert steps[-1][0] == steps[-1][1]
        assert steps == sorted(steps)
    assert len(told["sort buckets"]) > 1
