"""Finished parts stay for the same task, and for one process at a time."""

import errno
import os
import shutil

import numpy as np
import pytest
from filelock import FileLock

from scr.errors import GraphError, MemoryBudgetError, StoreError
from scr.storage import ArtifactWriter, WorkFolder, discard_work


def interrupt(target, identity="task", *, parts=("a",), error=KeyboardInterrupt):
    """Finish some parts, then fail."""
    with pytest.raises(error if isinstance(error, type) else type(error)):  # noqa: SIM117
        with WorkFolder(target, identity) as work:
            for part in parts:
                work.file(part).write_text(part)
                work.finish(part, {"size": 1}, [part])
            work.file("unfinished").write_text("half")
            raise error


def left(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_finished_parts_are_there_again_and_nothing_is_left_in_the_end(tmp_path):
    interrupt(tmp_path / "out", {"seed": (1, 2)}, parts=("a", "b"))
    with WorkFolder(tmp_path / "out", {"seed": [1, 2]}) as work:
        assert work.finished("a") == {"size": 1}
        assert work.finished("c") is None
        work.file("b").unlink()
        assert work.finished("b") is None
        work.forget("a")
        assert not work.file("a").exists()
        assert list(work.parts()) == ["b"]
    assert left(tmp_path) == []


def test_another_task_starts_from_the_beginning(tmp_path):
    interrupt(tmp_path / "out")
    with WorkFolder(tmp_path / "out", "another task") as work:
        assert list(work.parts()) == []
        assert left(work.path) == ["journal.jsonl", "lock"]


@pytest.mark.parametrize("cut", [1, 5])
def test_a_line_that_was_cut_short_is_not_believed(tmp_path, cut):
    interrupt(tmp_path / "out", parts=("a", "b"))
    journal = tmp_path / ".out.work" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    interrupt(tmp_path / "out", parts=("c",))
    with WorkFolder(tmp_path / "out", "task") as work:
        assert list(work.parts()) == ["a", "c"]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (KeyboardInterrupt(), True),
        (MemoryBudgetError("too little"), True),
        (StoreError("something is there"), True),
        (GraphError("the same again"), False),
    ],
)
def test_errors_that_the_same_task_would_meet_again_leave_nothing(tmp_path, error, kept):
    interrupt(tmp_path / "out", error=error)
    assert left(tmp_path) == ([".out.work"] if kept else [])
    interrupt(tmp_path / "other", parts=(), error=error)
    assert not (tmp_path / ".other.work").exists()


def test_a_full_disk_leaves_what_is_finished_and_says_so(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        pytest.raises(StoreError, match=r"disk is too full to write .* what is finished stays"),
        WorkFolder(tmp_path / "out", "task") as work,
    ):
        work.file("a").write_text("a")
        work.finish("a", files=["a"])
        work.file("unfinished").write_text("half")
        raise full
    assert left(tmp_path / ".out.work") == ["a", "journal.jsonl", "lock"]
    with (
        pytest.raises(StoreError, match="nothing was written"),
        WorkFolder(tmp_path / "other", "task"),
    ):
        raise full
    assert not (tmp_path / ".other.work").exists()


def test_a_journal_that_cannot_be_written_keeps_its_lines(tmp_path, monkeypatch):
    write = os.pwrite
    with pytest.raises(StoreError, match="stays in"), WorkFolder(tmp_path / "out", "task") as work:
        work.finish("a")
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:5], at))
        work.finish("b")
    monkeypatch.undo()
    with WorkFolder(tmp_path / "out", "task") as work:
        assert list(work.parts()) == ["a"]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_journal_that_cannot_be_read_for_now_loses_nothing(tmp_path, monkeypatch, number):
    interrupt(tmp_path / "out", parts=("a", "b"))
    before = left(tmp_path / ".out.work")

    def fails(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(WorkFolder, "_recall", fails)
        with pytest.raises(StoreError), WorkFolder(tmp_path / "out", "task"):
            pass
    assert left(tmp_path / ".out.work") == before
    with WorkFolder(tmp_path / "out", "task") as work:
        assert {*work.parts()} == {"a", "b"}


def test_a_journal_without_room_for_its_first_line_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreError, match="too full"), WorkFolder(tmp_path / "out", "task"):
        pass
    assert left(tmp_path) == []


def test_two_processes_do_not_work_on_the_same(tmp_path):
    with WorkFolder(tmp_path / "out", "task") as work:
        with (
            pytest.raises(StoreError, match="Another process is making"),
            WorkFolder(tmp_path / "out", "task"),
        ):
            pytest.fail("the second one got in")
        work.finish("a", 1)
        discard_work(tmp_path / "out")
        assert work.finished("a") == 1
    interrupt(tmp_path / "out")
    discard_work(tmp_path / "out")
    discard_work(tmp_path / "out")
    assert left(tmp_path) == []


def test_a_folder_that_is_removed_while_it_is_opened_is_made_again(tmp_path, monkeypatch):
    """The process before finished between our making of its folder and our lock on it."""
    acquire, finished = FileLock.acquire, []

    def finish_first(self, *arguments, **settings):
        if not finished:
            finished.append(True)
            shutil.rmtree(tmp_path / ".out.work")
        return acquire(self, *arguments, **settings)

    monkeypatch.setattr(FileLock, "acquire", finish_first)
    with WorkFolder(tmp_path / "out", "task") as work:
        assert work.file("journal.jsonl").exists()
        with (
            pytest.raises(StoreError, match="Another process"),
            WorkFolder(tmp_path / "out", "task"),
        ):
            pytest.fail("the second one got in")


def test_what_a_kill_left_of_work_that_was_finished_is_removed_with_the_refusal(tmp_path):
    interrupt(tmp_path / "out")
    with ArtifactWriter(tmp_path / "out", kind="test") as writer:  # later than the work
        writer.write_array("numbers", np.arange(3))
    with pytest.raises(StoreError, match="exists already"):
        ArtifactWriter(tmp_path / "out", kind="test").check_target()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_work_that_is_to_replace_an_older_result_stays(tmp_path):
    with ArtifactWriter(tmp_path / "out", kind="test") as writer:
        writer.write_array("numbers", np.arange(3))
    past = (tmp_path / "out" / "manifest.json").stat().st_mtime - 10
    os.utime(tmp_path / "out" / "manifest.json", (past, past))
    interrupt(tmp_path / "out")
    with pytest.raises(StoreError, match="exists already"):
        ArtifactWriter(tmp_path / "out", kind="test").check_target()
    assert left(tmp_path) != []
