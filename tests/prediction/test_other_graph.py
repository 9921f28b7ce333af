"""Graphs that a model was not trained on: other orders of classes, other classes, no labels."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tests.training.typed_graphs import make_typed_graph

from scr.classifier import NodeClassifier
from scr.encoders import HopBatch
from scr.errors import GraphError, StoreError
from scr.graph import Graph
from scr.prediction._other_graphs import rows_of_other_graph, with_classes

NAMES = ("ant", "bee", "cat")
LABELS = {"label_hops": 2, "label_guard": "none", "label_keep": "all"}


def fitted(graph, **stages):
    return NodeClassifier(
        {"name": "gamlp", "hidden": 16},
        "none",
        propagation=LABELS,
        stages=stages,
        preset="none",
        epochs=6,
        evaluate_every=2,
        learning_rate=0.01,
    ).fit(graph)


@pytest.fixture
def graph(random_graph):
    return random_graph(class_names=NAMES)


@pytest.fixture
def renumbered(graph):
    """The same graph, its classes in another order."""
    order = np.array([2, 0, 1])
    names = tuple(NAMES[old] for old in np.argsort(order))
    return dataclasses.replace(graph, labels=order[graph.labels], class_names=names)


def rows_of(classifier, graph, **stages):
    model = classifier._trained().model
    recipe = dataclasses.replace(
        model.recipe, stages=dataclasses.replace(model.recipe.stages, **stages)
    )
    return rows_of_other_graph(graph, dataclasses.replace(model, recipe=recipe))


def hops_of(graph, targets):
    """Labels after one and after two hops of row-normalized edges, by SciPy."""
    adjacency = graph.adjacency()
    degrees = np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1)[:, None]
    first = adjacency @ targets / degrees
    return np.stack([first, adjacency @ first / degrees], axis=1)


def known_labels(graph):
    targets = np.zeros((graph.num_nodes, 3))
    targets[graph.train] = np.eye(3)[graph.labels[graph.train]]
    return targets


def test_the_order_of_classes_in_another_graph_does_not_matter(graph, renumbered, tmp_path):
    classifier = fitted(graph)
    expected = classifier.predict_proba()
    np.testing.assert_allclose(classifier.predict_proba(graph=renumbered), expected, rtol=1e-5)
    classifier.write_predictions(tmp_path / "own.parquet")
    classifier.write_predictions(tmp_path / "other.parquet", graph=renumbered)
    own, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("own", "other"))
    for column in ("prediction", "label"):
        assert own[column].equals(other[column])


def test_a_loaded_run_takes_its_own_graph_with_classes_in_another_order(
    graph, renumbered, tmp_path
):
    classifier = fitted(graph)
    loaded = NodeClassifier.load(classifier.save(tmp_path / "run"), graph=renumbered)
    np.testing.assert_allclose(loaded.predict_proba(), classifier.predict_proba(), rtol=1e-5)
    assert loaded.score() == classifier.score()


def test_a_graph_without_labels_has_label_hops_of_zeros(graph):
    classifier = fitted(graph)
    bare = Graph.from_scipy(graph.adjacency(), features=graph.features)
    assert bare.num_classes == 0
    rows = rows_of(classifier, bare)
    assert rows.labels.shape == (60, 2, 3)
    assert not rows.labels.any()
    assert classifier.predict_proba(graph=bare).shape == (60, 3)


def test_training_nodes_of_classes_that_the_model_does_not_know_are_not_read(graph):
    classifier = fitted(graph)
    other = dataclasses.replace(graph, class_names=("ant", "dog", "cat"))
    translated = with_classes(other, NAMES)
    kept = graph.train[graph.labels[graph.train] != 1]
    assert translated.train.tolist() == kept.tolist()
    assert translated.labels.tolist() == [-1 if label == 1 else label for label in graph.labels]
    targets = known_labels(graph)
    targets[:, 1] = 0
    np.testing.assert_allclose(
        rows_of(classifier, other).labels, hops_of(graph, targets), atol=1e-6
    )


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("method", ["rlu", "sle"])
def test_after_stages_the_encoder_hands_its_predictions_over_once(graph, method, count):
    classifier = fitted(graph, method=method, count=count, threshold=0.5, temperature=0.5)
    # Another graph: the same edges, of fewer known labels.
    other = graph.with_split(graph.train[:6])
    encoder = classifier._trained().fitted().encoder
    hops = torch.from_numpy(np.array(classifier._trained().fitted().prepared.array))
    first_hops = torch.from_numpy(hops_of(other, known_labels(other))).float()
    with torch.no_grad():
        logits = encoder(HopBatch(hops, first_hops)).double().numpy()
    tempered = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    confidence = tempered.max(axis=1)
    # Between two nodes, about half of the way, whatever was learned.
    threshold = float(np.sort(confidence)[29:31].mean())
    reliable = confidence >= threshold
    reliable[other.train] = False
    targets = known_labels(other)
    hard = np.eye(3)[tempered.argmax(axis=1)]
    targets[reliable] = (hard if method == "sle" else tempered)[reliable]
    # Only the last stage's threshold counts.
    rows = rows_of(classifier, other, threshold=(0.0, threshold)[-count + 1 :])
    np.testing.assert_allclose(rows.labels, hops_of(other, targets), atol=1e-5)
    probabilities = classifier.predict_proba(graph=other)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


def test_stages_without_label_hops_hand_nothing_over(graph, renumbered):
    classifier = NodeClassifier(
        "gamlp", "none", stages={"method": "rlu"}, propagation={"label_hops": 0}, epochs=2
    ).fit(graph)
    assert rows_of(classifier, renumbered).labels is None
    np.testing.assert_allclose(
        classifier.predict_proba(graph=renumbered), classifier.predict_proba(), rtol=1e-5
    )


def test_a_run_in_stages_whose_handover_is_gone_is_refused(graph, tmp_path):
    run = fitted(graph, method="rlu", count=2, threshold=0.3).save(tmp_path / "run")
    assert NodeClassifier.load(run, graph=graph).predict().shape == (60,)
    (run / "handover.safetensors").unlink()
    with pytest.raises(StoreError, match=r"handover\.safetensors` is missing"):
        NodeClassifier.load(run, graph=graph)
    (run / "checksums.json").unlink()  # as in runs of older versions
    with pytest.raises(StoreError, match=r"earlier stages .*handover\.safetensors"):
        NodeClassifier.load(run, graph=graph).predict()


def test_a_run_that_was_stopped_in_its_first_stage_can_be_loaded(graph, tmp_path):
    classifier = NodeClassifier(
        "gamlp", "none", propagation=LABELS, stages={"method": "rlu"}, epochs=3
    ).fit(graph, should_stop=lambda: True)
    loaded = NodeClassifier.load(classifier.save(tmp_path / "run"), graph=graph)
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())


def edges_of(graph, number):
    """Ends of a relation's edges within their types."""
    relation, chosen = graph.relations[number], np.asarray(graph.edge_types) == number
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))[chosen]
    sources = rows - graph.nodes_of(relation.source).start
    return np.stack([sources, graph.indices[chosen] - graph.nodes_of(relation.target).start])


