"""Locks: one holder at a time, gone with the process that held it."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scr.errors import StoreError
from scr.storage import (
    Claim,
    WorkFolder,
    atomic_folder,
    check_writable,
    one_at_a_time,
    write_bytes,
)
from scr.storage import _lock as lock

HOLD = """
import sys, time
from pathlib import Path
from scr.storage import Claim
claim = Claim(Path(sys.argv[1]))
assert claim.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_claim_is_held_by_one_and_leaves_nothing(tmp_path):
    first, second = Claim(tmp_path / "a" / "x.lock"), Claim(tmp_path / "a" / "x.lock")
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert not (tmp_path / "a" / "x.lock").exists()
    assert second.acquire()
    second.release()
    assert list((tmp_path / "a").iterdir()) == []


def test_a_folder_that_is_removed_while_it_is_found_to_be_there_is_made_again(
    tmp_path, monkeypatch
):
    mkdir, removed = Path.mkdir, []

    def too_late(path, *arguments, **settings):
        if not removed:
            removed.append(path)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        mkdir(path, *arguments, **settings)

    monkeypatch.setattr(Path, "mkdir", too_late)
    claim = Claim(tmp_path / "a" / "x.lock", is_needed=True)
    assert claim.acquire()
    assert removed == [tmp_path / "a"]
    claim.release()


def test_a_file_where_the_folder_of_a_lock_would_be_is_an_error(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(OSError, match="exists"):
        Claim(tmp_path / "a" / "x.lock", is_needed=True).acquire()


def test_a_killed_holder_gives_its_claim_back(tmp_path):
    file = tmp_path / "x.lock"
    process = subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    assert not Claim(file).acquire()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    claim = Claim(file)
    assert claim.acquire(wait=True)
    claim.release()


def test_the_lock_of_a_target_lies_beside_it_while_it_is_held(tmp_path):
    with one_at_a_time(tmp_path / "run"):
        assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
    assert list(tmp_path.iterdir()) == []
    with one_at_a_time(tmp_path / "not" / "there"):
        assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written_are_refused_and_others_left_alone(tmp_path):
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file; expected a folder"):
        check_writable(tmp_path / "file" / "below")
    with pytest.raises(StoreError, match="cannot be written: File name too long"):
        check_writable(tmp_path / ("x" * 300))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_a_folder_of_a_file_system_that_takes_no_files_is_refused():
    with pytest.raises(StoreError, match="`/proc/run` cannot be written"):
        check_writable(Path("/proc/run"))


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
@pytest.mark.filterwarnings("ignore:flock not supported")
def test_where_the_disk_has_no_locks_files_and_folders_are_written_all_the_same(
    tmp_path, monkeypatch, code
):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_bytes(tmp_path / "file", b"1")
    with one_at_a_time(tmp_path / "run"), atomic_folder(tmp_path / "folder") as partial:
        (partial / "a").touch()
    with WorkFolder(tmp_path / "work", {}) as work:
        work.finish("part")
    assert (tmp_path / "file").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_lock_whose_file_cannot_be_made_is_an_error_only_if_it_is_needed(tmp_path):
    (tmp_path / "file").touch()
    assert Claim(tmp_path / "file" / "x.lock").acquire()
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        Claim(tmp_path / "file" / "x.lock", is_needed=True).acquire()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="has no users")
def test_what_another_user_left_is_named(tmp_path, monkeypatch):
    (tmp_path / ".file.partial").mkdir()
    (tmp_path / ".file.partial" / "lock").touch()

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(lock.FileLock, "acquire", refuse)
    with pytest.raises(StoreError, match=r"\.file\.partial` is there already.*Permission denied"):
        write_bytes(tmp_path / "file", b"1")
