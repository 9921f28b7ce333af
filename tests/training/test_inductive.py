"""Training that sees no test node: whatever these have, the weights are the same bit for bit."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_random_graph
from tests.graph.typed_graphs import typed_inputs
from tests.training.typed_graphs import make_typed_graph

import scr
from scr.errors import ConfigError
from scr.graph import Graph, induced
from scr.training import graph_to_select_on

QUICK = {"epochs": 6, "evaluate_every": 2}
SCR = {"threshold": 0.4, "refresh": 2, "warmup": 1}


def rebuilt(graph, *, features=None, edges=None):
    """The graph with other features, or with other edges in both directions."""
    matrix = sp.coo_array(graph.adjacency())
    pairs = np.stack([matrix.row, matrix.col]) if edges is None else edges
    return Graph.from_edges(
        pairs, num_nodes=graph.num_nodes, features=graph.features if features is None else features,
        labels=graph.labels, train=graph.train, valid=graph.valid, test=graph.test,
    )  # fmt: skip


def other_features(graph, nodes):
    features = np.array(graph.features)
    features[nodes] = 100 * np.random.default_rng(9).normal(size=features[nodes].shape)
    return rebuilt(graph, features=features)


def other_edges(graph, nodes):
    """Edges of some nodes replaced by others of theirs."""
    matrix = sp.coo_array(graph.adjacency())
    pairs = np.stack([matrix.row, matrix.col])
    kept = pairs[:, ~np.isin(pairs, nodes).any(axis=0)]
    generator = np.random.default_rng(5)
    added = np.stack([np.repeat(nodes, 3), generator.integers(0, graph.num_nodes, 3 * len(nodes))])
    return rebuilt(graph, edges=np.concatenate([kept, added], axis=1))


def weights(classifier):
    return classifier.module_.state_dict()


def same(one, two):
    return all(torch.equal(value, weights(two)[name]) for name, value in weights(one).items())


METHODS = {
    "ssgc": ("ssgc", "none", {}),
    "ssgc-scr": ("ssgc", "scr", {"consistency": SCR}),
    "grand": ("ssgc", "grand", {}),
    "gamlp-labels": ("gamlp", "scr-m", {"consistency": SCR, "propagation": {"label_hops": 2}}),
    "gcn": ({"name": "gcn", "hidden": 8, "norm": "batch"}, "scr", {"consistency": SCR}),
    "rlu": ("gamlp", "none", {"stages": {"method": "rlu", "count": 2, "threshold": 0.3}}),
    "auto": (None, None, {}),
}


@pytest.mark.parametrize("method", METHODS)
def test_weights_do_not_depend_on_features_or_edges_of_test_nodes(method):
    encoder, regularizer, sections = METHODS[method]
    graph = rebuilt(make_random_graph(nodes=80))

    def fitted(graph, **settings):
        made = scr.NodeClassifier(encoder, regularizer, **QUICK, **sections, **settings)
        return made.fit(graph)

    first = fitted(graph, inductive=True)
    for changed in (other_features(graph, graph.test), other_edges(graph, graph.test)):
        second = fitted(changed, inductive=True)
        assert same(first, second)
        assert second.history_[-1]["valid_accuracy"] == first.history_[-1]["valid_accuracy"]
        if first.recipe_.encoder != "mlp":  # which reads no edges
            assert not np.array_equal(first.predict_proba(), second.predict_proba())
    if method in ("ssgc", "gcn"):  # the comparison can tell
        assert not same(fitted(graph), fitted(other_features(graph, graph.test)))


@pytest.mark.parametrize("method", ["ssgc-scr", "gcn", "gamlp-labels"])
def test_steps_of_training_do_not_read_validation_nodes(method):
    encoder, regularizer, sections = METHODS[method]
    graph = rebuilt(make_random_graph(nodes=80))
    settings = {**QUICK, **sections, "inductive": True, "select": "last", "patience": 0}
    fitted = [
        scr.NodeClassifier(encoder, regularizer, **settings).fit(each)
        for each in (graph, other_features(graph, graph.valid), other_edges(graph, graph.valid))
    ]
    assert same(fitted[0], fitted[1])
    assert same(fitted[0], fitted[2])
    scores = [[each["valid_loss"] for each in classifier.history_] for classifier in fitted]
    assert scores[0] != scores[1]


@pytest.mark.parametrize("method", ["ssgc-scr", "gamlp-labels"])
def test_weights_are_those_of_training_on_the_part_that_scipy_cuts_out(method):
    encoder, regularizer, sections = METHODS[method]
    graph = rebuilt(make_random_graph(nodes=80))
    unseen = np.concatenate([graph.valid[::2], graph.test[::2]])
    some = dataclasses.replace(graph, valid=graph.valid[::2], test=graph.test[::2])
    seen = np.setdiff1d(np.arange(80), unseen)  # nodes in no split are among them
    alone = Graph.from_scipy(
        graph.adjacency()[seen][:, seen], features=graph.features[seen],
        labels=graph.labels[seen], train=np.searchsorted(seen, graph.train),
    )  # fmt: skip
    settings = {**QUICK, **sections, "select": "last", "patience": 0}
    inductive = scr.NodeClassifier(encoder, regularizer, inductive=True, **settings).fit(some)
    expected = scr.NodeClassifier(encoder, regularizer, **settings).fit(alone)
    assert same(inductive, expected)
    # Predictions are made on the whole graph, by what was fitted on a part of it.
    _, uncalibrated = inductive.predictor_.answers(None, None)
    np.testing.assert_allclose(
        expected.predict_proba(graph=some), uncalibrated(np.arange(80)), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("method", ["ssgc", "gamlp-labels", "gcn", "rlu"])
def test_a_run_is_saved_and_predicts_the_same_after_loading(method, tmp_path):
    encoder, regularizer, sections = METHODS[method]
    graph = make_random_graph(nodes=80)
    made = scr.NodeClassifier(encoder, regularizer, inductive=True, **QUICK, **sections).fit(graph)
    loaded = scr.NodeClassifier.load(made.save(tmp_path / "run"), graph=graph)
    assert loaded.recipe_.training.inductive
    np.testing.assert_allclose(loaded.predict_proba(), made.predict_proba(), rtol=1e-4, atol=1e-6)


def test_an_interrupted_run_resumes(tmp_path):
    graph = make_random_graph(nodes=80)
    settings = {"inductive": True, "consistency": SCR, **QUICK}
    whole = scr.NodeClassifier("ssgc", "scr", **settings).fit(graph)
    stops = iter([False, False, True])
    file = tmp_path / "checkpoint"
    part = scr.NodeClassifier("ssgc", "scr", **settings)
    part.fit(graph, checkpoint=file, should_stop=lambda: next(stops))
    assert part.stopped_ == "interrupted"
    resumed = scr.NodeClassifier("ssgc", "scr", **settings).fit(graph, checkpoint=file)
    assert same(whole, resumed)


def test_typed_graphs_are_trained_without_their_test_nodes():
    graph = make_typed_graph()
    settings = {"inductive": True, **QUICK}
    first = scr.NodeClassifier("nars-sign", "none", **settings).fit(graph)
    features = np.array(graph.features)
    features[graph.test] += 50
    second = scr.NodeClassifier("nars-sign", "none", **settings).fit(
        dataclasses.replace(graph, features=features)
    )
    assert same(first, second)
    assert len(first.predict()) == graph.num_targets


def test_the_setting_is_left_out_of_recipes_that_do_not_have_it():
    graph = make_random_graph()
    assert "inductive" not in scr.NodeClassifier("ssgc").resolve(graph).tables()["training"]
    on = scr.NodeClassifier("ssgc", inductive=True).resolve(graph).tables()["training"]
    assert on["inductive"] is True


def test_what_does_not_go_with_it_is_refused():
    graph = make_random_graph()
    with pytest.raises(ConfigError, match="refit"):
        scr.NodeClassifier("ssgc", "none", inductive=True, refit=True, **QUICK).fit(graph)
    with pytest.raises(ConfigError, match=r"training\.inductive"):
        scr.NodeClassifier(effort="best", time_limit=1, inductive=True).fit(graph)


def test_the_graph_to_select_on_has_no_test_node():
    graph = make_random_graph(nodes=30)
    known = graph_to_select_on(graph)
    assert known.num_nodes == 30 - len(graph.test)
    assert known.valid.tolist() == list(range(known.num_nodes - len(graph.valid), known.num_nodes))
    np.testing.assert_array_equal(known.labels[known.train], graph.labels[graph.train])


@given(typed_inputs(weighted=True), st.integers(0, 2**16))
def test_a_part_of_a_graph_is_what_scipy_indexes(inputs, seed):
    graph = Graph.from_relations(**vars(inputs), self_loops="keep")
    generator = np.random.default_rng(seed)
    count = generator.integers(0, graph.num_targets + 1)
    targets = generator.permutation(graph.num_targets)[:count]
    part = induced(graph, targets)
    order = np.concatenate([targets, np.arange(graph.num_targets, graph.num_nodes)])
    expected = graph.adjacency().toarray()[np.ix_(order, order)]
    np.testing.assert_array_equal(part.adjacency().toarray(), expected)
    np.testing.assert_array_equal(part.labels, graph.labels[targets])
    for relation in graph.relations if graph.is_typed else ():
        whole = graph.only(str(relation)).adjacency().toarray()
        cut = part.only(str(relation)).adjacency().toarray()
        np.testing.assert_array_equal(cut, whole[np.ix_(order, order)])
