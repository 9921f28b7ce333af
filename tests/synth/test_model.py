import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace

import numpy as np
import pytest
from tests.synth.graphs import synth_graph

from scr.errors import ConfigError, SCRError, SourceError, StoreError
from scr.graph import open_store
from scr.ingest import _row_writer as row_writer
from scr.sources import load_graph
from scr.storage import verify as verify_store
from scr.synth import SynthConfig, write_synth_shards, write_synth_store
from scr.synth import _writer as synth_writer
from scr.synth._model import ROW_CHUNK, SynthEdges, feature_blocks

CONFIG = SynthConfig(nodes=3000, edges=30_000, classes=5, features=8, seed=7)


@pytest.fixture(scope="module")
def graph():
    return synth_graph(CONFIG)


def edge_ends(graph):
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices


def test_equal_seeds_make_equal_graphs(graph):
    assert synth_graph(CONFIG).fingerprint() == graph.fingerprint()
    settings = {"nodes": 3000, "edges": 30_000, "classes": 5, "features": 8}
    assert synth_graph(**settings, seed=8).fingerprint() != graph.fingerprint()


def test_a_store_and_both_kinds_of_shards_hold_the_same_graph(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(row_writer, "LARGEST_BUCKET", 1 << 12)  # many, as a large graph has
    write_synth_store(CONFIG, tmp_path / "store")
    verify_store(tmp_path / "store")
    write_synth_shards(CONFIG, tmp_path / "npy")
    write_synth_shards(CONFIG, tmp_path / "parquet", kind="parquet")
    for name in ("store", "npy", "parquet"):
        assert load_graph(tmp_path / name).fingerprint() == graph.fingerprint(), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["npy", "parquet", "store"]


def test_chunks_do_not_change_the_edges():
    small = np.concatenate(list(SynthEdges(CONFIG).chunks(999)), axis=1)
    np.testing.assert_array_equal(small, np.asarray(SynthEdges(CONFIG)))


def test_classes_are_of_equal_size_and_nodes_in_no_order(graph):
    assert np.bincount(graph.labels).tolist() == [600] * 5
    # Neighboring numbers share a class as often as chance has it, give or take 5 deviations.
    same = np.mean(graph.labels[1:] == graph.labels[:-1])
    assert abs(same - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 3000)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_homophily_is_the_share_of_edges_within_a_class(homophily):
    config = SynthConfig(nodes=20_000, edges=50_000, classes=4, features=0, homophily=homophily)
    edges = np.asarray(SynthEdges(config))
    labels = synth_graph(config).labels
    found = np.mean(labels[edges[0]] == labels[edges[1]])
    assert abs(found - homophily) < 5 * np.sqrt(0.25 / 50_000)


def test_degrees_follow_a_power_law_with_the_exponent():
    config = SynthConfig(nodes=100_000, edges=1_000_000, classes=1, features=0, degree_exponent=2.5)
    edges = np.asarray(SynthEdges(config))
    degrees = np.bincount(edges.ravel(), minlength=config.nodes)
    # Hill's estimator of the tail: 1 / mean(log(d / d_min)) = exponent - 1.
    tail = np.sort(degrees)[-2000:]
    assert 1 + 1 / np.mean(np.log(tail / tail[0])) == pytest.approx(2.5, abs=0.15)
    equal = SynthConfig(nodes=100_000, edges=1_000_000, classes=1, features=0, degree_exponent=1e6)
    degrees = np.bincount(np.asarray(SynthEdges(equal)).ravel())
    assert degrees.var() == pytest.approx(degrees.mean(), rel=0.05)  # Poisson


def test_features_are_a_class_mean_of_the_length_asked_for_plus_unit_noise():
    graph = synth_graph(nodes=40_000, edges=10, classes=2, features=64, signal=3.0)
    for label in range(2):
        rows = graph.features[graph.labels == label]
        assert np.linalg.norm(rows.mean(axis=0)) == pytest.approx(3.0, rel=0.25)
        assert rows.std(axis=0).mean() == pytest.approx(1.0, abs=0.01)


def test_splits_have_the_shares_asked_for_and_cover_everything():
    graph = synth_graph(
        nodes=50_000, edges=10, features=0, label_fraction=0.02, valid_fraction=0.05
    )
    assert len(graph.train) == pytest.approx(1000, abs=160)
    assert len(graph.valid) == pytest.approx(2500, abs=250)
    assert len(graph.train) + len(graph.valid) + len(graph.test) == 50_000


def test_shift_makes_later_classes_more_common_in_training_alone():
    graph = synth_graph(nodes=100_000, edges=10, classes=3, features=0, shift=1.0)
    train = np.bincount(graph.labels[graph.train])
    assert train[2] / train[0] == pytest.approx(np.exp(2.0), rel=0.1)
    valid = np.bincount(graph.labels[graph.valid])
    assert valid[2] / valid[0] == pytest.approx(1.0, rel=0.1)


def test_float16_features_and_no_features_are_possible(tmp_path):
    config = SynthConfig(nodes=100, edges=200, classes=2, features=4, dtype="float16")
    write_synth_store(config, tmp_path / "half")
    assert open_store(tmp_path / "half").features.dtype == np.float16
    write_synth_store(SynthConfig(nodes=100, edges=1, classes=2, features=0), tmp_path / "bare")
    bare = open_store(tmp_path / "bare")
    assert bare.features is None
    assert bare.num_edges == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"nodes": 1},
        {"edges": 0},
        {"classes": 0},
        {"homophily": 1.5},
        {"label_fraction": 0.0},
        {"degree_exponent": 2.0},
        {"label_fraction": 0.5, "shift": 3.0},
        {"test_fraction": 1.0},
        {"label_fraction": 0.5, "test_fraction": 0.5, "shift": 0.0},
        {"seed": -1},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ConfigError, match=list(settings)[-1]):
        SynthConfig(**settings)


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise SourceError("anything but the disk")

    def full(*_):
        raise OSError(28, "No space left on device")

    for write in (write_synth_store, write_synth_shards):
        with monkeypatch.context() as patch:
            patch.setattr("scr.synth._writer.feature_blocks", fail)
            with pytest.raises(SCRError, match="anything but"):
                write(CONFIG, tmp_path / "out")
        assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr("scr.synth._writer.feature_blocks", full)
        with pytest.raises(SCRError, match=r"disk is too full .* what is finished stays"):
            write_synth_store(CONFIG, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == [".out.work"]
    write_synth_store(CONFIG, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_with_something_in_it_is_not_touched(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "photo.jpg").write_text("dear")
    for write in (write_synth_store, write_synth_shards):
        with pytest.raises(StoreError, match="exists already"):
            write(CONFIG, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["photo.jpg"]


def test_bad_shards_are_refused(tmp_path):
    np.save(tmp_path / "edges-0.npy", np.array([[0.5], [1.0]]))
    np.save(tmp_path / "labels.npy", np.array([0, 1]))
    with pytest.raises(SourceError, match="expected node numbers"):
        load_graph(tmp_path)
    np.save(tmp_path / "edges-0.npy", np.array([[0], [1]]))
    assert load_graph(tmp_path).num_edges == 2
    np.save(tmp_path / "features.npy", np.zeros((3, 1)))
    with pytest.raises(SourceError, match="3 rows of features and 2 labels"):
        load_graph(tmp_path)


def test_only_nodes_of_the_splits_keep_their_label_when_the_test_share_is_given(tmp_path):
    settings = {"nodes": 20_000, "edges": 100, "classes": 5, "features": 3, "seed": 2}
    whole = synth_graph(**settings, label_fraction=0.02, valid_fraction=0.01)
    config = SynthConfig(**settings, label_fraction=0.02, valid_fraction=0.01, test_fraction=0.03)
    sparse = synth_graph(config)
    np.testing.assert_array_equal(sparse.train, whole.train)
    np.testing.assert_array_equal(sparse.valid, whole.valid)
    assert len(sparse.test) == pytest.approx(600, abs=125)  # 5 deviations
    known = np.union1d(np.union1d(sparse.train, sparse.valid), sparse.test)
    np.testing.assert_array_equal(np.flatnonzero(sparse.labels >= 0), known)
    np.testing.assert_array_equal(sparse.labels[known], whole.labels[known])
    # Features are those of the true class, whether it is told or not.
    np.testing.assert_array_equal(sparse.features, whole.features)
    write_synth_store(config, tmp_path / "store")
    write_synth_shards(config, tmp_path / "shards")
    for name in ("store", "shards"):
        assert load_graph(tmp_path / name).fingerprint() == sparse.fingerprint(), name


def test_progress_counts_edges_and_rows_to_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(synth_writer, "SHARD_EDGES", 7000)
    for write in (write_synth_store, write_synth_shards):
        told = []
        write(
            CONFIG,
            tmp_path / write.__name__,
            on_progress=lambda *step, told=told: told.append(step),
        )
        edges = "fill buckets" if write is write_synth_store else "Drawing edges"
        for what, total in ((edges, 30_000), ("Drawing features", 3000)):
            done = [count for name, count, of in told if name == what and of == total]
            assert done == sorted(done)
            assert done[-1] == total


def test_threads_ahead_stop_when_the_caller_does():
    config = SynthConfig(nodes=10 * ROW_CHUNK, edges=1, features=1)
    blocks = feature_blocks(config, np.zeros(config.nodes, np.int64))
    next(blocks)
    blocks.close()
    assert not [
        t for t in threading.enumerate() if t.name.startswith("ThreadPoolExecutor") and t.is_alive()
    ]


class TestKilledShards:
    """Shards that were killed go on, and end with the bytes of an undisturbed run."""

    SMALL = SynthConfig(nodes=3 * ROW_CHUNK + 17, edges=40_000, classes=3, features=5, seed=9,
                        test_fraction=0.1)  # fmt: skip

    @pytest.fixture(autouse=True)
    def _small_shards(self, monkeypatch):
        monkeypatch.setattr(synth_writer, "SHARD_EDGES", 9000)

    def killed_at(self, folder, what, count, kind="npy"):
        """Run in a process that kills itself when so much of a step is done."""
        script = f"""
import os, signal
from scr.synth import _writer as synth_writer
from scr.synth._model import SynthConfig
synth_writer.SHARD_EDGES = {synth_writer.SHARD_EDGES}
synth_writer.RECORD_BYTES = 1
# One after the other: a thread that writes ahead may be anywhere when it is killed.
synth_writer.map_in_order = lambda task, items, **_: map(task, items)
def told(what, done, total):
    if what == {what!r} and done >= {count}:
        os.kill(os.getpid(), signal.SIGKILL)
config = SynthConfig(**{asdict(self.SMALL)!r})
synth_writer.write_synth_shards(config, {str(folder)!r}, kind={kind!r}, on_progress=told)
"""
        done = subprocess.run([sys.executable, "-c", script], check=False)
        assert done.returncode == -signal.SIGKILL
        assert not folder.exists()

    @staticmethod
    def content(folder):
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    @pytest.mark.parametrize("kind", ["npy", "parquet"])
    def test_they_end_with_the_same_bytes(self, tmp_path, kind):
        self.killed_at(tmp_path / "out", "Drawing edges", 18_000, kind)
        kept = list((tmp_path / ".out.work" / "shards").glob(f"edges-*.{kind}"))
        assert len(kept) == 2
        before = {path: path.stat().st_mtime_ns for path in kept}
        self.killed_at(tmp_path / "out", "Drawing features", ROW_CHUNK, kind)
        assert {path: path.stat().st_mtime_ns for path in kept} == before  # not made again
        told = []
        write_synth_shards(
            self.SMALL, tmp_path / "out", kind=kind, on_progress=lambda *step: told.append(step)
        )
        rows = [done for what, done, _ in told if what == "Drawing features"]
        assert rows[0] > ROW_CHUNK  # the first block was there
        write_synth_shards(self.SMALL, tmp_path / "undisturbed", kind=kind)
        assert self.content(tmp_path / "out") == self.content(tmp_path / "undisturbed")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "undisturbed"]

    def test_a_full_disk_keeps_what_is_finished(self, tmp_path, monkeypatch):
        def full(descriptor):
            if (tmp_path / ".out.work" / "shards" / "edges-00002.npy").exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fdatasync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreError, match=r"too full to write .* what is finished stays"):
                write_synth_shards(self.SMALL, tmp_path / "out")
        kept = list((tmp_path / ".out.work" / "shards").glob("edges-*.npy"))
        assert len(kept) == 2  # the third was not recorded
        write_synth_shards(self.SMALL, tmp_path / "out")
        write_synth_shards(self.SMALL, tmp_path / "undisturbed")
        assert self.content(tmp_path / "out") == self.content(tmp_path / "undisturbed")

    def test_another_config_starts_anew(self, tmp_path):
        self.killed_at(tmp_path / "out", "Drawing features", ROW_CHUNK)
        other = replace(self.SMALL, seed=10)
        write_synth_shards(other, tmp_path / "out")
        write_synth_shards(other, tmp_path / "undisturbed")
        assert self.content(tmp_path / "out") == self.content(tmp_path / "undisturbed")

    def test_a_torn_end_of_the_features_is_made_again(self, tmp_path):
        self.killed_at(tmp_path / "out", "Drawing features", 2 * ROW_CHUNK)
        (torn,) = (tmp_path / ".out.work").glob("features*")
        write_synth_shards(self.SMALL, tmp_path / "undisturbed")
        for size in (ROW_CHUNK * 5 * 4 + 1000, 60):  # within a block, within the header
            os.truncate(torn, size)
            shutil.copytree(tmp_path / ".out.work", tmp_path / f".{size}.work")
            write_synth_shards(self.SMALL, tmp_path / f"{size}")
            assert self.content(tmp_path / f"{size}") == self.content(tmp_path / "undisturbed")
