"""Graphs of mixed communities: what they are made of, measured on the finished graph."""

import dataclasses

import numpy as np
import pytest

from scr.errors import ConfigError
from scr.synth import CommunityConfig, Links, community_graph

CONFIG = CommunityConfig(
    name="communities",
    nodes=4000,
    links=(Links(source="node", name="edge", target="node", edges=60_000, within=0.9),),
    features=16,
    classes=8,
    class_exponent=1.0,
    groups=2,
    likeness=0.5,
    prototypes=2,
    communities=80,
    mixed=0.5,
    label_noise=0.0,
    signal=5.0,
    train=400,
    valid=100,
    test=1000,
)


@pytest.fixture(scope="module")
def graph():
    return community_graph(CONFIG)


def test_equal_seeds_make_equal_graphs(graph):
    assert community_graph(CONFIG).fingerprint() == graph.fingerprint()
    other = community_graph(dataclasses.replace(CONFIG, seed=1))
    assert other.fingerprint("edges") != graph.fingerprint("edges")


def test_more_columns_change_neither_edges_nor_labels_nor_splits(graph):
    wide = community_graph(dataclasses.replace(CONFIG, features=20))
    for part in ("edges", "labels", "splits"):
        assert wide.fingerprint(part) == graph.fingerprint(part)


def test_splits_have_the_asked_sizes_and_other_labels_are_left_out(graph):
    assert [len(nodes) for nodes in (graph.train, graph.valid, graph.test)] == [400, 100, 1000]
    assert np.count_nonzero(graph.labels >= 0) == 1500
    assert len(np.unique(np.concatenate([graph.train, graph.valid, graph.test]))) == 1500


def test_classes_shrink_like_a_power():
    everything = dataclasses.replace(CONFIG, train=2899, mixed=0.0)
    made = community_graph(everything)
    shares = np.bincount(made.labels[made.labels >= 0], minlength=8) / 3999
    expected = 1 / np.arange(1, 9) / np.sum(1 / np.arange(1, 9))
    # Every class has one of the 80 communities; the other 72 are shared out.
    assert np.abs(shares - (1 + 72 * expected) / 80).max() < 1.5 / 80


def test_training_nodes_have_more_neighbors_than_test_nodes(graph):
    degrees = np.diff(graph.indptr)
    assert degrees[graph.train].mean() > 1.5 * degrees[graph.test].mean()


@pytest.mark.parametrize(("mixed", "expected"), [(0.0, 1.0), (1.0, 0.5)])
def test_neighbors_of_a_mixed_community_are_of_two_classes(mixed, expected):
    # Without edges between communities: all alike in pure ones. In mixed ones a half, and more
    # where the second class happens to be the first one again.
    inside = dataclasses.replace(CONFIG.links[0], within=1.0)
    config = dataclasses.replace(
        CONFIG, mixed=mixed, links=(inside,), train=2999, valid=1, test=1000, groups=1
    )
    made = community_graph(config)
    edges = made.adjacency().tocoo()
    same = np.mean(made.labels[edges.row] == made.labels[edges.col])
    assert expected <= same <= (1.0 if mixed == 0 else 0.7)


def test_directed_edges_go_to_nodes_that_train_earlier():
    config = dataclasses.replace(CONFIG, directed=True, train=1999, valid=1, test=2000)
    made = community_graph(config)
    edges = made.adjacency().tocoo()
    trains = np.zeros(4000, bool)
    trains[made.train] = trains[made.valid] = True
    assert made.directed
    assert not np.any(trains[edges.row] & ~trains[edges.col])
    assert np.any(~trains[edges.row] & trains[edges.col])


def test_types_without_features_hang_together_with_the_communities_of_the_target():
    links = (
        Links(source="author", name="writes", target="paper", edges=9000, within=1.0),
        Links(source="author", name="works", target="place", edges=500, within=1.0),
    )
    config = dataclasses.replace(
        CONFIG, target="paper", others={"author": 1000, "place": 10}, links=links, mixed=0.0,
        train=2999, valid=1, test=1000,
    )  # fmt: skip
    made = community_graph(config)
    assert dict(made.node_types) == {"paper": 4000, "author": 1000, "place": 10}
    assert [str(each) for each in made.relations] == ["author:writes:paper", "author:works:place"]
    assert made.features.shape == (4000, 16)
    assert not made.other_features
    edges = made.only("writes").adjacency().tocoo()
    of_author = made.labels[edges.col[edges.row >= 4000]]
    authors = edges.row[edges.row >= 4000]
    firsts = dict(zip(authors, of_author, strict=True))
    assert all(firsts[author] == label for author, label in zip(authors, of_author, strict=True))


@pytest.mark.parametrize(
    ("change", "setting"),
    [({"classes": 1}, "classes"), ({"communities": 4}, "communities"), ({"train": 5000}, "train"),
     ({"groups": 9}, "groups"), ({"mixed": 1.5}, "mixed")],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(change, setting):
    with pytest.raises(ConfigError, match=setting):
        dataclasses.replace(CONFIG, **change)
