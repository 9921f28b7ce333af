from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest

from scr.errors import StoreError
from scr.storage import ArtifactWriter, open_array, read_manifest, verify
from scr.storage import _atomic as atomic
from scr.storage import _manifest as manifest


def write(path, values=(1, 2, 3), **settings):
    with ArtifactWriter(path, kind="numbers", **settings) as writer:
        writer.write_array("values", np.array(values))
        writer.metadata["origin"] = "düne"
    return path


def test_what_is_written_is_read_back(tmp_path):
    found = read_manifest(write(tmp_path / "deep" / "a"), "numbers", schema=1)
    assert open_array(found, "values").tolist() == [1, 2, 3]
    assert found.metadata == {"origin": "düne"}
    assert found.created_by.startswith("scr ")


@pytest.mark.parametrize("shape", [(0,), (0, 4), (), (3, 0, 2), (5, 2)])
@pytest.mark.parametrize("dtype", [np.float16, np.int64, bool, "<U5"])
def test_every_shape_and_plain_type_is_kept(tmp_path, shape, dtype):
    array = np.ones(shape).astype(dtype)
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        writer.write_array("values", array)
    found = open_array(verify(tmp_path / "a"), "values")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def fail_inside(path, problem, **settings):
    with ArtifactWriter(path, kind="numbers", **settings) as writer:
        writer.write_array("values", np.ones(3))
        raise problem


def test_arrays_may_be_filled_piece_by_piece(tmp_path):
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        values = writer.create_array("values", (4, 2), np.float32)
        values[:2] = 1
        values[2:] = 2
    assert open_array(verify(tmp_path / "a"), "values")[:, 0].tolist() == [1, 1, 2, 2]


def test_numpy_alone_reads_the_arrays(tmp_path):
    write(tmp_path / "a")
    assert np.load(tmp_path / "a" / "values.npy", allow_pickle=False).tolist() == [1, 2, 3]


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(tmp_path, problem):
    with pytest.raises(problem):
        fail_inside(tmp_path / "a", problem)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match="disk is too full"):
        write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_space_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    with (
        pytest.raises(StoreError, match=r"disk is too full|cannot be written"),
        ArtifactWriter(tmp_path / "a", kind="numbers") as writer,
    ):
        writer.create_array("values", (2**55,), np.uint8)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_artifact_is_replaced_only_when_asked(tmp_path):
    path = write(tmp_path / "a")
    with pytest.raises(StoreError, match="exists already"):
        write(path, (4,))
    assert open_array(read_manifest(path), "values").tolist() == [1, 2, 3]
    write(path, (4,), overwrite=True)
    assert open_array(read_manifest(path), "values").tolist() == [4]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_replacing_works_where_the_system_cannot_exchange(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_RENAME_EXCHANGE", 1 << 20)  # flags that no kernel knows
    path = write(tmp_path / "a")
    write(path, (4,), overwrite=True)
    assert open_array(verify(path), "values").tolist() == [4]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_failed_replacement_keeps_the_old_one(tmp_path):
    path = write(tmp_path / "a")
    with pytest.raises(RuntimeError):
        fail_inside(path, RuntimeError, overwrite=True)
    assert open_array(verify(path), "values").tolist() == [1, 2, 3]


def test_somebody_elses_folder_is_never_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "photo.jpg").write_bytes(b"x")
    with pytest.raises(StoreError, match=r"no `manifest.json`"):
        write(tmp_path / "a", overwrite=True)
    assert (tmp_path / "a" / "photo.jpg").exists()


def test_a_folder_that_may_not_be_moved_is_refused_before_any_work(tmp_path, monkeypatch):
    path = write(tmp_path / "a", [1, 2, 3])
    monkeypatch.setattr(os, "access", lambda folder, mode: folder != path.resolve())
    with pytest.raises(StoreError, match=r"/a` cannot be replaced: Permission denied"):
        ArtifactWriter(path, kind="numbers", overwrite=True).check_target()
    assert open_array(verify(path), "values").tolist() == [1, 2, 3]


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "a").mkdir()
    verify(write(tmp_path / "a"))


def test_a_truncated_array_is_told(tmp_path):
    path = write(tmp_path / "a", range(1000))
    os.truncate(path / "values.npy", 500)
    with pytest.raises(StoreError, match="truncated"):
        open_array(read_manifest(path), "values")


@pytest.mark.parametrize("damage", ["header", "missing", "other shape", "pickle"])
def test_a_damaged_array_is_told(tmp_path, damage):
    path = write(tmp_path / "a")
    file = path / "values.npy"
    if damage == "header":
        file.write_bytes(b"nothing")
    elif damage == "missing":
        file.unlink()
    elif damage == "other shape":
        np.save(file, np.arange(4))
    else:
        np.save(file, np.array([{}], object), allow_pickle=True)
    with pytest.raises(StoreError, match=r"values\.npy"):
        open_array(read_manifest(path), "values")


def test_one_changed_byte_is_found_and_its_chunk_named(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    path = write(tmp_path / "a", range(1000))
    content = bytearray((path / "values.npy").read_bytes())
    content[-65] ^= 1
    (path / "values.npy").write_bytes(content)
    with pytest.raises(StoreError, match="chunk 123 of 125"):
        verify(path)


def test_another_kind_version_or_no_artifact_is_told(tmp_path):
    path = write(tmp_path / "a", schema=2)
    with pytest.raises(StoreError, match="holds `numbers`; expected `graph`"):
        read_manifest(path, "graph")
    with pytest.raises(StoreError, match=r"version 2.*expected version 1"):
        read_manifest(path, "numbers", schema=1)
    with pytest.raises(StoreError, match="expected a store"):
        read_manifest(tmp_path / "b")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "scr-artifact"}', '"x"', "\x00"])
def test_a_damaged_manifest_is_told(tmp_path, text):
    path = write(tmp_path / "a")
    (path / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match="not a manifest of scr, or is damaged"):
        read_manifest(path)


def test_a_manifest_cannot_point_outside_its_folder(tmp_path):
    path = write(tmp_path / "a")
    file = path / "manifest.json"
    content = json.loads(file.read_text())
    content["arrays"]["../b"] = content["arrays"]["values"]
    del content["array_names"]
    file.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="no array"):
        open_array(read_manifest(path), "../b")


def test_an_array_that_a_manifest_has_lost_is_missed(tmp_path):
    path = write(tmp_path / "a")
    content = json.loads((path / "manifest.json").read_text())
    content["arrays"].popitem()
    (path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="is damaged"):
        read_manifest(path)


def test_python_objects_are_never_stored(tmp_path):
    with (
        pytest.raises(ValueError, match="Python objects"),
        ArtifactWriter(tmp_path / "a", kind="numbers") as writer,
    ):
        writer.write_array("values", np.array([{}], object))
