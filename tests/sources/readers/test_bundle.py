import numpy as np
import pytest
import scipy.sparse as sp

from scr.errors import GraphError, SourceError
from scr.sources import IngestOptions, load_graph

# The graphs here are too small for a training node of every class.
pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

FEATURES = sp.csr_array(np.array([[1, 0], [0, 2], [3, 4], [0, 0]], dtype=np.float32))
BUNDLE = {
    "edge_index": np.array([[0, 1, 2, 2], [1, 2, 2, 3]], dtype=np.int32),
    "y": np.array([0, 1, -1, 1]),
    "x_data": FEATURES.data,
    "x_indices": FEATURES.indices,
    "x_indptr": FEATURES.indptr,
    "x_shape": np.array(FEATURES.shape),
    "train_idx": np.array([0]),
    "val_idx": np.array([1]),
    "test_idx": np.array([3]),
}


def write(folder, **changes):
    arrays = {key: value for key, value in (BUNDLE | changes).items() if value is not None}
    np.savez(folder / "toy.npz", **arrays)
    return folder / "toy.npz"


def test_a_bundle_is_read_whole(tmp_path):
    graph = load_graph(write(tmp_path, label_names=np.array(["a", "b"])))
    assert graph.name == "toy"
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES.toarray())
    assert sp.issparse(graph.features)
    assert graph.class_names == ("a", "b")
    assert [graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()] == [[0], [1], [3]]
    assert "dropped 1 self-loops" in " ".join(graph.steps)


def test_dense_features_stay_dense(tmp_path):
    dense = {"x": FEATURES.toarray()} | {
        f"x_{p}": None for p in ("data", "indices", "indptr", "shape")
    }
    graph = load_graph(write(tmp_path, **dense))
    assert isinstance(graph.features, np.ndarray)
    np.testing.assert_array_equal(graph.features, FEATURES.toarray())


def test_direction_and_loops_are_kept_if_asked(tmp_path):
    options = IngestOptions(symmetrize=False, drop_self_loops=False)
    graph = load_graph(write(tmp_path), options=options)
    assert graph.directed
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)


def test_numbered_public_splits_are_unpacked(tmp_path):
    masks = {
        "train": [[1, 0, 0, 0], [0, 1, 0, 0]],
        "val": [[0, 1, 0, 0], [0, 0, 0, 1]],
        "test": [[0, 0, 0, 1], [1, 0, 0, 0]],
    }
    packed = {
        f"all_{k}_masks_packbits": np.packbits(np.array(m, bool), 1) for k, m in masks.items()
    }
    path = write(tmp_path, **packed)
    assert load_graph(path).train.tolist() == [0]
    graph = load_graph(path, split=1)
    assert [graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()] == [[1], [3], [0]]
    with pytest.raises(SourceError, match="splits 0 to 1; split 2"):
        load_graph(path, split=2)


def test_a_number_without_numbered_splits_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no numbered splits"):
        load_graph(write(tmp_path), split=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edge_index": np.array([[0], [4]])}, GraphError, "outside the graph"),
        ({"edge_index": np.array([[0], [-1]])}, GraphError, "outside the graph"),
        ({"edge_index": np.array([[0.5], [1]])}, SourceError, "whole numbers of shape"),
        ({"edge_index": np.arange(3)}, SourceError, r"shape \(3,\)"),
        ({"y": np.array([0.5, 1, 2, 3])}, SourceError, "-1 where unknown"),
        ({"y": np.array([0, 1, -7, 1])}, GraphError, "-7"),
        ({"x_data": np.array([1, np.nan, 1, 1], np.float32)}, GraphError, "nan"),
        ({"x_indptr": None}, SourceError, "no `x_indptr`"),
        ({"val_idx": np.array([0])}, GraphError, "overlap"),
        ({"val_idx": np.array([9])}, GraphError, "outside the graph"),
        ({"train_idx": np.array([], dtype=int)}, GraphError, "train split is empty"),
        ({"node_types": np.array(["a", "b"])}, SourceError, "has no `num_nodes`"),
    ],
)
def test_bad_bundles_are_refused(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        load_graph(write(tmp_path, **change))


def test_a_truncated_file_is_refused(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SourceError, match=r"cannot be read as an \.npz"):
        load_graph(path)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [
        ("cora", 2708, 5278, 1433, 7),
        ("pubmed", 19717, 44324, 500, 3),
        ("actor", 7600, 26659, 932, 5),
        ("wordnet", 117659, 183789, 7809, 45),
    ],
)
def test_shared_graphs_have_the_published_sizes(shared_data, name, nodes, edges, features, classes):
    graph = load_graph(shared_data / f"{name}.npz")
    found = graph.num_nodes, graph.num_undirected_edges, graph.num_features, graph.num_classes
    assert found == (nodes, edges, features, classes)
