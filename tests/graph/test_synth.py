import numpy as np
import pytest

from scr.errors import ConfigError, SourceError, StoreError
from scr.graph import buckets
from scr.graph.sources import load_graph
from scr.graph.store import open_store, verify_store
from scr.graph.synth import SynthConfig, edge_chunks, synth_graph
from scr.graph.synth_writer import write_synth_shards, write_synth_store

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
    monkeypatch.setattr(buckets, "BUCKET_KEYS", 1 << 12)  # many buckets, as a large graph has
    write_synth_store(CONFIG, tmp_path / "store")
    verify_store(tmp_path / "store")
    write_synth_shards(CONFIG, tmp_path / "npy")
    write_synth_shards(CONFIG, tmp_path / "parquet", kind="parquet")
    for name in ("store", "npy", "parquet"):
        assert load_graph(tmp_path / name).fingerprint() == graph.fingerprint(), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["npy", "parquet", "store"]


def test_chunks_do_not_change_the_edges():
    small = np.concatenate(list(edge_chunks(CONFIG, chunk=999)), axis=1)
    np.testing.assert_array_equal(small, np.concatenate(list(edge_chunks(CONFIG)), axis=1))


def test_classes_are_of_equal_size_and_nodes_in_no_order(graph):
    assert np.bincount(graph.labels).tolist() == [600] * 5
    # Neighboring numbers share a class as often as chance has it, give or take 5 deviations.
    same = np.mean(graph.labels[1:] == graph.labels[:-1])
    assert abs(same - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 3000)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_homophily_is_the_share_of_edges_within_a_class(homophily):
    config = SynthConfig(nodes=20_000, edges=50_000, classes=4, features=0, homophily=homophily)
    edges = np.concatenate(list(edge_chunks(config)), axis=1)
    labels = synth_graph(config).labels
    found = np.mean(labels[edges[0]] == labels[edges[1]])
    assert abs(found - homophily) < 5 * np.sqrt(0.25 / 50_000)


def test_degrees_follow_a_power_law_with_the_exponent():
    config = SynthConfig(nodes=100_000, edges=1_000_000, classes=1, features=0, degree_exponent=2.5)
    edges = np.concatenate(list(edge_chunks(config)), axis=1)
    degrees = np.bincount(edges.ravel(), minlength=config.nodes)
    # Hill's estimator of the tail: 1 / mean(log(d / d_min)) = exponent - 1.
    tail = np.sort(degrees)[-2000:]
    assert 1 + 1 / np.mean(np.log(tail / tail[0])) == pytest.approx(2.5, abs=0.15)
    equal = SynthConfig(nodes=100_000, edges=1_000_000, classes=1, features=0, degree_exponent=1e6)
    degrees = np.bincount(np.concatenate(list(edge_chunks(equal)), axis=1).ravel())
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
        {"seed": -1},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ConfigError, match=list(settings)[-1]):
        SynthConfig(**settings)


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scr.graph.synth_writer.feature_blocks", fail)
    for write in (write_synth_store, write_synth_shards):
        with pytest.raises(StoreError, match="cannot be written"):
            write(CONFIG, tmp_path / "out")
        assert list(tmp_path.iterdir()) == []


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
