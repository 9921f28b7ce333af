"""Folds over all known labels."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError
from scr.tuning import _folds
from scr.tuning._folds import fold_graphs, stratified_folds


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    folds=st.integers(2, 6),
    seed=st.integers(0, 5),
)
def test_folds_and_classes_are_of_equal_size(labels, folds, seed):
    labels = np.array(labels)
    fold = stratified_folds(labels, folds, seed=seed)
    sizes = np.bincount(fold, minlength=folds)
    assert sizes.sum() == len(labels)
    assert sizes.max() - sizes.min() <= 1
    for label in np.unique(labels):
        of_class = np.bincount(fold[labels == label], minlength=folds)
        assert of_class.max() - of_class.min() <= 1


def test_each_known_label_is_held_out_once_and_trains_in_all_other_folds(random_graph):
    graph = random_graph()
    graphs = fold_graphs(graph)
    known = np.union1d(graph.train, graph.valid)
    np.testing.assert_array_equal(np.sort(np.concatenate([each.valid for each in graphs])), known)
    for each in graphs:
        assert len(np.intersect1d(each.train, each.valid)) == 0
        np.testing.assert_array_equal(np.union1d(each.train, each.valid), known)
        np.testing.assert_array_equal(each.test, graph.test)


def test_a_graph_without_validation_nodes_is_folded_by_its_training_labels(random_graph):
    graph = random_graph()
    graph = dataclasses.replace(graph, valid=np.empty(0, dtype=np.int64))
    held_out = np.sort(np.concatenate([each.valid for each in fold_graphs(graph)]))
    np.testing.assert_array_equal(held_out, np.sort(graph.train))


def test_of_many_labels_the_graphs_own_split_is_the_only_fold(random_graph, monkeypatch):
    graph = random_graph()
    monkeypatch.setattr(_folds, "MANY_LABELS", len(graph.train))
    assert fold_graphs(graph) == [graph]


def test_a_single_class_cannot_be_judged(random_graph):
    graph = random_graph()
    one = graph.train[graph.labels[graph.train] == graph.labels[graph.train[0]]]
    graph = dataclasses.replace(graph, train=one, valid=np.empty(0, dtype=np.int64))
    with pytest.raises(GraphError, match="expected at least two of each"):
        fold_graphs(graph)
