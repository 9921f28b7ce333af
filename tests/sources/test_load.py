import numpy as np
import pytest

from scr.errors import ConfigError, GraphError, SourceError
from scr.graph import Graph
from scr.sources import IngestOptions, load_graph
from scr.sources._formats import RECOGNIZED

# The graphs here are too small for a training node of every class.
pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")


@pytest.fixture
def bundle(tmp_path):
    generator = np.random.default_rng(0)
    np.savez(
        tmp_path / "toy.npz",
        edge_index=generator.integers(0, 60, (2, 200)),
        y=np.repeat(np.arange(3), 20),
        x=generator.normal(size=(60, 4)).astype(np.float32),
    )
    return tmp_path / "toy.npz"


def test_an_embedded_data_set_is_found_by_name():
    graph = load_graph("digits")
    assert (graph.num_nodes, graph.num_classes, graph.num_features) == (1797, 10, 64)
    assert not np.array_equal(load_graph("digits", split=1).train, graph.train)


def test_a_store_is_opened(bundle, tmp_path):
    graph = load_graph(bundle)
    graph.save(tmp_path / "store")
    assert load_graph(tmp_path / "store").fingerprint() == graph.fingerprint()


@pytest.mark.parametrize("make", ["nothing", "empty folder", "text file", "other npz", "not a zip"])
def test_what_is_not_recognized_is_told_what_would_be(tmp_path, make):
    path = tmp_path / ("x.npz" if make in ("other npz", "not a zip") else "x")
    if make == "empty folder":
        path.mkdir()
    elif make in ("text file", "not a zip"):
        path.write_text("hello")
    elif make == "other npz":
        np.savez(path, something=np.arange(3))
    with pytest.raises(SourceError) as caught:
        load_graph(path)
    if make == "not a zip":
        assert "cannot be read as an .npz" in str(caught.value)
    elif make == "nothing":
        assert "does not exist" in str(caught.value)
    else:
        assert all(line in str(caught.value) for line in RECOGNIZED)


def test_a_drawn_split_depends_on_seed_and_number_alone(bundle):
    first = load_graph(bundle, splits="per-class:2,3")
    assert [len(first.train), len(first.valid), len(first.test)] == [6, 9, 45]
    assert np.bincount(first.labels[first.train]).tolist() == [2, 2, 2]
    again = load_graph(bundle, splits="per-class:2,3", split=0)
    np.testing.assert_array_equal(first.train, again.train)
    by_number = load_graph(bundle, splits="per-class:2,3", split=2)
    by_seed = load_graph(bundle, options=IngestOptions(splits="per-class:2,3", seed=2))
    np.testing.assert_array_equal(by_number.train, by_seed.train)
    assert not np.array_equal(first.train, by_number.train)
    assert "per class with seed 2" in by_seed.steps[-1]


def test_a_random_split_has_the_shares_asked_for(bundle):
    graph = load_graph(bundle, splits="random:0.2,0.3")
    assert [len(graph.train), len(graph.valid), len(graph.test)] == [12, 18, 30]


def test_a_file_of_splits_wins_over_the_source(bundle, tmp_path):
    np.savez(tmp_path / "splits.npz", train_1=[3, 1], val_1=[2])
    graph = load_graph(bundle, splits=tmp_path / "splits.npz", split=1)
    assert graph.train.tolist() == [1, 3]
    assert len(graph.test) == 57
    with pytest.raises(SourceError, match="no split 0"):
        load_graph(bundle, splits=tmp_path / "splits.npz")


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("per-class:20", ConfigError),
        ("per-class:a,b", ConfigError),
        ("per-class:0.5,1", ConfigError),
        ("random:0.9,0.9", GraphError),
        ("per-class:0,1", GraphError),
        ("per-class:every", ConfigError),
        ("random:all", ConfigError),
        ("no-such-file.npz", SourceError),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(bundle, rule, error):
    with pytest.raises(error):
        load_graph(bundle, splits=rule)


def test_repeated_edges_are_merged_or_counted(tmp_path):
    edges = np.array([[0, 0, 1], [1, 1, 2]])
    np.savez(tmp_path / "g.npz", edge_index=edges, y=np.array([0, 1, 0]))
    assert load_graph(tmp_path / "g.npz").weights is None
    counted = load_graph(tmp_path / "g.npz", options=IngestOptions(drop_duplicates=False))
    np.testing.assert_array_equal(counted.adjacency().toarray(), [[0, 2, 0], [2, 0, 1], [0, 1, 0]])


def test_options_of_tables_are_refused_elsewhere(bundle):
    with pytest.raises(SourceError, match="not a folder of tables"):
        load_graph(bundle, options=IngestOptions(label_column="y"))


def test_only_the_splits_of_a_finished_graph_can_be_changed(bundle, tmp_path):
    load_graph(bundle).save(tmp_path / "store")
    with pytest.raises(SourceError, match="only the splits"):
        load_graph(tmp_path / "store", options=IngestOptions(symmetrize=False))
    with pytest.raises(SourceError, match="split 3"):
        load_graph(tmp_path / "store", split=3)
    assert len(load_graph(tmp_path / "store", splits="per-class:1,1").train) == 3


def test_a_features_file_replaces_those_of_any_source(bundle, tmp_path):
    np.save(tmp_path / "f.npy", np.ones((60, 2), np.float32))
    graph = load_graph(bundle, options=IngestOptions(features=tmp_path / "f.npy"))
    assert graph.num_features == 2
    np.save(tmp_path / "f.npy", np.ones((61, 2), np.float32))
    with pytest.raises(SourceError, match="expected 60 rows"):
        load_graph(bundle, options=IngestOptions(features=tmp_path / "f.npy"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.zeros((4, 2), np.float32)}, "Features have 4 rows"),
        ({"node_names": np.array(["a"] * 6)}, "The id 'a' is given to more than one node"),
        ({"y": np.array([0, 1, -7, 0, 1, 0])}, "The label of node 2 is -7"),
    ],
)
def test_a_graph_that_is_refused_is_named(tmp_path, changed, message):
    arrays = {"edge_index": np.array([[0, 1], [2, 3]]), "y": np.zeros(6, np.int64)}
    np.savez(tmp_path / "odd.npz", **arrays | changed)
    with pytest.raises(GraphError, match=rf"In `.*odd.npz`: {message}"):
        load_graph(tmp_path / "odd.npz")


def test_a_path_with_a_tilde_is_expanded(bundle, monkeypatch):
    monkeypatch.setenv("HOME", str(bundle.parent))
    assert isinstance(load_graph("~/toy.npz"), Graph)
