from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError, SourceError
from scr.graph import Graph, apply_split, per_class_split, random_split, read_splits
from scr.sources import load_graph

LABELS = np.repeat([0, 1, 2, -1], [100, 60, 9, 30])


def assert_partition(split, labels):
    nodes = np.concatenate(split)
    assert np.array_equal(np.sort(nodes), np.flatnonzero(labels >= 0))
    assert all(np.all(np.diff(part) > 0) for part in split)


def test_fractions_are_of_the_labeled_nodes():
    split = random_split(LABELS, train=0.2, valid=0.3)
    assert_partition(split, LABELS)
    assert (len(split.train), len(split.valid)) == (34, 51)


def test_small_classes_give_at_most_a_third():
    split = per_class_split(LABELS, train=20, valid=30)
    assert_partition(split, LABELS)
    assert np.bincount(LABELS[split.train]).tolist() == [20, 20, 3]
    assert np.bincount(LABELS[split.valid]).tolist() == [30, 20, 3]


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=50).filter(lambda y: max(y) >= 0))
def test_every_class_trains_and_no_node_is_twice(labels):
    labels = np.array(labels)
    split = per_class_split(labels, train=2, valid=2)
    assert_partition(split, labels)
    assert set(labels[split.train]) == set(labels[labels >= 0])


@pytest.mark.parametrize("draw", [random_split, per_class_split])
def test_the_seed_alone_decides(draw):
    first, again, other = (draw(LABELS, seed=seed) for seed in (1, 1, 2))
    assert first.train.tolist() == again.train.tolist()
    assert first.train.tolist() != other.train.tolist()


@pytest.mark.parametrize(("train", "valid"), [(0, 0.1), (0.5, 0.6), (1, 0), (1.5, 0.1), (-1, 0.5)])
def test_impossible_fractions_are_refused(train, valid):
    with pytest.raises(GraphError, match="sum of at most 1"):
        random_split(LABELS, train, valid)


def test_nothing_to_split_is_told():
    with pytest.raises(GraphError, match="No node has a label"):
        per_class_split(np.full(5, -1))
    with pytest.raises(GraphError, match="2 labeled nodes, too few"):
        random_split(np.array([0, 1, -1]))
    with pytest.raises(GraphError, match="1 labeled nodes, too few for two"):
        random_split(np.array([0, -1]), 0.9, 0.1)


def split_by(rule, labels):
    graph = apply_split(Graph.from_edges([[0], [0]], labels=labels, num_nodes=len(labels)), rule)
    return graph.train, graph.valid, graph.test


def test_shares_of_one_leave_no_test_nodes():
    # Of 169 labeled nodes, 0.9 are 152.1; the validation nodes are all the others.
    split = random_split(LABELS, 0.9, 0.1)
    assert_partition(split, LABELS)
    assert [len(part) for part in split] == [152, 17, 0]
    assert [len(part) for part in random_split(np.zeros(2, np.int64), 0.9, 0.1)] == [1, 1, 0]


def test_all_gives_a_tenth_of_each_class_to_validation_and_at_least_one_node():
    labels = np.repeat([0, 1, 2, 3, 4, -1], [100, 69, 9, 2, 1, 30])
    train, valid, test = split_by("per-class:all", labels)
    assert np.bincount(labels[train]).tolist() == [90, 63, 8, 1, 1]
    assert np.bincount(labels[valid], minlength=5).tolist() == [10, 6, 1, 1, 0]
    assert len(test) == 0


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=50).filter(lambda y: max(y) >= 0))
def test_all_uses_every_label_once_and_every_class_trains(labels):
    numbers = np.unique([label for label in labels if label >= 0], return_inverse=True)[1]
    known = np.array(labels)
    known[known >= 0] = numbers
    split = split_by("per-class:all", known)
    assert_partition(split, known)
    assert set(known[split[0]]) == set(known[known >= 0])


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
def test_whole_shares_cover_all_labeled_nodes(count, train, seed):
    labels = np.arange(count) % 3
    split = random_split(labels, train, 1 - train, seed=seed)
    assert_partition(split, labels)
    assert min(len(split.train), len(split.valid)) >= 1
    assert len(split.test) == 0


def test_other_labeled_nodes_test_unless_the_file_says_more(tmp_path):
    file = tmp_path / "splits.npz"
    np.savez(file, train_0=[3, 1], val_0=[2], train_1=[0], val_1=[1], test_1=[5])
    labels = np.array([0, 0, 1, 1, -1, 1])
    first = read_splits(file, 0, labels=labels)
    assert [part.tolist() for part in first] == [[1, 3], [2], [0, 5]]
    assert read_splits(file, 1, labels=labels).test.tolist() == [5]
    with pytest.raises(SourceError, match=r"no split 2.*train_0, train_1"):
        read_splits(file, 2, labels=labels)


def test_packed_masks_are_read(tmp_path):
    masks = np.eye(10, dtype=bool)
    packed = {
        f"all_{name}_masks_packbits": np.packbits(np.roll(masks, shift, axis=1), axis=1)
        for shift, name in enumerate(["train", "val", "test"])
    }
    np.savez(tmp_path / "bundle.npz", **packed)
    split = read_splits(tmp_path / "bundle.npz", 3, labels=np.zeros(10, np.int64))
    assert [part.tolist() for part in split] == [[3], [4], [5]]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b"text"])
def test_a_file_that_is_no_npz_is_told(tmp_path, content):
    (tmp_path / "splits.npz").write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read as a file of splits: "):
        read_splits(tmp_path / "splits.npz", 0, labels=LABELS)


def test_a_lone_array_is_told(tmp_path):
    np.save(tmp_path / "splits.npy", np.arange(3))
    with pytest.raises(SourceError, match="cannot be read as a file of splits: "):
        read_splits(tmp_path / "splits.npy", 0, labels=LABELS)


def test_a_missing_file_and_one_of_another_graph_are_told(tmp_path):
    with pytest.raises(SourceError, match="does not exist; expected a file of splits"):
        read_splits(tmp_path / "none.npz", 0, labels=LABELS)
    np.savez(tmp_path / "big.npz", train_0=[10**6], val_0=[1])
    with pytest.raises(SourceError, match="train nodes outside the graph"):
        read_splits(tmp_path / "big.npz", 0, labels=LABELS)


def test_actor_has_ten_public_splits(shared_data):
    graph = load_graph(shared_data / "actor.npz")
    first = read_splits(shared_data / "actor.npz", 0, labels=graph.labels)
    np.testing.assert_array_equal(first.train, graph.train)
    np.testing.assert_array_equal(first.test, graph.test)
    last = read_splits(shared_data / "actor.npz", 9, labels=graph.labels)
    assert [len(part) for part in last] == [3648, 2432, 1520]


def test_shared_splits_have_twenty_and_thirty_nodes_per_class(shared_data):
    labels = load_graph(shared_data / "amazon_photo.npz").labels
    split = read_splits(shared_data / "splits" / "amazon_photo.npz", 4, labels=labels)
    assert np.bincount(labels[split.train]).tolist() == [20] * 8
    assert_partition(split, labels)
