"""Kills leave at most one thing beside a target, and the next call removes it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from scr.errors import StoreError
from scr.storage import (
    ArtifactWriter,
    atomic_file,
    atomic_folder,
    check_new_file,
    discard_partial,
    open_array,
    read_manifest,
    write_bytes,
)
from scr.storage import _atomic as atomic
from scr.storage._staging import LockedFolder


def die_at(name, count):
    """End the process at a call of the system: before it, as a kill or a power cut would."""
    original, calls = getattr(os, name), []

    def counted(*arguments, **settings):
        calls.append(name)
        if len(calls) == count:
            os._exit(9)
        return original(*arguments, **settings)

    setattr(os, name, counted)


def write_file(path, text):
    write_bytes(path, text.encode() * 1000)


def write_folder(path, text):
    with atomic_folder(path, check=lambda _: None) as partial:
        for name in "ab":
            (partial / name).write_text(text)


def write_artifact(path, text):
    with ArtifactWriter(path, kind="test", overwrite=True) as writer:
        writer.write_array("values", np.full(1000, len(text)))


WRITERS = {"file": write_file, "folder": write_folder, "artifact": write_artifact}
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes without a script")


def in_a_process(work):
    """Do something in another process; returns its exit code."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def left(folder):
    return sorted(entry.name for entry in folder.iterdir())


