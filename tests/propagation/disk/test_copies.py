"""Copies of a store on the machines of a cluster; workers are set up here, without Ray."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
from fsspec.implementations.memory import MemoryFileSystem
from tests.propagation.disk.test_out_of_core import stored
from tests.storage.test_staging import die_at, forks, in_a_process
from typer.testing import CliRunner

from scr.cli import app
from scr.compute import readable_bytes
from scr.errors import ConfigError, StoreError
from scr.features import FeatureConfig, fit_features, transform_lazily
from scr.graph import write_store
from scr.propagation import PropagationConfig, propagate
from scr.propagation.disk import DiskRequest, Team
from scr.propagation.disk import _copies as copies
from scr.propagation.disk._sending import received, sendable, store_copy
from scr.sources import load_graph
from scr.storage import _manifest as manifest
from scr.storage import _streamed_array as streamed_array
from scr.storage import array_file, checksums, read_manifest, region_of, verify

TEAM = Team(workers=2, cores=1, memory_bytes=2**30)
CHUNK = 4096
"""Bytes under one checksum here."""


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """Of a store whose arrays have several chunks and pieces."""
    monkeypatch.setattr(manifest, "CHUNK_BYTES", CHUNK)
    monkeypatch.setattr(copies, "PIECE_BYTES", 1000)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cut is tested here
    return stored(tmp_path)


def asked(graph, folder, **settings):
    settings = {"source": graph.features} | settings
    return DiskRequest(graph, PropagationConfig(), team=TEAM, copy_to=folder, **settings)


def in_a_worker(graph, folder, **settings):
    """The request as a worker has it."""
    return received(pickle.loads(pickle.dumps(sendable(asked(graph, folder, **settings), 1))))


def copy_in(folder):
    """The one copy that is there, with nothing beside it."""
    (path,) = folder.iterdir()
    return path


def arrays(request):
    graph, source = request.graph, request.source
    parts = (source.data, source.indices, source.indptr) if sp.issparse(source) else (source,)
    every = graph.indptr, graph.indices, graph.weights, *parts
    return [np.asarray(getattr(each, "source", each)) for each in every]


def check(request, graph, folder):
    """The worker's arrays are those of the graph, and lie in the copy."""
    path = copy_in(folder)
    verify(path)
    whole = replace(request, graph=graph, source=graph.features)
    for found, expected in zip(arrays(request), arrays(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert region_of(found).path.parent == path


def flip(file, offset=-1):
    """Change a byte."""
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(data)


def test_workers_read_a_copy_that_has_what_they_read(graph, tmp_path):
    folder = tmp_path / "machine" / "copies"
    check(in_a_worker(graph, folder), graph, folder)
    path = copy_in(folder)
    expected = {f"{name}.npy" for name in ("indptr", "indices", "weights", "features")}
    assert {file.name for file in path.iterdir()} == expected | {"manifest.json", "verified.json"}
    assert store_copy(asked(graph, folder)).bytes == sum(
        array.nbytes for array in (graph.indptr, graph.indices, graph.weights, graph.features)
    )


@pytest.mark.parametrize("kind", ["prepared", "sparse", "linked"])
def test_features_of_every_kind_are_copied(graph, tmp_path, kind):
    folder = tmp_path / "copies"
    if kind == "sparse":
        features = sp.csr_array(graph.features * (graph.features > 1))
        graph = load_graph(str(replace(graph, features=features).save(tmp_path / "sparse")))
    if kind == "linked":
        write_store(graph, tmp_path / "linked", link_features=True)
        graph = load_graph(str(tmp_path / "linked"))
        assert region_of(graph.features).path.parent == tmp_path / "store"
    source = graph.features
    if kind == "prepared":
        source = transform_lazily(
            fit_features(source, FeatureConfig(scale="standard")), graph.features
        )
    check(in_a_worker(graph, folder, source=source), graph, folder)


def test_what_is_not_of_the_store_goes_as_it_does_without_a_copy(graph, tmp_path):
    np.save(tmp_path / "elsewhere.npy", np.asarray(graph.features))
    for source in (np.load(tmp_path / "elsewhere.npy", mmap_mode="r"), np.array(graph.features)):
        worker = in_a_worker(graph, tmp_path / "copies", source=source)
        np.testing.assert_array_equal(worker.source, graph.features)
        there = region_of(worker.source)
        assert there is None or there.path == tmp_path / "elsewhere.npy"
        assert not (copy_in(tmp_path / "copies") / "features.npy").exists()


def test_a_later_command_finds_the_copy_and_reads_nothing_of_the_store(graph, tmp_path):
    folder = tmp_path / "copies"
    in_a_worker(graph, folder)
    before = copy_in(folder).stat()
    sent = sendable(asked(graph, folder), 1)
    shutil.rmtree(graph.path)
    check(received(sent), graph, folder)
    assert copy_in(folder).stat() == before
    # Other inodes and times: all of it is read again, and is right.
    shutil.copytree(folder, tmp_path / "moved")
    check(received(sent._replace(copy=replace(sent.copy, folder=tmp_path / "moved"))), graph,
          tmp_path / "moved")  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path / "indices.npy"),
        lambda path: os.truncate(path / "indices.npy", 1000),
        lambda path: (path / "indices.npy").unlink(),
        lambda path: flip(path / "manifest.json"),
        lambda path: (path / "manifest.json").unlink(),
    ],
)
def test_a_damaged_copy_is_made_again(graph, tmp_path, damage):
    folder = tmp_path / "copies"
    in_a_worker(graph, folder)
    damage(copy_in(folder))
    check(in_a_worker(graph, folder), graph, folder)


