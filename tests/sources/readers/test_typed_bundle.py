"""Bundles of several types, written by NumPy from random typed graphs."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.typed_graphs import typed_inputs

from scr.errors import GraphError, SourceError
from scr.graph import Graph
from scr.sources import IngestOptions, load_graph

pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

FEATURES = sp.csr_array(np.array([[1, 0, 2], [0, 0, 3], [4, 0, 0]], np.float32))
BUNDLE = {
    "node_types": np.array(["author", "paper"]),
    "num_nodes": np.array([2, 3]),
    "target_type": np.array("paper"),
    "rel:author:writes:paper": np.array([[0, 1, 1], [0, 0, 2]]),
    "rel:paper:cites:paper": np.array([[0, 1, 1], [1, 2, 1]], np.int32),
    **{f"x:paper:{part}": getattr(FEATURES, part) for part in ("data", "indices", "indptr")},
    "x:paper:shape": np.array(FEATURES.shape),
    "x:author": np.array([[1.0], [2.0]], np.float16),
    "y": np.array([0, 1, -1]),
    "label_names": np.array(["a", "b"]),
    "node_names": np.array(["p", "q", "r"]),
    "train_idx": np.array([0]),
    "val_idx": np.array([1]),
}


def write(folder, **changes):
    changes = {key.replace("__", ":"): value for key, value in changes.items()}
    arrays = {key: value for key, value in (BUNDLE | changes).items() if value is not None}
    np.savez(folder / "toy.npz", **arrays)
    return folder / "toy.npz"


def test_a_bundle_is_read_whole(tmp_path):
    graph = load_graph(write(tmp_path))
    assert (graph.name, graph.target) == ("toy", "paper")
    assert list(graph.node_types.items()) == [("paper", 3), ("author", 2)]
    assert [str(each) for each in graph.relations] == ["author:writes:paper", "paper:cites:paper"]
    # Numbers of papers are 0 to 2, of authors 3 and 4.
    dense = np.zeros((5, 5))
    for i, j in ((0, 3), (0, 4), (2, 4), (0, 1), (1, 2)):
        dense[i, j] = dense[j, i] = 1
    np.testing.assert_array_equal(graph.adjacency().toarray(), dense)
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES.toarray())
    assert graph.other_features["author"].dtype == np.float16
    np.testing.assert_array_equal(graph.other_features["author"], [[1], [2]])
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.class_names == ("a", "b")
    assert graph.ids.tolist() == ["p", "q", "r"]
    assert [graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()] == [[0], [1], []]
    assert graph.steps == (
        "read 6 edges of 2 relations between 2 author, 3 paper",
        "paper:cites:paper: dropped 1 self-loops",
        "stored 5 edges of 2 relations in both directions",
    )


@settings(max_examples=25)
@given(inputs=typed_inputs(), sparse=st.booleans(), compressed=st.booleans())
def test_a_bundle_is_the_graph_of_its_arrays(tmp_path_factory, inputs, sparse, compressed):
    arrays = {
        "node_types": np.array(list(inputs.num_nodes)),
        "num_nodes": np.array(list(inputs.num_nodes.values())),
        "target_type": np.array(inputs.target),
        "y": inputs.labels,
    }
    arrays |= {f"rel:{':'.join(key)}": edges for key, edges in inputs.relations.items()}
    for kind, matrix in inputs.features.items():
        if not sparse:
            arrays[f"x:{kind}"] = matrix
            continue
        rows = sp.csr_array(matrix)
        for part in ("data", "indices", "indptr"):
            arrays[f"x:{kind}:{part}"] = getattr(rows, part)
        arrays[f"x:{kind}:shape"] = np.array(rows.shape)
    path = tmp_path_factory.mktemp("bundle") / "toy.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    expected = Graph.from_relations(**vars(inputs))
    found = load_graph(path)
    assert found.fingerprint("edges", "labels") == expected.fingerprint("edges", "labels")
    if not sparse:
        assert found.fingerprint() == expected.fingerprint()
    for kind, matrix in inputs.features.items():
        read = found.features if kind == found.target else found.other_features[kind]
        np.testing.assert_array_equal(read.toarray() if sparse else read, matrix)


def test_options_reach_typed_bundles(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 7), np.float32))
    np.savez(tmp_path / "splits.npz", train_0=[0], val_0=[1], train_1=[1], val_1=[0])
    path = write(tmp_path, train_idx=None, val_idx=None, y=np.array([0, 1, 1]))
    graph = load_graph(path, features=tmp_path / "x.npy", splits=tmp_path / "splits.npz", split=1)
    assert graph.num_features == 7
    assert [graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()] == [[1], [0], [2]]
    assert "took features from x.npy: 3 x 7 of float32" in graph.steps
    assert len(load_graph(path, splits="per-class:1,0").train) == 2
    counted = load_graph(path, options=IngestOptions(drop_self_loops=False, drop_duplicates=False))
    assert counted.weights is not None
    assert counted.num_edges == 12


def test_numbered_public_splits_are_unpacked(tmp_path):
    masks = {"train": [[1, 0, 0], [0, 1, 0]], "val": [[0, 1, 0], [1, 0, 0]]}
    packed = {
        f"all_{k}_masks_packbits": np.packbits(np.array(m, bool), 1) for k, m in masks.items()
    }
    packed["all_test_masks_packbits"] = np.packbits(np.array([[0, 0, 1]] * 2, bool), 1)
    path = write(tmp_path, y=np.array([0, 1, 1]), **packed)
    assert load_graph(path, split=1).train.tolist() == [1]
    with pytest.raises(SourceError, match="no numbered splits"):
        load_graph(write(tmp_path), split=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_nodes": None}, SourceError, "has no `num_nodes`"),
        ({"node_types": None}, SourceError, "has no `node_types`"),
        ({"num_nodes": np.array([2])}, SourceError, r"`num_nodes`.*of shape \(1,\); expected a wh"),
        ({"num_nodes": np.array([2, -3])}, SourceError, "expected a whole number for each"),
        ({"num_nodes": np.array([2, 0.5])}, SourceError, "`num_nodes`.*is float64"),
        ({"node_types": np.array([1, 2])}, SourceError, "`node_types`.*the names of the types"),
        ({"node_types": np.array(["paper"] * 2)}, SourceError, "'paper' twice"),
        ({"node_types": np.array(["a:b", "paper"])}, SourceError, "without colons"),
        ({"target_type": None}, SourceError, "has no `target_type`"),
        ({"target_type": np.array("book")}, SourceError, "is `book`; expected one of author, pap"),
        ({"rel__a__b": np.zeros((2, 0))}, SourceError, "`rel:a:b`; expected the form"),
        ({"rel____b__paper": np.zeros((2, 0))}, SourceError, "expected the form"),
        ({"rel__book__in__paper": np.zeros((2, 0))}, SourceError, "unknown types.*no type `book`"),
        ({"rel__author__writes__paper": np.arange(3)}, SourceError, r"`rel:author:wr.*\(3,\)"),
        ({"rel__author__writes__paper": np.ones((2, 3))}, SourceError, "whole numbers of shape"),
        ({"rel__author__writes__paper": np.array([[2], [0]])}, GraphError, "names author 2"),
        ({"rel__author__writes__paper": np.array([[0], [-1]])}, GraphError, "names paper -1"),
        ({"x__author": np.ones((3, 1))}, SourceError, r"`x:author`.*\(3, 1\); expected 2 rows"),
        ({"x__author": np.ones(2)}, SourceError, "expected 2 rows"),
        ({"x__author": np.array([["a"], ["b"]])}, SourceError, "expected numbers"),
        ({"x__author": np.array([[np.inf], [1]])}, GraphError, "`author`: Feature 0 of node 0"),
        ({"x__book": np.ones((2, 1))}, SourceError, "`x:book`; expected `x:TYPE`"),
        ({"x__paper__color": np.ones(2)}, SourceError, "`x:paper:color`; expected"),
        ({"x__paper__data": None}, SourceError, "no `x:paper:data`"),
        ({"x__paper__indptr": None}, SourceError, "no `x:paper:indptr`"),
        ({"x__paper__indices": np.array([0, 2, 3, 0])}, SourceError, "outside its shape"),
        ({"x__paper__shape": np.array([2, 3])}, SourceError, "do not fit its shape"),
        ({"y": np.array([0, 1])}, SourceError, r"`y`.*\(2,\); expected \(3,\)"),
        ({"y": np.array([0.5, 1, 0])}, SourceError, "-1 where unknown"),
        ({"node_names": np.array(["p"])}, SourceError, "`node_names`.*expected"),
        ({"node_names": np.array(["p", "p", "q"])}, GraphError, "id 'p'|id np.str_"),
        ({"val_idx": np.array([0])}, GraphError, "overlap"),
    ],
)
def test_bad_bundles_are_refused_in_one_sentence(tmp_path, change, error, message):
    with pytest.raises(error, match=message) as caught:
        load_graph(write(tmp_path, **change))
    assert "\n" not in caught.value.message


def test_a_bundle_without_relations_is_refused(tmp_path):
    none = {key.replace(":", "__"): None for key in BUNDLE if key.startswith("rel")}
    with pytest.raises(SourceError, match="has no edges"):
        load_graph(write(tmp_path, **none))


def test_the_shared_typed_graph_has_its_sizes(shared_data):
    splits = shared_data / "splits" / "debian_hetero.npz"
    graph = load_graph(shared_data / "debian_hetero.npz", splits=splits, split=3)
    assert dict(graph.node_types) == {
        "package": 63_436, "source": 34_169, "maintainer": 2_249, "tag": 598
    }  # fmt: skip
    assert (graph.num_edges, len(graph.relations)) == (2 * 572_597, 8)
    assert (graph.num_features, graph.num_classes) == (4_419, 50)
    assert (len(graph.train), len(graph.valid)) == (1_000, 1_500)
