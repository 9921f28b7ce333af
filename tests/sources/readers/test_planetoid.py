import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from scr.errors import SourceError
from scr.sources import load_graph
from scr.sources.readers._planetoid import planetoid_prefix, read_planetoid

# The graphs here are too small for a training node of every class.
pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")


def write_toy(folder, test_index=(5, 3), name="toy", **changes):
    """Three known rows (one of them labeled for training) and test rows 3 and 5; 4 is missing."""
    known, tested = np.array([[1.0, 0], [0, 2], [3, 0]]), np.array([[0, 5.0], [0, 4]])
    parts = {
        "x": sp.csr_matrix(known[:1]),
        "y": np.array([[1, 0]]),
        "allx": sp.csr_matrix(known),
        "ally": np.array([[1, 0], [0, 1], [0, 1]]),
        "tx": sp.csr_matrix(tested),
        "ty": np.array([[1, 0], [0, 1]]),
        "graph": {0: [1, 2], 1: [0], 2: [0, 5], 3: [], 4: [], 5: [2]},
    } | changes
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{row}\n" for row in test_index))
    return folder / f"ind.{name}"


def test_rows_of_tx_go_where_the_index_says(tmp_path):
    raw = read_planetoid(write_toy(tmp_path))
    expected = [[1, 0], [0, 2], [3, 0], [0, 4], [0, 0], [0, 5]]
    np.testing.assert_array_equal(raw.features.toarray(), expected)
    np.testing.assert_array_equal(raw.labels, [0, 1, 1, 1, -1, 0])
    np.testing.assert_array_equal(raw.train, [0])
    np.testing.assert_array_equal(raw.valid, [1, 2])
    np.testing.assert_array_equal(raw.test, [3, 5])
    assert raw.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0], [2, 5], [5, 2]]
    assert "1 nodes have no row" in raw.notes[0]


def test_a_folder_a_prefix_or_any_file_of_it_lead_to_the_same_graph(tmp_path):
    prefix = write_toy(tmp_path)
    for path in (tmp_path, prefix, tmp_path / "ind.toy.allx", tmp_path / "ind.toy.test.index"):
        assert planetoid_prefix(path) == prefix


def test_two_graphs_in_a_folder_must_be_told_apart(tmp_path):
    write_toy(tmp_path)
    write_toy(tmp_path, name="other")
    with pytest.raises(SourceError, match=r"ind\.other, ind\.toy"):
        load_graph(tmp_path)
    assert load_graph(tmp_path / "ind.toy").num_nodes == 6


@pytest.mark.parametrize("part", ["x", "graph", "ty", "test.index"])
def test_a_missing_file_is_named(tmp_path, part):
    prefix = write_toy(tmp_path)
    (tmp_path / f"ind.toy.{part}").unlink()
    with pytest.raises(SourceError, match=f"ind.toy.{part}"):
        read_planetoid(prefix)


@pytest.mark.parametrize("index", [(5,), (5, 5), (2, 3), (3, 99)])
def test_an_index_that_does_not_fit_is_refused(tmp_path, index):
    with pytest.raises(SourceError, match="2 different rows from 3 to 5"):
        read_planetoid(write_toy(tmp_path, test_index=index))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": [1, 2]}, "holds a list"),
        ({"graph": dict.fromkeys(range(6), "ab")}, "neighbors by number"),
        ({"ally": np.eye(2)}, "ind.toy.ally"),
        ({"tx": sp.csr_matrix(np.eye(2, 3))}, "ind.toy.tx"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(tmp_path, change, message):
    with pytest.raises(SourceError, match=message):
        read_planetoid(write_toy(tmp_path, **change))


def test_raw_cora_is_the_cora_of_the_bundle(shared_data):
    raw = load_graph(shared_data / "raw" / "planetoid")
    assert raw.fingerprint() == load_graph(shared_data / "cora.npz").fingerprint()
    assert raw.num_undirected_edges == 5278


def test_raw_cora_is_what_pyg_reads(shared_data, tmp_path):
    planetoid = pytest.importorskip("torch_geometric.io.planetoid")
    for file in (shared_data / "raw" / "planetoid").iterdir():
        shutil.copy(file, tmp_path)
    data = planetoid.read_planetoid_data(str(tmp_path), "cora")
    graph = load_graph(tmp_path)
    np.testing.assert_array_equal(graph.features.toarray(), data.x.numpy())
    np.testing.assert_array_equal(graph.labels, data.y.numpy())
    np.testing.assert_array_equal(graph.test, np.flatnonzero(data.test_mask.numpy()))
    np.testing.assert_array_equal(graph.valid, np.flatnonzero(data.val_mask.numpy()))
    # PyG lists the edges by target; the graph is undirected, so that is our order reversed.
    listed = graph.indices, np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    np.testing.assert_array_equal(np.stack(listed), data.edge_index.numpy())
