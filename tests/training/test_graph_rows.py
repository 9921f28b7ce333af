"""Rows of coupled encoders: whole graphs, drawn neighbors, and predictions layer by layer."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.conftest import make_random_graph

import scr
from scr.encoders.layers import SparseRows
from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.networks import COUPLED, make_encoder
from scr.sources._digits import digits
from scr.training import fit, graph_facts, prepare, resolve
from scr.training._graph_rows import LayerwiseLogits
from scr.training._rows import predict_logits

SUBGRAPHS = ("cluster-gcn", "graph-saint")  # GraphSAGE on other batches
NAMES = [encoder.name for encoder in COUPLED if encoder.name not in SUBGRAPHS]
names = pytest.mark.parametrize("name", NAMES)
CPU = torch.device("cpu")


def typed_graph(seed=0, papers=90):
    """Papers of three classes by authors who keep to one class, with noisy features."""
    generator = np.random.default_rng(seed)
    labels = np.arange(papers) % 3
    authors = 30
    author_of = (generator.integers(0, authors // 3, papers) * 3 + labels) % authors
    features = np.eye(3, dtype=np.float32)[labels] + generator.normal(0, 0.7, (papers, 3))
    order = generator.permutation(papers)
    return Graph.from_relations(
        {
            ("paper", "by", "author"): np.stack([np.arange(papers), author_of]),
            ("paper", "cites", "paper"): generator.integers(0, papers, (2, 60)),
        },
        {"paper": features.astype(np.float32)},
        labels,
        "paper",
        num_nodes={"paper": papers, "author": authors},
        train=order[:30],
        valid=order[30:50],
        test=order[50:],
    )


def rows_and_encoder(graph, name, seed=0, **settings):
    layer = {"encoder": {"name": name, "hidden": 8, "layers": 2, **settings}}
    recipe = resolve(graph_facts(graph), regularizer="none", layers=[layer], preset="none")
    rows = prepare(graph, recipe).rows(graph.num_classes, None, CPU, seed=seed)
    torch.manual_seed(0)
    return rows, make_encoder(name, recipe.encoder_settings, rows.shape).eval()


WEIGHTS = np.random.default_rng(1).random(200).astype(np.float32) + 0.5
WORDS = sp.csr_array(sp.random_array((60, 90), density=0.05, rng=np.random.default_rng(2)))
GRAPHS = {
    "plain": make_random_graph(),
    "weighted": make_random_graph(weights=WEIGHTS),
    "directed": make_random_graph(undirected=False),
    "typed": typed_graph(),
    "words": make_random_graph(features=WORDS),
}
graphs = pytest.mark.parametrize("graph", list(GRAPHS.values()), ids=list(GRAPHS))


@names
@graphs
def test_drawing_all_neighbors_gives_the_logits_of_the_whole_graph(name, graph):
    whole, encoder = rows_and_encoder(graph, name, neighbors=[])
    drawn, _ = rows_and_encoder(graph, name, neighbors=[-1, -1])
    index = torch.tensor([5, 1, 5, 40])
    batch = drawn.batch(index)
    assert len(batch.features) <= graph.num_nodes
    torch.testing.assert_close(encoder(batch), encoder(whole.batch(index)), rtol=1e-4, atol=1e-5)


@names
@graphs
def test_predictions_layer_by_layer_are_those_of_the_forward_pass(name, graph):
    whole, encoder = rows_and_encoder(graph, name, neighbors=[])
    index = torch.tensor([3, 50, 2, 3])
    expected = encoder(whole.batch(index)).detach()
    torch.testing.assert_close(predict_logits(encoder, whole, index), expected)
    drawn, _ = rows_and_encoder(graph, name, neighbors=[2, 2])
    parts = LayerwiseLogits(drawn, rows_at_once=7).stream(encoder, index, 3)
    with torch.no_grad():
        found = torch.cat([logits for _, logits in parts])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@names
@pytest.mark.parametrize("neighbors", [[], [-1, -1]])
def test_sparse_features_give_the_logits_of_dense_ones(name, neighbors):
    sparse, encoder = rows_and_encoder(GRAPHS["words"], name, neighbors=neighbors)
    dense, _ = rows_and_encoder(
        make_random_graph(features=WORDS.toarray()), name, neighbors=neighbors
    )
    index = torch.tensor([5, 1, 5, 40])
    assert isinstance(sparse.batch(index).features, SparseRows) == (name != "rgcn")
    assert isinstance(dense.batch(index).features, torch.Tensor)
    torch.testing.assert_close(encoder(sparse.batch(index)), encoder(dense.batch(index)))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_another_graph_is_scaled_as_the_training_graph_was(kind):
    features = np.random.default_rng(0).random((60, 40)).astype(np.float32)
    features[:, 5:] *= np.random.default_rng(1).random((60, 35)) < 0.05
    layer = {"encoder": {"name": "gcn"}, "data": {"scale": "tfidf"}}
    made = [sp.csr_array(part) if kind == "sparse" else part for part in (features, features[:30])]
    first, second = make_random_graph(features=made[0]), make_random_graph(30, features=made[1])
    recipe = resolve(graph_facts(first), regularizer="none", layers=[layer], preset="none")
    known = prepare(first, recipe)
    found = prepare(second, recipe, fitted=known.features)
    assert found.features is known.features
    rows = [each if isinstance(each, np.ndarray) else each.toarray()
            for each in (found.inputs, known.inputs[:30])]  # fmt: skip
    np.testing.assert_array_equal(*rows)
    other = make_random_graph(features=np.ones((60, 7), np.float32))
    with pytest.raises(GraphError, match="have 7 columns; expected 40"):
        prepare(other, recipe, fitted=known.features)


@names
def test_predictions_follow_a_change_of_weights(name):
    rows, encoder = rows_and_encoder(make_random_graph(), name, neighbors=[3, 3])
    index = torch.arange(10)
    before = predict_logits(encoder, rows, index)
    assert torch.equal(predict_logits(encoder, rows, index), before)
    with torch.no_grad():
        encoder.layers[0].bias.add_(1)
    assert not torch.equal(predict_logits(encoder, rows, index), before)


def test_who_is_drawn_depends_on_the_seed_the_epoch_and_the_batch_alone():
    graph = make_random_graph(nodes=200, edges=3000)

    def drawn(index, seed=0, epoch=0):
        rows, _ = rows_and_encoder(graph, "graphsage", seed, neighbors=[3, 3])
        one_step = SimpleNamespace(epoch=epoch, steps=lambda: [None], index=lambda step: index)
        [(_, batch)] = rows.epoch_steps(one_step)
        return [*batch.layers[0].indices, *batch.features[:, 0].tolist()]

    index = torch.arange(20)
    assert drawn(index) == drawn(index)
    assert drawn(index) != drawn(index, seed=1)
    assert drawn(index) != drawn(index, epoch=1)
    assert drawn(index) != drawn(index.flip(0))


def test_no_node_draws_more_neighbors_than_asked_for():
    rows, _ = rows_and_encoder(make_random_graph(nodes=200, edges=3000), "graphsage",
                               neighbors=[4, 3])  # fmt: skip
    batch = rows.batch(torch.arange(20))
    outer, inner = batch.layers
    assert inner.rows == 20
    assert np.diff(inner.indptr).max() <= 4
    assert outer.rows == inner.columns
    assert np.diff(outer.indptr)[20:].max() <= 3
    assert outer.columns == len(batch.features)


@names
@pytest.mark.parametrize(
    ("neighbors", "regularizer"), [([], "none"), ([], "scr"), ([4, 4], "scr-m")]
)
def test_training_is_far_above_chance(name, neighbors, regularizer):
    graph = typed_graph()
    classifier = scr.NodeClassifier(
        {"name": name, "neighbors": neighbors, "hidden": 16, "layers": 2, "input_dropout": 0.0},
        regularizer,
        consistency={"warmup": 5, "threshold": 0.4, "trust": "full"},
        epochs=20,
    )
    classifier.fit(graph)
    assert classifier.score("test") > 0.6
    if regularizer != "none":
        assert max(record["confident_nodes"] for record in classifier.history_) > 0


@names
def test_a_stopped_run_ends_in_the_same_weights(name, tmp_path):
    graph = digits(seed=0)
    layers = [
        {
            "training": {"epochs": 4, "batch_size": 30, "evaluate_every": 2},
            "consistency": {"threshold": 0.15, "warmup": 1},
            "encoder": {"neighbors": [4, 3], "layers": 2, "hidden": 8},
        }
    ]
    recipe = resolve(graph_facts(graph), encoder=name, regularizer="scr-m", layers=layers)
    whole = fit(graph, recipe, seed=2)
    seen = []
    fit(graph, recipe, seed=2, checkpoint=tmp_path / "checkpoint", on_epoch=seen.append,
        should_stop=lambda: len(seen) == 2)  # fmt: skip
    pieces = fit(graph, recipe, seed=2, checkpoint=tmp_path / "checkpoint")
    for key, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[key]), key


@names
def test_reliable_nodes_of_a_stage_and_label_hops_reach_coupled_encoders(name):
    classifier = scr.NodeClassifier(
        {"name": name, "hidden": 8, "layers": 2},
        "scr",
        propagation={"label_hops": 2},
        stages={"method": "rlu", "count": 2, "threshold": 0.2},
        consistency={"threshold": 0.2, "trust": "full"},
        epochs=3,
    ).fit(make_random_graph())
    assert {record["stage"] for record in classifier.history_} == {1, 2}
    assert classifier.predict_proba().shape == (60, 3)


@names
def test_a_saved_run_predicts_the_same_and_predicts_another_graph(name, tmp_path):
    graph = make_random_graph(seed=1)
    classifier = scr.NodeClassifier({"name": name, "hidden": 8, "layers": 2}, "none", epochs=3)
    classifier.fit(graph).save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=graph)
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
    other = make_random_graph(nodes=90, seed=2)
    assert loaded.predict_proba(graph=other).shape == (90, 3)


@pytest.mark.parametrize("node_embeddings", [False, True])
def test_a_saved_run_on_a_typed_graph_predicts_the_same(node_embeddings, tmp_path):
    graph, settings = typed_graph(), {"name": "rgcn", "node_embeddings": node_embeddings}
    classifier = scr.NodeClassifier(settings, "none", epochs=2).fit(graph)
    classifier.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=graph)
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())


def test_nothing_of_a_coupled_encoder_is_explained_by_hops():
    explanation = scr.NodeClassifier("gcn", "none", epochs=1).fit(make_random_graph()).explain()
    assert explanation.hops == ()
    assert explanation.drops == ()


def test_learned_vectors_of_nodes_without_features_are_trained():
    classifier = scr.NodeClassifier(
        {"name": "rgcn", "node_embeddings": True, "hidden": 8}, "none", epochs=2
    ).fit(typed_graph())
    assert classifier.module_.embeddings.shape == (30, 3)
    assert classifier.predict_proba().shape == (90, 3)


def test_the_relations_of_an_rgcn_count_both_ways():
    rows, encoder = rows_and_encoder(typed_graph(), "rgcn")
    assert rows.shape.relations == 4
    assert len(encoder.layers[0].weights) == 4
    # Only papers are asked for, so authors drop out before the last layer.
    assert rows.batch(torch.arange(3)).layers[-1].rows == 90


def dense_mean(graph):
    """Rows of the adjacency, each divided by its sum."""
    count = graph.num_nodes
    values = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    matrix = sp.csr_array((values, graph.indices, graph.indptr), shape=(count, count)).toarray()
    sums = matrix.sum(axis=1, keepdims=True)
    return np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)


@pytest.mark.parametrize("limit", [10**9, 0], ids=["whole", "drawn"])
@pytest.mark.parametrize("graph", ["plain", "weighted", "words"])
def test_trust_is_judged_by_means_over_neighbors(graph, limit, monkeypatch):
    # Drawn neighbors are all of them: no node has more than so many.
    monkeypatch.setattr("scr.training._prepare_graph.WHOLE_GRAPH_EDGES", limit)
    monkeypatch.setattr("scr.training._prepare_graph.TRUST_NEIGHBORS", 60)
    rows, _ = rows_and_encoder(GRAPHS[graph], "graphsage")
    inputs = rows.prepared.inputs
    inputs = inputs if isinstance(inputs, np.ndarray) else inputs.toarray()
    mean, asked = dense_mean(rows.prepared.graph), np.array([7, 3, 50, 7])
    expected = (inputs + mean @ inputs + mean @ mean @ inputs)[asked] / 3
    np.testing.assert_allclose(rows.prepared.averages(asked), expected, rtol=1e-4, atol=1e-6)


def test_features_are_averaged_for_nobody_who_does_not_ask(monkeypatch):
    def refuse(self, rows):
        raise AssertionError("nobody reads it")

    monkeypatch.setattr("scr.training._prepare_graph.PreparedGraph.averages", refuse)
    settings = {"training": {"epochs": 2}, "encoder": {"name": "gcn", "hidden": 8}}
    scr.NodeClassifier(regularizer="none", recipe=settings).fit(make_random_graph())


def test_attention_counts_a_kept_loop_once():
    pairs = np.array([[0, 1, 2, 1, 2, 3], [1, 0, 1, 2, 2, 3]])
    made = [
        make_random_graph(nodes=60, edges=10).from_edges(
            edges, features=np.eye(5, 4, dtype=np.float32), labels=np.arange(5) % 2,
            train=[0, 1], valid=[2], test=[3], num_nodes=5, undirected=False, self_loops="keep",
        )
        for edges in (pairs, pairs[:, pairs[0] != pairs[1]])
    ]  # fmt: skip
    assert made[0].num_edges == made[1].num_edges + 2
    logits = []
    for graph in made:
        rows, encoder = rows_and_encoder(graph, "gat")
        logits.append(encoder(rows.batch(torch.arange(5))).detach())
    torch.testing.assert_close(*logits)


def test_features_that_do_not_fit_are_refused_before_they_are_copied(monkeypatch):
    monkeypatch.setattr("scr.training._prepare_graph.memory_budget", lambda asked: 1000)
    with pytest.raises(MemoryBudgetError, match=r"(?s)`gcn` reads all features.*such as `gamlp`"):
        rows_and_encoder(make_random_graph(), "gcn")


def test_separate_directions_are_refused():
    graph = make_random_graph(undirected=False)
    with pytest.raises(ConfigError, match=r"`propagation\.direction` is 'separate'; expected"):
        scr.NodeClassifier("gcn", propagation={"direction": "separate"}).fit(graph)
