import numpy as np
import pytest
import scipy.sparse as sp

from scr.errors import SourceError
from scr.sources import load_graph
from scr.sources.readers._gnn_benchmark import read_gnn_benchmark

ADJACENCY = sp.csr_matrix(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float32))
FEATURES = sp.csr_matrix(np.array([[1, 0], [0, 2], [3, 4]], dtype=np.float32))
LABELS = np.array([1, 0, 1], dtype=np.int32)


def parts(prefix, matrix, separator):
    names = ("data", "indices", "indptr")
    return {f"{prefix}{separator}{name}": getattr(matrix, name) for name in names} | {
        f"{prefix}{separator}shape": matrix.shape
    }


SPELLINGS = {
    "parts": {**parts("adj", ADJACENCY, "_"), **parts("attr", FEATURES, "_"), "labels": LABELS},
    "dots": {
        **parts("adj_matrix", ADJACENCY, "."),
        **parts("attr_matrix", FEATURES, "."),
        "labels": LABELS,
    },
    "pickles": {
        "adj_matrix": np.array(ADJACENCY, dtype=object),
        "node_attr": np.array(FEATURES, dtype=object),
        "node_label": LABELS,
    },
    "dense": {**parts("adj", ADJACENCY, "_"), "attr_matrix": FEATURES.toarray(), "labels": LABELS},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_the_format_is_the_same_graph(tmp_path, spelling):
    np.savez(tmp_path / "g.npz", **SPELLINGS[spelling])
    graph = load_graph(tmp_path / "g.npz")
    expected = ((ADJACENCY + ADJACENCY.T) > 0).toarray()
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    found = graph.features if spelling == "dense" else graph.features.toarray()
    np.testing.assert_array_equal(found, FEATURES.toarray())
    np.testing.assert_array_equal(graph.labels, LABELS)


def test_names_in_pickled_dictionaries_are_read(tmp_path):
    names = {
        "idx_to_node": np.array({0: "n0", 1: "n1", 2: "n2"}, dtype=object),
        "idx_to_class": np.array({0: "red", 1: "blue"}, dtype=object),
    }
    np.savez(tmp_path / "g.npz", **SPELLINGS["parts"], **names)
    graph = load_graph(tmp_path / "g.npz")
    assert graph.class_names == ("red", "blue")
    assert graph.ids.tolist() == ["n0", "n1", "n2"]


def test_titles_that_repeat_are_not_ids(tmp_path):
    np.savez(tmp_path / "g.npz", **SPELLINGS["parts"], node_names=np.array(["a", "a", "b"]))
    assert load_graph(tmp_path / "g.npz").ids is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_shape": (3, 4)}, "not a square"),
        ({"adj_shape": (9, 9)}, "do not fit its shape"),
        ({"adj_indices": np.array([0, 1, 7])}, "outside its shape"),
        ({"adj_indices": None}, "no `adj_indices`"),
        ({"labels": np.array([0.5, 1, 2])}, "one whole number per node"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    arrays = {k: v for k, v in (SPELLINGS["parts"] | change).items() if v is not None}
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(SourceError, match=message):
        read_gnn_benchmark(tmp_path / "g.npz")


def test_raw_amazon_photo_is_that_of_the_bundle(shared_data):
    raw = load_graph(shared_data / "raw" / "gnn-benchmark" / "amazon_photo.npz")
    assert raw.fingerprint() == load_graph(shared_data / "amazon_photo.npz").fingerprint()
    assert raw.num_undirected_edges == 119_081
