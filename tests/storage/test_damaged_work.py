"""What is resumed is what was finished: damage in a work folder never becomes a result."""

import os
import shutil

import numpy as np
import pytest
from tests.ingest.test_stream import stream, write_shards
from tests.propagation.disk.test_out_of_core import chunks_of, stored

from scr.ingest import _row_writer as row_writer
from scr.propagation import propagate
from scr.propagation.disk import _joining_plan as joining_plan
from scr.propagation.disk import _plan as disk_plan
from scr.storage import WorkFolder
from scr.synth import SynthConfig, write_synth_shards, write_synth_store
from scr.synth import _writer as synth_writer

CONFIG = SynthConfig(nodes=300, edges=900, features=4, classes=3)


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "verified.json"  # which has times
    }


def interrupt(make, target, line):
    """Stop after a line of the journal; returns whether there were so many."""
    append, written = WorkFolder._append, []

    def stop(self, content):
        append(self, content)
        written.append(content)
        if len(written) == line:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkFolder, "_append", stop)
        patch.setattr(WorkFolder, "__exit__", lambda self, *_: self._close())  # as a kill does
        try:
            make(target)
        except KeyboardInterrupt:
            return True
    return False


def flip(path, generator):
    data = bytearray(path.read_bytes())
    if data:
        data[generator.integers(len(data))] ^= 1 << generator.integers(8)
    path.write_bytes(data)


def change_digit(path, generator):
    data = bytearray(path.read_bytes())
    digits = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
    if digits:
        data[generator.choice(digits)] = ord(str(generator.integers(10)))
    path.write_bytes(data)


def truncate(path, generator):
    os.truncate(path, generator.integers(path.stat().st_size + 1))


def zero(path, _generator):
    path.write_bytes(bytes(path.stat().st_size))


def append(path, generator):
    path.write_bytes(path.read_bytes() + generator.bytes(40))


def nest(path, _generator):
    path.write_bytes(b"[" * 100_000)


def remove(path, _generator):
    path.unlink()


def become_a_folder(path, _generator):
    path.unlink()
    path.mkdir()


DAMAGES = (flip, change_digit, truncate, zero, append, nest, remove, become_a_folder)


@pytest.fixture
def ingest(tmp_path, monkeypatch):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 256)
    source = write_shards(tmp_path / "source")
    return lambda store: stream(source, store)


@pytest.fixture
def shards(monkeypatch):
    monkeypatch.setattr(synth_writer, "SHARD_EDGES", 400)
    monkeypatch.setattr(synth_writer, "ROW_CHUNK", 64)
    monkeypatch.setattr("scr.synth._model.ROW_CHUNK", 64)
    monkeypatch.setattr(synth_writer, "RECORD_BYTES", 1)
    return lambda folder: write_synth_shards(CONFIG, folder)


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(row_writer, "CHECKPOINT_BYTES", 256)
    return lambda path: write_synth_store(CONFIG, path)


@pytest.fixture
def hops(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_plan, "SLAB_BYTES", (4000, 4000))
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)
    monkeypatch.setattr(joining_plan, "STRETCH_BYTES", 1000)
    monkeypatch.setattr(joining_plan, "STRETCH_SLABS", 1)
    chunks_of(monkeypatch, 1000)
    graph = stored(tmp_path, nodes=160, edges=400, columns=4)
    return lambda path: propagate(graph, hops=2, out=path)


@pytest.mark.filterwarnings("ignore:.*had changed since it was written")
@pytest.mark.parametrize("kind", ["ingest", "shards", "store", "hops"])
def test_the_result_is_that_of_undisturbed_work(kind, request, tmp_path, monkeypatch):
    make = request.getfixturevalue(kind)
    make(tmp_path / "undisturbed")
    expected = content(tmp_path / "undisturbed")
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cut is tested here
    generator, work, line, cases = np.random.default_rng(0), tmp_path / ".out.work", 0, 0
    while interrupt(make, tmp_path / "out", line := line + 1):
        for damage in generator.choice(len(DAMAGES), 3, replace=False):
            files = sorted(path for path in work.rglob("*") if path.is_file())
            DAMAGES[damage](files[generator.integers(len(files))], generator)
            make(tmp_path / "out")
            assert content(tmp_path / "out") == expected
            assert not work.exists()
            shutil.rmtree(tmp_path / "out")
            assert interrupt(make, tmp_path / "out", line)
            cases += 1
        shutil.rmtree(work)
    assert cases >= 18
