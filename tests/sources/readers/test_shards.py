"""Folders of shards: what says how many nodes there are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from scr.errors import SourceError
from scr.sources import load_graph
from scr.sources.readers._shards import read_shards


@pytest.fixture
def shards(tmp_path):
    """Two shards of a path over nodes 0 to 3; node 4 has no edge."""
    np.save(tmp_path / "edges-00000.npy", np.array([[0, 1], [1, 2]]))
    np.save(tmp_path / "edges-00001.npy", np.array([[2], [3]]))
    return tmp_path


def test_features_alone_say_how_many_nodes_there_are(shards):
    np.save(shards / "features.npy", np.ones((5, 2), np.float32))
    graph = load_graph(shards)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (5, 2, 0)
    assert graph.adjacency().toarray()[4].sum() == 0
    assert graph.labels.tolist() == [-1] * 5


def test_labels_alone_say_it_too(shards):
    np.save(shards / "labels.npy", np.array([0, 1, 0, -1, 1]))
    graph = load_graph(shards)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (5, 0, 2)


def test_neither_is_refused(shards):
    with pytest.raises(SourceError, match=r"neither `labels\.npy` nor"):
        load_graph(shards)


def test_different_lengths_are_refused(shards):
    np.save(shards / "features.npy", np.ones((5, 2), np.float32))
    np.save(shards / "labels.npy", np.array([0, 1, 0]))
    with pytest.raises(SourceError, match="5 rows of features and 3 labels"):
        load_graph(shards)


def test_shards_of_signed_and_unsigned_numbers_are_joined(shards):
    np.save(shards / "edges-00002.npy", np.array([[3], [4]], np.uint64))
    np.save(shards / "labels.npy", np.zeros(5, np.int64))
    assert read_shards(shards).edges.dtype == np.int64
    assert load_graph(shards).num_edges == 8


def test_two_edges_lie_as_those_of_the_other_shards(tmp_path):
    np.save(tmp_path / "edges-0.npy", np.array([[0, 1], [1, 2], [2, 3]]))
    np.save(tmp_path / "edges-1.npy", np.array([[3, 4], [4, 0]]))
    np.save(tmp_path / "labels.npy", np.zeros(5, np.int64))
    edges = np.asarray(read_shards(tmp_path).edges)
    assert edges.T.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]


def test_columns_of_parquet_shards_are_found_by_name(tmp_path):
    table = {"number": [7, 8], "target": [1, 2], "source": [0, 1]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "edges-0.parquet")
    np.save(tmp_path / "labels.npy", np.zeros(5, np.int64))
    assert np.asarray(read_shards(tmp_path).edges).tolist() == [[0, 1], [1, 2]]


def test_a_file_that_is_no_array_of_rows_is_one_sentence(shards):
    np.save(shards / "features.npy", np.float32(1))
    with pytest.raises(SourceError, match=r"features\.npy` has the shape \(\)"):
        load_graph(shards)
    np.savez(shards / "archive.npz", np.ones(3))
    (shards / "archive.npz").rename(shards / "edges-00002.npy")
    with pytest.raises(SourceError, match=r"edges-00002\.npy` cannot be read as an array"):
        load_graph(shards)