def test_what_others_wrote_into_a_damaged_copy_is_not_removed(graph, tmp_path):
    folder = tmp_path / "copies"
    in_a_worker(graph, folder)
    (copy_in(folder) / "photograph").touch()
    flip(copy_in(folder) / "indices.npy")
    with pytest.raises(StoreError, match="cannot be written: Directory not empty"):
        in_a_worker(graph, folder)
    assert [file.name for file in copy_in(folder).iterdir()] == ["photograph"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: flip(file, file.stat().st_size - 4 * CHUNK), r"not what its store says"),
        (lambda file: os.truncate(file, 1000), "truncated or damaged"),
        (lambda file: file.unlink(), "is missing; expected"),
    ],
)
def test_a_source_that_is_not_what_its_manifest_says_is_one_sentence(
    graph, tmp_path, damage, message
):
    folder, file = tmp_path / "copies", graph.path / "indices.npy"
    sent = sendable(asked(graph, folder), 1)
    damage(file)
    with pytest.raises(StoreError, match=message) as error:
        received(sent)
    assert f"`{graph.path}` cannot be copied to `{folder}` on `" in error.value.message
    assert f"`{file}`" in error.value.message
    assert list(folder.iterdir()) == []


def test_a_source_that_changed_is_not_read_to_its_end(graph, tmp_path, monkeypatch):
    folder, file = tmp_path / "copies", graph.path / "indices.npy"
    sent = sendable(asked(graph, folder), 1)
    chunks = len(read_manifest(graph.path).arrays["indices"].checksums)
    flip(file, file.stat().st_size - graph.indices.nbytes + CHUNK + 7)
    written, write = [], streamed_array.StreamedArray.write

    def counted(stream, rows):
        written.append((stream.file.stem, rows.nbytes))
        write(stream, rows)

    monkeypatch.setattr(streamed_array.StreamedArray, "write", counted)
    with pytest.raises(StoreError, match=f"chunk 1 of {chunks} has the checksum"):
        received(sent)
    assert chunks > 4
    assert 2 * CHUNK <= sum(size for name, size in written if name == "indices") < 3 * CHUNK


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "mkdir"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(graph, tmp_path, monkeypatch, call):
    if not hasattr(os, call):
        pytest.skip(f"there is no {call}")
    folder = tmp_path / "copies"
    sent = sendable(asked(graph, folder), 1)
    with monkeypatch.context() as patch:

        def full(*_, **__):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, call, full)
        with pytest.raises(StoreError, match="The disk is too full to write") as error:
            received(sent)
    assert f"cannot be copied to `{folder}` on `" in error.value.message
    assert f"where it takes {readable_bytes(sent.copy.bytes)}" in error.value.message
    assert "free some space" in error.value.hint
    assert not folder.exists() or list(folder.iterdir()) == []
    check(received(sent), graph, folder)


