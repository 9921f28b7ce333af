"""Bytes in order, through the page cache and past it: the file is what was written, always."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.storage import SequentialWriter, _sequential_writer

PAGE = _sequential_writer.PAGE
BEFORE = bytes(range(256)) * 64
"""What the file holds before: four pages."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages are many bytes here."""
    monkeypatch.setattr(_sequential_writer, "DIRECT_BYTES", 2 * PAGE)
    monkeypatch.setattr(_sequential_writer, "BUFFER_BYTES", 3 * PAGE)


def placed(data: bytes, offset: int | None) -> memoryview:
    """Bytes that lie in their page of memory as they will in the file; none: anywhere."""
    if offset is None:
        return memoryview(data)
    memory = _sequential_writer.page_buffer(offset % PAGE + len(data))[offset % PAGE :]
    memory[:] = np.frombuffer(data, np.uint8)
    return memory.data


def written(
    file: Path, offset: int, parts: list[int | None], expected: int, *, in_place: bool = False
) -> tuple[bytes, bytes]:
    """The file after parts of so many bytes, with a sync for each None, and what it should be."""
    file.write_bytes(BEFORE)
    content = bytearray(BEFORE)
    rng = np.random.default_rng(0)
    with file.open("r+b") as stream:
        writer = SequentialWriter(file, stream.fileno(), offset, expected)
        with closing(writer):
            for size in parts:
                if size is None:
                    writer.sync()
                    assert file.read_bytes()[: max(offset, len(BEFORE))] == bytes(
                        content[: max(offset, len(BEFORE))]
                    )
                    continue
                data = rng.bytes(size)
                writer.write(placed(data, offset if in_place else None))
                content[offset : offset + size] = data
                offset += size
            writer.sync()
    return file.read_bytes(), bytes(content)


@given(
    offset=st.integers(0, len(BEFORE)),
    parts=st.lists(st.one_of(st.none(), st.integers(0, 5 * PAGE)), max_size=8),
    expected=st.sampled_from([0, 1 << 20]),
    in_place=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_file_holds_what_was_written_and_nothing_else_changes(
    tmp_path_factory: pytest.TempPathFactory,
    offset: int,
    parts: list[int | None],
    expected: int,
    in_place: bool,
) -> None:
    file = tmp_path_factory.mktemp("file") / "file"
    found, content = written(file, offset, parts, expected, in_place=in_place)
    assert found == content


@pytest.mark.parametrize(("in_place", "pages"), [(True, 9), (False, 0)])
def test_bytes_that_lie_as_in_the_file_are_written_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool, pages: int
) -> None:
    memory = _sequential_writer.page_buffer(11 * PAGE)
    memory[:] = 7
    direct = []
    write_at = _sequential_writer.write_at

    def watched(descriptor: int, data: memoryview, offset: int) -> int:
        count = write_at(descriptor, data, offset)
        if np.may_share_memory(np.frombuffer(data, np.uint8), memory):
            direct.append(count)
        return count

    monkeypatch.setattr(_sequential_writer, "write_at", watched)
    data = memory[100 if in_place else 101 :][: 10 * PAGE]
    with (tmp_path / "file").open("w+b") as stream:
        writer = SequentialWriter(tmp_path / "file", stream.fileno(), 100, 1 << 20)
        with closing(writer):
            writer.write(data.data)
            writer.sync()
    assert sum(direct) == pages * PAGE
    assert (tmp_path / "file").read_bytes() == bytes(100) + bytes([7]) * (10 * PAGE)


@pytest.mark.parametrize(("expected", "parts", "direct"), [
    (0, [PAGE], 0),
    (1 << 20, [PAGE], 1),
    (0, [2 * PAGE, 1], 1),
])  # fmt: skip
def test_many_bytes_go_past_the_cache_and_few_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int, parts: list[int], direct: int
) -> None:
    opened = []
    open_direct = _sequential_writer.open_direct

    def watched(path: Path, flags: int) -> int | None:
        opened.append(path)
        return open_direct(path, flags)

    monkeypatch.setattr(_sequential_writer, "open_direct", watched)
    written(tmp_path / "file", 0, [*parts], expected)
    assert len(opened) == direct


def test_a_disk_without_such_writes_is_written_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = _sequential_writer.open_direct

    def refusing(path: Path, flags: int) -> int | None:
        # A descriptor that cannot be written is what a disk is that refuses such writes.
        return plain(path, os.O_RDONLY)

    monkeypatch.setattr(_sequential_writer, "open_direct", refusing)
    found, content = written(tmp_path / "refused", 100, [PAGE, None, 7 * PAGE], 1 << 20)
    assert found == content
    monkeypatch.setattr(_sequential_writer, "open_direct", lambda *_: None)
    found, content = written(tmp_path / "unknown", 100, [PAGE, None, 7 * PAGE], 1 << 20)
    assert found == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_at_the_latest_when_synced() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        with (
            closing(SequentialWriter(Path("/dev/full"), descriptor, 0, 1 << 20)) as writer,
            pytest.raises(OSError, match="No space left"),
        ):
            for _ in range(3):
                writer.write(memoryview(bytes(4 * PAGE)))
            writer.sync()
    finally:
        os.close(descriptor)
