"""Files and folders appear whole or not at all."""

import os
from pathlib import Path

import pytest

from scr.errors import StoreError
from scr.storage import atomic_file, atomic_folder, check_new_folder, write_bytes


def left(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_replaced_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with atomic_file(path) as partial:
        partial.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert left(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_file_and_folder(tmp_path, error):
    wanted = StoreError if isinstance(error, OSError) else KeyboardInterrupt
    write_bytes(tmp_path / "file", b"old")
    with pytest.raises(wanted), atomic_file(tmp_path / "file") as partial:
        partial.write_bytes(b"new")
        raise error
    with pytest.raises(wanted), atomic_folder(tmp_path / "folder") as folder:
        (folder / "file").write_bytes(b"new")
        raise error
    assert left(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def note(descriptor):
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        synced.append((name, (tmp_path / "out").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_bytes(b"new")
    before = [path for path, is_there in synced if not is_there]
    assert {str(folder), f"{folder}/deep", f"{folder}/deep/file"} == set(before)
    assert synced[-1] == (str(tmp_path), True)


def test_a_folder_replaces_another_one_at_once(tmp_path):
    for content in (b"old", b"new"):
        with atomic_folder(tmp_path / "out", check=lambda _: None) as folder:
            (folder / f"{content.decode()}").write_bytes(content)
    assert left(tmp_path / "out") == ["new"]
    assert left(tmp_path) == ["out"]


def test_a_new_folder_may_be_empty_but_nothing_else(tmp_path):
    check_new_folder(tmp_path / "nothing")
    check_new_folder(tmp_path)
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(StoreError, match="exists already; expected a new folder"):
            check_new_folder(path)
