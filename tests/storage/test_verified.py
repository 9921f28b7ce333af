from __future__ import annotations

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import xxhash
from tests.forging import flip

from scr.errors import StoreError
from scr.storage import (
    FAST,
    ArtifactWriter,
    checksums,
    is_verified,
    open_array,
    read_manifest,
    verify,
    verify_once,
    vouch,
)
from scr.storage import _manifest as manifests
from scr.storage import _verified as verified


def write(path, **arrays):
    with ArtifactWriter(path, kind="numbers") as writer:
        for name, array in (arrays or {"values": np.arange(1000)}).items():
            writer.write_array(name, array)
        writer.metadata["names"] = ["a", "b"]
    return path


@pytest.fixture
def reads(monkeypatch):
    """Names of the arrays of which chunks were read for their checksums."""
    names, look_at = [], verified._look_at

    def counted(name, *rest):
        names.append(name)
        return look_at(name, *rest)

    monkeypatch.setattr(verified, "_look_at", counted)
    return names


def use(path):
    verify_once(read_manifest(path))


def test_what_was_written_is_not_read_again(tmp_path, reads):
    path = write(tmp_path / "a")
    use(path)
    use(path)
    assert not reads


def test_checksums_of_both_kinds_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "CHUNK_BYTES", 3000)
    numbers = np.arange(1000)
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        writer.write_array("plain", numbers)
        writer.write_array("fast", numbers, like=FAST)
    entries, data = read_manifest(tmp_path / "a").arrays, numbers.tobytes()
    chunks = [data[at : at + 3000] for at in (0, 3000, 6000)]
    by_blake = [hashlib.blake2b(chunk, digest_size=8).hexdigest() for chunk in chunks]
    assert list(entries["plain"].checksums) == by_blake
    assert list(entries["fast"].checksums) == [xxhash.xxh3_128_hexdigest(each) for each in chunks]
    verify(tmp_path / "a")
    for name in ("plain", "fast"):
        file = tmp_path / "a" / f"{name}.npy"
        flip(file, -1)
        with pytest.raises(StoreError, match=f"{name}.npy` has changed .* chunk 2 of 3"):
            verify(tmp_path / "a")
        flip(file, -1)


def test_a_copy_is_read_once(tmp_path, reads):
    copy = shutil.copytree(write(tmp_path / "a"), tmp_path / "b")
    assert not is_verified(read_manifest(copy))
    use(copy)
    assert reads == ["values"]
    use(copy)
    assert reads == ["values"]


def test_a_moved_artifact_is_not_read(tmp_path, reads):
    write(tmp_path / "a").rename(tmp_path / "b")
    use(tmp_path / "b")
    assert not reads


@pytest.mark.parametrize("name", ["values.npy", "manifest.json", "verified.json"])
def test_what_was_touched_is_read_once(tmp_path, reads, name):
    path = write(tmp_path / "a")
    if name == "verified.json":
        (path / name).unlink()
    elif name == "manifest.json":
        (path / name).write_text((path / name).read_text() + "\n")
    else:
        (path / name).touch()
    use(path)
    use(path)
    assert reads == ["values"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, "\x00"])
def test_a_record_that_says_nothing_costs_a_reading(tmp_path, reads, text):
    path = write(tmp_path / "a")
    (path / "verified.json").write_text(text)
    use(path)
    use(path)
    assert reads == ["values"]


def test_where_no_record_can_be_written_every_process_reads_once(tmp_path, reads, monkeypatch):
    path = write(tmp_path / "a")
    (path / "verified.json").unlink()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(verified, "open_descriptor", refuse)
    use(path)
    use(path)
    assert reads == ["values"]
    assert not (path / "verified.json").exists()
    verified._unwritten.clear()  # as in the next process
    use(path)
    assert reads == ["values", "values"]


def test_a_record_is_never_written_through_a_link(tmp_path):
    path, mine = write(tmp_path / "a"), tmp_path / "mine.txt"
    mine.write_text("mine")
    (path / "verified.json").unlink()
    (path / "verified.json").symlink_to(mine)
    use(path)
    assert mine.read_text() == "mine"
    assert not (path / "verified.json").is_symlink()