def text_of(path, kind):
    """What a thing holds, which is all of one writing."""
    if kind == "file":
        content = path.read_text()
        assert content in ("old" * 1000, "newer" * 1000)
        return content[: len(content) // 1000]
    if kind == "folder":
        first, second = ((path / name).read_text() for name in "ab")
        assert first == second
        return first
    values = open_array(read_manifest(path), "values")
    return {3: "old", 5: "newer"}[int(values.min())]


@forks
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("call", ["fsync", "rename", "replace", "unlink", "rmdir", "mkdir"])
def test_a_process_that_dies_at_any_call_leaves_the_old_or_the_new(tmp_path, kind, call):
    path, count, code, write = tmp_path / "out", 0, 9, WRITERS[kind]

    def die():
        die_at(call, count)
        write(path, "newer")

    while code != 0:
        count += 1
        write(path, "old")
        assert left(tmp_path) == ["out"]  # whatever the attempt before has left
        code = in_a_process(die)
        assert code in (0, 9)
        assert text_of(path, kind) in ("old", "newer")
        assert set(left(tmp_path)) <= {"out", ".out.partial"}
    assert text_of(path, kind) == "newer"
    assert left(tmp_path) == ["out"]


def test_a_second_process_waits_for_a_file_and_refuses_a_folder(tmp_path):
    code = """
import sys
from pathlib import Path
from scr.storage import atomic_file, atomic_folder
path = Path(sys.argv[1])
with atomic_file(path / "file") as file, atomic_folder(path / "folder") as folder:
    print("ready", flush=True)
    sys.stdin.readline()
    file.write_text("first")
    (folder / "a").write_text("first")
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        assert first.stdout.readline() == "ready\n"
        with pytest.raises(StoreError, match=r"Another process is making .*folder` already"):  # noqa: SIM117
            with atomic_folder(tmp_path / "folder"):
                pytest.fail("the second one got in")
        second = threading.Thread(target=write_bytes, args=(tmp_path / "file", b"second"))
        second.start()
        second.join(0.3)
        assert second.is_alive()
        first.stdin.write("go\n")
        first.stdin.close()
        assert first.wait() == 0
        second.join()
    assert (tmp_path / "file").read_text() == "second"
    assert (tmp_path / "folder" / "a").read_text() == "first"
    assert left(tmp_path) == ["file", "folder"]


def test_many_writers_of_one_file_leave_it_whole(tmp_path):
    def write(number):
        for _ in range(10):
            write_bytes(tmp_path / "file", bytes([number]) * 5000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = (tmp_path / "file").read_bytes()
    assert len(content) == 5000
    assert len(set(content)) == 1
    assert left(tmp_path) == ["file"]


@pytest.mark.parametrize("in_the_way", ["link", "file", "folder for a lock", "link for a lock"])
def test_what_has_the_hidden_name_neither_blocks_nor_is_followed(tmp_path, in_the_way):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    hidden = tmp_path / ".out.partial"
    if in_the_way == "link":
        hidden.symlink_to(tmp_path / "photos")
    elif in_the_way == "file":
        hidden.write_text("?")
    else:
        hidden.mkdir()
        if in_the_way == "folder for a lock":
            (hidden / "lock").mkdir()
        else:
            (hidden / "lock").symlink_to(tmp_path / "photos" / "cat.jpg")
    write_bytes(tmp_path / "out", b"whole")
    assert (tmp_path / "out").read_bytes() == b"whole"
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "meow"
    assert left(tmp_path) == ["out", "photos"]


def test_a_folder_is_kept_after_a_failure_and_resumed(tmp_path):
    def fail(**settings):
        with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "out", **settings) as made:
            (made / "part").write_text("1")
            raise KeyboardInterrupt

    fail()
    assert left(tmp_path) == []
    fail(keep=True)
    assert left(tmp_path) == [".out.partial"]
    with atomic_folder(tmp_path / "out", keep=True, resume=True) as made:
        assert left(made) == ["part"]
    assert left(tmp_path) == ["out"]
    (tmp_path / "out" / "part").unlink()
    fail(keep=True)
    with atomic_folder(tmp_path / "out") as made:
        assert left(made) == []
    assert left(tmp_path) == ["out"]


@forks
def test_an_old_folder_that_was_exchanged_is_never_resumed(tmp_path):
    """Of a process that died between the exchange and the removal of the old folder."""
    with atomic_folder(tmp_path / "out") as made:
        (made / "old").touch()

    def die():
        atomic.shutil.rmtree = lambda *_, **__: os._exit(9)
        with atomic_folder(tmp_path / "out", check=lambda _: None, keep=True) as made:
            (made / "new").touch()

    assert in_a_process(die) == 9
    assert left(tmp_path / "out") == ["new"]
    with atomic_folder(tmp_path / "out", check=lambda _: None, keep=True, resume=True) as made:
        assert left(made) == []
        (made / "newest").touch()
    assert left(tmp_path / "out") == ["newest"]
    assert left(tmp_path) == ["out"]


def test_leftovers_are_discarded_unless_they_are_in_use(tmp_path):
    for name in (".a.partial", ".b.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
        (tmp_path / name / "half").touch()
    (tmp_path / ".photos.partial").mkdir()
    (tmp_path / ".photos.partial" / "cat.jpg").touch()
    used = LockedFolder(tmp_path / ".b.partial", tmp_path / "b")
    used.acquire(wait=False)
    discard_partial(tmp_path)
    assert left(tmp_path) == [".b.partial", ".photos.partial"]
    assert left(tmp_path / ".b.partial") == ["half", "lock"]
    used.remove()
    assert left(tmp_path) == [".photos.partial"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")
def test_only_plain_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "nothing").symlink_to(tmp_path / "missing")
    (tmp_path / "to pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "to mine").symlink_to(tmp_path / "mine")
    names = left(tmp_path)
    for name, kind in {
        "pipe": "a pipe", "folder": "a folder", "null": "a link to a device",
        "nothing": "a link to nothing", "to pipe": "a link to a pipe",
    }.items():  # fmt: skip
        with pytest.raises(StoreError, match=rf"`.*{name}` is {kind}; expected a file to write"):
            write_bytes(tmp_path / name, b"new")
    with pytest.raises(StoreError, match="a device"):
        write_bytes(Path("/dev/null"), b"new")
    assert left(tmp_path) == names
    write_bytes(tmp_path / "to mine", b"new")  # the link is replaced, and never followed
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "to mine").read_text() == "new"


def test_a_disk_that_is_full_at_any_write_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    write_bytes(tmp_path / "page.html", b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"too full to write `.*page.html`; nothing was written"):
        write_bytes(tmp_path / "page.html", b"new")
    with pytest.raises(StoreError, match=r"too full to write `.*folder`"):  # noqa: SIM117
        with atomic_folder(tmp_path / "folder") as made:
            (made / "a").touch()
    with pytest.raises(StoreError, match=r"too full to write `.*store`"):  # noqa: SIM117
        with ArtifactWriter(tmp_path / "store", kind="test"):
            pass
    assert (tmp_path / "page.html").read_text() == "old"
    assert left(tmp_path) == ["page.html"]


def test_atomic_file_says_what_cannot_be_written(tmp_path):
    with pytest.raises(StoreError, match=r"cannot be written: No such file"):  # noqa: SIM117
        with atomic_file(tmp_path / "missing" / "file"):
            pass


def test_a_refusal_removes_what_a_kill_left_after_the_file_had_its_name(tmp_path):
    (tmp_path / "file.csv").write_text("whole")
    (tmp_path / ".file.csv.partial").mkdir()
    (tmp_path / ".file.csv.partial" / "lock").touch()
    with pytest.raises(StoreError, match="exists already"):
        check_new_file(tmp_path / "file.csv", overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]