@forks
def test_two_processes_at_once_copy_once(graph, tmp_path, monkeypatch):
    folder, log = tmp_path / "copies", tmp_path / "log"
    sent = sendable(asked(graph, folder), 1)
    made = copies.StoreCopy._made

    def counted(copy):
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.3)  # the other one comes meanwhile
        return made(copy)

    monkeypatch.setattr(copies.StoreCopy, "_made", counted)
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda _: in_a_process(lambda: received(sent)), range(2)))
    assert codes == [0, 0]
    assert len(log.read_text().split()) == 1
    check(received(sent), graph, folder)


@forks
@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "rename", "unlink"])
def test_a_copy_that_was_killed_begins_again_without_leftovers(graph, tmp_path, call):
    folder, count, code = tmp_path / "copies", 0, 9
    sent = sendable(asked(graph, folder), 1)

    def die():
        die_at(call, count)
        received(sent)

    while code != 0:
        count = 2 * count + 1
        code = in_a_process(die)
        assert code in (0, 9)
        check(received(sent), graph, folder)
        shutil.rmtree(folder)


def test_a_copy_is_refused_where_there_is_no_other_machine_or_no_store(graph, tmp_path):
    for settings in ({"out": tmp_path / "hops"}, {}):
        with pytest.raises(ConfigError, match="none with the engine `local`"):
            propagate(graph, 1, copy_to=tmp_path / "copies", **settings)
    with pytest.raises(ConfigError, match="none for a graph that is not a store"):
        copies.copy_folder("copies", replace(graph, path=None), TEAM)
    assert copies.copy_folder(None, graph, None) is None
    assert copies.copy_folder("copies", graph, TEAM).is_absolute()


def test_a_plan_says_what_is_copied(graph, tmp_path):
    command = ["propagate", str(graph.path), "--plan", "--copy-to", str(tmp_path), "--json"]
    cluster = ["--workers", "2", "--worker-memory", "1GiB"]
    result = CliRunner().invoke(app, [*command, *cluster])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["copied_bytes"] == store_copy(asked(graph, tmp_path)).bytes
    assert CliRunner().invoke(app, command).exit_code == 2


class Versioned(MemoryFileSystem):
    """Takes versions of files before parts of them, as the file system of S3 does."""

    protocol = "versioned"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("versioned:"))

    def cat_file(self, path, version_id=None, start=None, end=None, **_):
        assert version_id is None
        return super().cat_file(path, start, end)


fsspec.register_implementation("versioned", Versioned)


def published(store, protocol):
    """The URL of a store, brought to where the protocol finds it."""
    if protocol == "zip":
        with zipfile.ZipFile(store.parent / "store.zip", "w") as archive:
            for file in store.iterdir():
                archive.write(file, f"inner/{file.name}")
        return f"zip://inner::file://{store.parent}/store.zip"
    if protocol in ("memory", "versioned"):
        memory = fsspec.filesystem("memory")
        if memory.exists("/bucket"):
            memory.rm("/bucket", recursive=True)
        memory.put(str(store), "/bucket/store", recursive=True)
        return f"{protocol}://bucket/store"
    if protocol == "s3":
        bucket = fsspec.filesystem("s3")
        bucket.mkdir("bucket")
        bucket.put(str(store), "bucket/big.store", recursive=True)
        return "s3://bucket/big.store"
    return f"file://{store}"


@pytest.fixture
def s3_server(monkeypatch):
    """A server on this machine that answers as S3 does, in place of Amazon's."""
    pytest.importorskip("s3fs", reason="what reads S3 is not installed")
    moto = pytest.importorskip("moto.server", reason="what answers as S3 does is not installed")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    yield
    server.stop()


@pytest.mark.usefixtures("s3_server")
def test_a_store_in_a_bucket_is_copied_by_every_machine(graph, tmp_path):
    test_a_store_at_a_url_is_copied_by_every_machine(graph, tmp_path, "s3")
    with pytest.raises(StoreError, match=r"none/manifest.json` does not exist; expected"):
        copies.fetched_store("s3://bucket/none", tmp_path / "here")