def test_damage_right_after_writing_is_seen(tmp_path):
    # Times of files have ticks of some milliseconds; 30 files fall into every part of one.
    for number in range(30):
        path = write(tmp_path / str(number), values=np.arange(4))
        with (path / "values.npy").open("r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            stream.write(b"\1")
        with pytest.raises(StoreError, match="has changed since it was written: chunk 0 of 1"):
            use(path)


def test_other_names_of_files_that_are_removed_change_their_times(tmp_path, reads):
    file = tmp_path / "part.npy"
    np.save(file, np.arange(10))
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        entry = manifests.describe(np.load(file, mmap_mode="r"))
        writer.adopt_array("values", file, entry)
    file.unlink()
    assert not is_verified(read_manifest(tmp_path / "a"))
    vouch(tmp_path / "a")
    use(tmp_path / "a")
    assert not reads


def test_chunks_are_named_in_order_whatever_thread_finds_them(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "CHUNK_BYTES", 64)
    monkeypatch.setattr(verified, "default_threads", lambda: 4)
    path = write(tmp_path / "a")
    for position in (-1, -700, -7000):
        flip(path / "values.npy", position)
    with pytest.raises(StoreError, match="chunk 15 of 125"):  # 8,000 - 7,000 bytes, by 64
        use(path)


def test_pieces_repeat_the_number_before_them(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "CHUNK_BYTES", 64)
    monkeypatch.setattr(verified, "_PIECE_BYTES", 16)
    monkeypatch.setattr(verified, "default_threads", lambda: 1)
    seen = {"values": [], "texts": []}

    class Content:
        def piece(self, name, values, start):
            seen[name].append((start, values.tolist()))

        def whole(self):
            seen["whole"] = True

    verify(write(tmp_path / "a", values=np.arange(9), texts=np.array(["ab", "c"])), Content())
    assert seen["values"] == [(0, [0, 1]), (1, [1, 2, 3]), (3, [3, 4, 5]), (5, [5, 6, 7]),
                              (7, [7, 8])]  # fmt: skip
    assert seen["texts"] == [(0, [97, 98, 99, 0])]
    assert seen["whole"]


def test_every_checksum_of_the_manifest_is_asked_for(tmp_path):
    path = write(tmp_path / "a")
    content = json.loads((path / "manifest.json").read_text())
    content["arrays"]["values"]["checksums"] = []
    (path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="lacks checksums of `values`"):
        use(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes": 7999}, {"shape": [-1000]}, {"shape": [10**30]}, {"shape": "x"}, {"dtype": "?x"},
        {"dtype": 3}, {"shape": [float("inf")]}, {"checksums": 4},
    ],
)  # fmt: skip
def test_an_entry_that_no_array_has_is_one_sentence(tmp_path, changes):
    path = write(tmp_path / "a")
    content = json.loads((path / "manifest.json").read_text())
    content["arrays"]["values"] |= changes
    (path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="not a manifest of scr, or is damaged"):
        use(path)


def test_altered_metadata_are_told(tmp_path):
    path = write(tmp_path / "a")
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"b"', '"c"'))
    with pytest.raises(StoreError, match="is damaged"):
        use(path)


def test_manifests_without_a_checksum_of_their_metadata_are_read(tmp_path):
    path = write(tmp_path / "a")
    content = json.loads((path / "manifest.json").read_text())
    del content["metadata_checksum"]
    (path / "manifest.json").write_text(json.dumps(content))
    use(path)
    assert read_manifest(path).metadata == {"names": ["a", "b"]}


@pytest.fixture
def linked(tmp_path):
    file = tmp_path / "elsewhere" / "x.npy"
    file.parent.mkdir()
    np.save(file, np.arange(20.0))
    with ArtifactWriter(tmp_path / "a", kind="numbers") as writer:
        writer.link_array("values", np.load(file, mmap_mode="r"))
    return tmp_path / "a", file


def test_a_linked_file_is_in_the_record_too(linked, reads):
    path, file = linked
    use(path)
    assert not reads
    file.touch()
    use(path)
    assert reads == ["values"]
    np.save(file, np.arange(20.0)[::-1])
    with pytest.raises(StoreError, match=r"x\.npy` has changed since it was written"):
        use(path)


def point_at(path, file, **changes):
    content = json.loads((path / "manifest.json").read_text())
    content["arrays"]["values"] |= {"file": str(file), **changes}
    (path / "manifest.json").write_text(json.dumps(content))


def test_a_manifest_cannot_point_at_a_file_whose_content_it_does_not_know(linked, tmp_path):
    path, _ = linked
    secret = tmp_path / "secret.npy"
    np.save(secret, np.full(20, 42.0))
    point_at(path, secret)
    with pytest.raises(StoreError, match=r"secret\.npy` has changed since it was written"):
        use(path)


@pytest.mark.parametrize(
    "odd", ["x.npy", "./x.npy", "/tmp/../tmp/x.npy", "/tmp//x.npy", "/tmp/x.npy\0", "", "~/x.npy"]
)
def test_only_whole_plain_paths_are_followed(linked, odd):
    path, _ = linked
    point_at(path, odd)
    with pytest.raises(StoreError, match="is not a whole path"):
        use(path)


@pytest.mark.parametrize("name", ["manifest.json", "verified.json"])
def test_a_device_is_not_read_to_its_end(tmp_path, reads, name):
    path = write(tmp_path / "a")
    (path / name).unlink()
    (path / name).symlink_to("/dev/zero")
    if name == "verified.json":
        use(path)
        assert reads == ["values"]
        return
    with pytest.raises(StoreError, match="is damaged"):
        use(path)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
@pytest.mark.parametrize("is_linked", [True, False])
def test_only_regular_files_are_opened(linked, tmp_path, kind, is_linked):
    path, file = linked
    if not is_linked:
        path = write(tmp_path / "b")
        file = path / "values.npy"
    file.unlink()
    (os.mkfifo if kind == "pipe" else os.mkdir)(file)
    with pytest.raises(StoreError, match=str(file)):
        open_array(read_manifest(path), "values")
    with pytest.raises(StoreError, match=str(file)):
        use(path)


def test_an_array_by_columns_is_refused(tmp_path):
    path = write(tmp_path / "a", values=np.arange(6).reshape(2, 3))
    np.save(path / "values.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    with pytest.raises(StoreError, match="columns instead of rows"):
        use(path)


def test_the_checksum_of_all_pieces_is_that_of_the_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(verified, "_PIECE_BYTES", 24)
    array = np.arange(1000, dtype=np.float16).reshape(10, 100)
    path = write(tmp_path / "a", values=array)
    assert list(verify(path).arrays["values"].checksums) == checksums(array)
