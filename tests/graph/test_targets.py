"""Graphs whose nodes have several yes-or-no targets: made, refused, stored and split."""

import numpy as np
import pytest

import scr
from scr.errors import GraphError
from scr.graph import open_store, per_class_split, random_split
from scr.sources import load_graph

EDGES = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
LABELS = np.array([[0, 1], [1, 0], [1, -1], [-1, -1], [0, 1]])


def graph(**settings):
    given = {"labels": LABELS, "train": [0, 1], "valid": [2], "test": [4], **settings}
    return scr.Graph.from_edges(EDGES, features=np.eye(5, 3), **given)


def test_labels_keep_their_shape_and_name_their_targets():
    made = graph(class_names=["red", "round"])
    np.testing.assert_array_equal(made.labels, LABELS)
    assert (made.labels.dtype, made.is_multilabel, made.num_classes) == (np.int8, True, 2)
    assert "targets=2" in repr(made)
    assert graph().class_names == ("0", "1")


@pytest.mark.parametrize("kind", [np.float32, object])
def test_what_is_missing_is_unknown(kind):
    holes = np.where(LABELS < 0, np.nan, LABELS.astype(np.float64))
    if kind is object:
        with pytest.raises(GraphError, match="Labels of several targets are object"):
            graph(labels=holes.astype(object))
        return
    np.testing.assert_array_equal(graph(labels=holes.astype(kind)).labels, LABELS)


def test_booleans_are_labels():
    np.testing.assert_array_equal(graph(labels=LABELS == 1).labels, LABELS == 1)


def test_a_single_column_is_one_class_per_node():
    made = graph(labels=np.array([[0], [1], [1], [-1], [0]]))
    assert made.labels.shape == (5,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.where(LABELS == 1, 2, LABELS)}, "node 0 for target 1 is 2; expected 0 or 1"),
        ({"class_names": ["red"]}, "There are 1 names of targets; expected 2"),
        ({"labels": LABELS[:4]}, r"Labels have the shape \(4, 2\); expected \(5,\)"),
        ({"train": [0, 3]}, "1 of 2 nodes of the train split have no label, such as node 3"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(GraphError, match=message):
        graph(**changes)


def test_targets_with_one_label_are_warned_of():
    with pytest.warns(match=r"1 of 2 targets do not have both labels .* \(1\)"):
        graph(labels=np.array([[0, 1], [1, 1], [1, 0], [-1, -1], [0, 1]]))


def test_a_store_keeps_them(tmp_path):
    made = graph(class_names=["red", "round"])
    opened = open_store(made.save(tmp_path / "store"))
    np.testing.assert_array_equal(opened.labels, LABELS)
    assert opened.is_multilabel
    assert opened.fingerprint() == made.fingerprint()
    assert opened.class_names == ("red", "round")


def test_a_bundle_keeps_them(tmp_path):
    np.savez(
        tmp_path / "toy.npz", edge_index=EDGES, x=np.eye(5, 3, dtype=np.float32), y=LABELS,
        label_names=np.array(["red", "round"]), train_idx=[0, 1], val_idx=[2], test_idx=[4],
    )  # fmt: skip
    read = load_graph(tmp_path / "toy.npz")
    np.testing.assert_array_equal(read.labels, LABELS)
    assert read.class_names == ("red", "round")


def test_random_splits_take_nodes_with_a_label():
    labels = np.full((50, 3), -1)
    labels[:40, 1] = np.arange(40) % 2
    split = random_split(labels, 0.5, 0.25)
    assert [len(part) for part in split] == [20, 10, 10]
    assert max(part.max() for part in split) < 40


def test_splits_per_class_are_refused():
    with pytest.raises(GraphError, match="needs one class per node"):
        per_class_split(LABELS)