def of_relations(graph, names):
    """The same nodes with relations in the order of names, empty where there is none."""
    known = [relation.name for relation in graph.relations]
    return Graph.from_relations(
        {graph.relations[known.index(name)]: edges_of(graph, known.index(name)) for name in names}
        if set(names) <= set(known)
        else {("paper", name, "paper"): [[0], [1]] for name in names}
        | {relation: edges_of(graph, place) for place, relation in enumerate(graph.relations)},
        {"paper": graph.features}, None, "paper", num_nodes=graph.node_types,
    )  # fmt: skip


@pytest.mark.parametrize("encoder", ["rgcn", "nars-sign"])
def test_weights_of_relations_go_by_name(tmp_path, encoder):
    graph = make_typed_graph()
    fitted = NodeClassifier(encoder, "none", epochs=3, propagation={"subsets": 3}).fit(graph)
    turned = of_relations(graph, ["has_topic", "writes", "cites"])
    expected = fitted.predict_proba()
    np.testing.assert_allclose(fitted.predict_proba(graph=turned), expected, atol=1e-5)
    fitted.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.predict_proba(graph=turned), expected, atol=1e-5)


@pytest.mark.parametrize("names", [["writes", "has_topic"], ["likes"]])
def test_rgcn_refuses_a_graph_of_other_relations(names):
    graph = make_typed_graph()
    fitted = NodeClassifier("rgcn", "none", epochs=1).fit(graph)
    with pytest.raises(GraphError, match="expected author:writes:paper, paper:cites:paper"):
        fitted.predict(graph=of_relations(graph, names))


def test_learned_vectors_of_nodes_serve_their_own_graph_only():
    graph = make_typed_graph()
    settings = {"name": "rgcn", "node_embeddings": True}
    fitted = NodeClassifier(settings, "none", epochs=1).fit(graph)
    np.testing.assert_allclose(fitted.predict_proba(graph=graph), fitted.predict_proba(), atol=1e-6)
    with pytest.raises(GraphError, match="learned a vector for each node"):
        fitted.predict(graph=make_typed_graph(seed=1))
