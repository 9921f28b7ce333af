"""Arrays that are streamed to an artifact or linked from it."""

import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import StoreError
from scr.storage import (
    ArtifactWriter,
    StreamedArray,
    checksums,
    open_array,
    read_manifest,
    row_chunks,
    verify,
)
from scr.storage import _manifest as manifest
from scr.storage import _sequential_writer as sequential_writer
from scr.storage._manifest import RunningChecksums


@given(st.lists(st.integers(0, 200)), st.sampled_from([np.uint8, np.float32, np.int64]))
def test_checksums_of_pieces_are_those_of_the_whole(sizes, dtype):
    array = np.random.default_rng(sum(sizes)).integers(0, 200, sum(sizes)).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "CHUNK_BYTES", 64)
        running = RunningChecksums()
        for piece in np.split(array, np.cumsum(sizes)[:-1]):
            running.update(piece.view(np.uint8).data)
        assert running.digests() == checksums(array)
        assert running.bytes == array.nbytes


def test_rows_arrive_in_pieces_and_are_converted(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    values = np.random.default_rng(0).standard_normal((50, 3))
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        stream = writer.stream_array("values", (50, 3), np.float16)
        for start in (0, 7, 20):
            stream.write(values[start : {0: 7, 7: 20, 20: 50}[start]])
    found = verify(tmp_path / "a")
    np.testing.assert_array_equal(open_array(found, "values"), values.astype(np.float16))
    assert list(found.arrays["values"].checksums) == checksums(values.astype(np.float16))


def test_too_few_or_too_many_rows_leave_nothing(tmp_path):
    for rows in (2, 4):
        with (
            pytest.raises(ValueError, match="rows"),
            ArtifactWriter(tmp_path / "a", kind="numbers") as writer,
        ):
            writer.stream_array("values", (3,), np.int64).write(np.zeros(rows, np.int64))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_halfway_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    real, calls = os.pwrite, []

    def fills_up(descriptor, data, offset):
        calls.append(len(data))
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", fills_up)
    with (
        pytest.raises(StoreError, match="disk is too full to write"),
        ArtifactWriter(tmp_path / "a", kind="numbers") as writer,
    ):
        stream = writer.stream_array("values", (10,), np.int64)
        for _ in range(10):
            stream.write(np.zeros(1, np.int64))
    assert list(tmp_path.iterdir()) == []


def test_work_goes_on_after_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    values, file = np.arange(100, dtype=np.int32), tmp_path / "values.npy"
    first = StreamedArray(file, (500,), np.int32, target=file)
    first.write(values[:37])
    record = json.loads(json.dumps(first.checkpoint()))
    first.write(values[50:])  # what comes after the checkpoint is lost
    first.close()
    second = StreamedArray(file, (500,), np.int32, target=file, checkpoint=record)
    second.write(values[37:])
    second.trim()
    entry = second.finish()
    np.testing.assert_array_equal(np.load(file, allow_pickle=False), values)
    assert list(entry.checksums) == checksums(values)
    assert file.stat().st_size < 100 * 4 + 300


@pytest.mark.parametrize("rows", [3, 5000])
def test_a_file_that_is_written_past_the_cache_has_the_header_of_the_rows_that_came(
    tmp_path, monkeypatch, rows
):
    monkeypatch.setattr(sequential_writer, "DIRECT_BYTES", 1)
    values = np.arange(rows, dtype=np.int32)
    stream = StreamedArray(tmp_path / "x.npy", (10**6,), np.int32, target=tmp_path)
    stream.write(values)
    stream.trim()
    entry = stream.finish()
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy", allow_pickle=False), values)
    assert list(entry.checksums) == checksums(values)


def test_views_of_memory_maps_are_read_where_they_lie(tmp_path):
    values = np.arange(60.0).reshape(20, 3)
    np.save(tmp_path / "x.npy", values)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for view in (mapped, mapped[5:], mapped[2:9], np.asarray(mapped)[4:], mapped[::2], mapped.T):
        np.testing.assert_array_equal(np.concatenate([*row_chunks(view, 30)]), view)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[3] = -1  # in memory only
    np.testing.assert_array_equal(np.concatenate([*row_chunks(private, 30)]), private)


@pytest.fixture
def linked(tmp_path):
    values = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float16)
    np.save(tmp_path / "x.npy", values)
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        writer.link_array("values", np.load(tmp_path / "x.npy", mmap_mode="r"))
        writer.write_array("other", np.arange(3))
    return tmp_path / "a", tmp_path / "x.npy", values


def test_a_linked_array_is_read_and_verified_where_it_lies(linked):
    path, file, values = linked
    found = verify(path)
    np.testing.assert_array_equal(open_array(found, "values"), values)
    assert found.arrays["values"].file == str(file)
    assert list(found.arrays["values"].checksums) == checksums(values)
    assert not (path / "values.npy").exists()


def test_replacing_an_artifact_never_touches_a_linked_file(linked):
    path, file, values = linked
    with ArtifactWriter(path, kind="numbers", overwrite=True) as writer:
        writer.write_array("values", np.zeros(1))
    np.testing.assert_array_equal(np.load(file), values)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.rename(file.with_name("moved.npy")), "is missing; expected 400 bytes"),
        (lambda file: os.truncate(file, 300), "is truncated or damaged: 300 bytes"),
        (lambda file: file.write_bytes(b"nothing"), "is truncated or damaged"),
        (lambda file: np.save(file, np.ones((40, 6), np.float16)), r"holds float16 of shape"),
        (lambda file: np.save(file, np.array([{}]), allow_pickle=True), "Python objects"),
        (lambda file: (file.unlink(), os.mkfifo(file)), "a pipe"),
    ],
)
def test_a_linked_file_that_changed_is_one_sentence(linked, damage, said):
    path, file, _ = linked
    damage(file)
    with pytest.raises(StoreError, match=said) as error:
        open_array(read_manifest(path), "values")
    assert str(file) in str(error.value)


def test_one_altered_number_of_a_linked_file_is_found(linked):
    path, file, values = linked
    values[3, 3] += 1
    np.save(file, values)
    open_array(read_manifest(path), "values")
    with pytest.raises(StoreError, match=r"x\.npy` has changed since it was written"):
        verify(path)


@pytest.mark.parametrize("which", ["slice", "memory", "columns", "relative"])
def test_only_whole_plain_files_are_linked(linked, monkeypatch, which):
    path, file, values = linked
    mapped = np.load(file, mmap_mode="r")
    if which == "relative":  # a manifest of a stranger: no path but a whole one is followed
        record = json.loads((path / "manifest.json").read_text())
        record["arrays"]["values"]["file"] = "x.npy"
        (path / "manifest.json").write_text(json.dumps(record))
        monkeypatch.chdir(file.parent)
        with pytest.raises(StoreError, match="is not a whole path"):
            open_array(read_manifest(path), "values")
        return
    if which == "columns":
        np.save(file, np.asfortranarray(values))
        mapped = np.load(file, mmap_mode="r")
    array = {"slice": mapped[1:], "memory": values, "columns": mapped}[which]
    with (
        pytest.raises(StoreError, match="cannot be linked"),
        ArtifactWriter(path.with_name("b"), kind="numbers") as writer,
    ):
        writer.link_array("values", array)
    assert not path.with_name("b").exists()