@pytest.mark.parametrize("protocol", ["file", "memory", "zip", "versioned"])
def test_a_store_at_a_url_is_copied_by_every_machine(graph, tmp_path, protocol):
    url, here, there = published(graph.path, protocol), tmp_path / "here", tmp_path / "there"
    opened = replace(load_graph(copies.fetched_store(url, here)), source=url)
    assert opened.fingerprint("edges") == graph.fingerprint("edges")
    np.testing.assert_array_equal(opened.labels, graph.labels)
    check(in_a_worker(opened, here), graph, here)  # a worker on the same machine finds the copy
    check(in_a_worker(opened, there), graph, there)
    before = copy_in(here).stat()
    assert copies.fetched_store(url, here) == copy_in(here)
    assert copy_in(here).stat() == before


def test_what_is_wrong_with_a_url_is_one_sentence(graph, tmp_path, monkeypatch):
    def refused(url, message):
        with pytest.raises(StoreError, match=message) as error:
            copies.fetched_store(url, tmp_path / "copies")
        return error.value

    url = published(graph.path, "file")
    refused(f"{url}/none", "none/manifest.json` does not exist; expected a store")
    refused("nothing://bucket/big.store", "cannot be read: Protocol not known: nothing")
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # importing it is an error
    assert "pip install 'gcsfs'" in refused("gs://bucket/big.store", "without the package").hint
    write_store(graph, tmp_path / "linked", link_features=True)
    refused(f"file://{tmp_path}/linked", "does not hold its `features`, but is linked to")
    file = graph.path / "indices.npy"
    flip(file)
    assert f"`{url}` cannot be copied to" in refused(url, "not what its store says").message
    os.truncate(file, file.stat().st_size - 1)
    refused(url, f"`{url}/indices.npy` cannot be read: an answer has 163 bytes; expected 164")
    assert list((tmp_path / "copies").iterdir()) == []


def test_numbers_of_a_store_at_a_url_are_looked_at_though_its_checksums_are_right(graph, tmp_path):
    wrong = np.array(graph.indices)
    wrong[3] = graph.num_nodes
    path, file = graph.path / "manifest.json", array_file(read_manifest(graph.path), "indices")
    np.save(file, wrong)
    content = json.loads(path.read_text())
    content["arrays"]["indices"]["checksums"] = checksums(wrong)
    path.write_text(json.dumps(content))
    for _ in range(2):
        with pytest.raises(StoreError, match="indices"):
            load_graph(copies.fetched_store(f"file://{graph.path}", tmp_path / "copies"))


def test_the_command_takes_a_url_with_a_folder_for_copies_and_one_for_hops(graph, tmp_path):
    command = ["propagate", f"file://{graph.path}", "--plan", "--json"]
    command += ["--workers", "2", "--worker-memory", "1GiB"]
    for options in ([], ["--copy-to", tmp_path / "copies"], ["--out", tmp_path / "hops"]):
        assert CliRunner().invoke(app, [*command, *map(str, options)]).exit_code == 2
    assert not (tmp_path / "copies").exists()
    command += ["--copy-to", str(tmp_path / "copies"), "--out", str(tmp_path / "hops")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    stored = sum(entry.bytes for entry in read_manifest(graph.path).arrays.values())
    assert json.loads(result.stdout)["copied_bytes"] == stored
    result = CliRunner().invoke(app, [each for each in command if each != "--plan"])
    assert result.exit_code == 2
    assert "since the store is at a URL" in result.stderr


@pytest.mark.parametrize("checksums", [[], ["0" * 32] * 99])
def test_a_manifest_at_a_url_has_a_checksum_of_every_chunk(graph, tmp_path, checksums):
    file = graph.path / "manifest.json"
    content = json.loads(file.read_text())
    content["arrays"]["indices"]["checksums"] = checksums
    file.write_text(json.dumps(content))
    with pytest.raises(StoreError, match=f"has {len(checksums)} checksums of"):
        copies.fetched_store(graph.path.as_uri(), tmp_path / "copies")
    assert not (tmp_path / "copies").exists()
