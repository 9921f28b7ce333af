"""Embeddings from relations: scores by hand, planted structure, interruption, what is kept."""

import builtins
import dataclasses

import numpy as np
import pytest
import torch
from tests.typed_features.typed_graphs import academic_graph, planted_graph

from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.features import FeatureConfig
from scr.graph import Graph
from scr.sources import load_graph
from scr.typed_features import complete_features
from scr.typed_features._embedding_model import EmbeddingModel
from scr.typed_features._embedding_training import CANDIDATES, EmbeddingTraining
from scr.typed_features._embeddings import embed
from scr.typed_features._triples import triples_of

MODELS = ("transe", "distmult", "complex")
HEADS, RELATIONS, TAILS = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 0]), torch.tensor([3, 0, 1])


def settings(model, **changes):
    defaults = {"embedding_epochs": 6, "embedding_batch": 128, "embedding_held_out": 0.1}
    return FeatureConfig(missing=model, **(defaults | changes))


def test_transe_scores_are_distances_of_translations():
    model = EmbeddingModel("transe", 4, 2, 3, seed=0)
    nodes = model.module.node_emb.weight.detach().numpy()
    relations = model.module.rel_emb.weight.detach().numpy()
    unit = nodes / np.linalg.norm(nodes, axis=1, keepdims=True)
    by_hand = [
        -np.sqrt(sum((unit[h, d] + relations[r, d] - unit[t, d]) ** 2 for d in range(3)))
        for h, r, t in zip(HEADS, RELATIONS, TAILS, strict=True)
    ]
    found = model.scores(HEADS, RELATIONS, TAILS).detach()
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    np.testing.assert_allclose(model.node_rows(), unit, rtol=1e-6)


def test_distmult_scores_are_sums_of_threefold_products():
    model = EmbeddingModel("distmult", 4, 2, 3, seed=0)
    nodes = model.module.node_emb.weight.detach().numpy()
    relations = model.module.rel_emb.weight.detach().numpy()
    by_hand = [
        sum(nodes[h, d] * relations[r, d] * nodes[t, d] for d in range(3))
        for h, r, t in zip(HEADS, RELATIONS, TAILS, strict=True)
    ]
    found = model.scores(HEADS, RELATIONS, TAILS).detach()
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    np.testing.assert_array_equal(model.node_rows(), nodes)


@pytest.mark.parametrize("width", [6, 5])
def test_complex_scores_are_real_parts_of_hermitian_products(width):
    model = EmbeddingModel("complex", 4, 2, width, seed=0)
    parts = {name: value.detach().numpy() for name, value in model.module.named_parameters()}
    nodes = parts["node_emb.weight"] + 1j * parts["node_emb_im.weight"]
    relations = parts["rel_emb.weight"] + 1j * parts["rel_emb_im.weight"]
    by_hand = [
        (nodes[h] * relations[r] * nodes[t].conj()).sum().real
        for h, r, t in zip(HEADS, RELATIONS, TAILS, strict=True)
    ]
    found = model.scores(HEADS, RELATIONS, TAILS).detach()
    np.testing.assert_allclose(found, by_hand, rtol=1e-4, atol=1e-6)
    both = np.concatenate([nodes.real, nodes.imag], axis=1)
    np.testing.assert_array_equal(model.node_rows(), both[:, :width])


def test_losses_are_the_papers():
    true, corrupted = torch.tensor([2.0, 0.5]), torch.tensor([[0.0, 1.5], [0.0, 3.0]])
    margin = EmbeddingModel("transe", 2, 1, 2, seed=0).loss(true, corrupted)
    assert float(margin) == pytest.approx((0 + 0.5 + 0.5 + 3.5) / 4)
    logistic = EmbeddingModel("complex", 2, 1, 2, seed=0).loss(true, corrupted)
    above = np.log1p(np.exp(-true.numpy())).mean()
    below = np.log1p(np.exp(corrupted.numpy())).mean()
    assert float(logistic) == pytest.approx((above + below) / 2)


def test_triples_are_the_edges_along_their_relations():
    graph = Graph.from_relations(
        {("a", "x", "b"): [[0, 1], [1, 0]], ("b", "y", "b"): [[0], [1]]},
        target="a", num_nodes={"a": 2, "b": 2},
    )  # fmt: skip
    found = triples_of(graph)
    listed = set(zip(*(each.tolist() for each in (found.heads, found.relations, found.tails)),
                     strict=True))  # fmt: skip
    assert listed == {(0, 0, 3), (1, 0, 2), (2, 1, 3)}
    assert len(found) == 3


def test_corrupted_triples_have_one_other_end_of_the_same_type():
    graph = academic_graph()
    triples = triples_of(graph)
    heads, tails = triples.corrupted(40, np.random.default_rng(0))
    changed_head, changed_tail = heads != triples.heads[:, None], tails != triples.tails[:, None]
    assert not (changed_head & changed_tail).any()
    assert changed_head.any()
    assert changed_tail.any()
    kind = np.repeat(np.arange(4), list(graph.node_types.values()))
    assert (kind[heads] == kind[triples.heads][:, None]).all()
    assert (kind[tails] == kind[triples.tails][:, None]).all()
    # Every node of a type is drawn: 40 draws for each of at least 8 edges miss none of 12.
    assert {*np.unique(heads), *np.unique(tails)} == set(range(graph.num_nodes))


@pytest.mark.parametrize("model", MODELS)
def test_true_edges_of_planted_groups_rank_above_corrupted_ones(model):
    config = settings(model, embedding_epochs=20, embedding_patience=20)
    training = EmbeddingTraining(planted_graph(), config, 16, "cpu")
    chance = (CANDIDATES + 2) / 2
    assert training.mean_rank() == pytest.approx(chance, rel=0.25)
    rows = training.run(None, 0, None)
    # A quarter of the corrupted edges are true ones: a rank below 7 or so would be overfitting.
    assert training.best_rank < 0.5 * chance
    group = np.repeat(np.arange(4), 12)
    items = rows[:48] / np.linalg.norm(rows[:48], axis=1, keepdims=True)
    alike = items @ items.T
    same = group[:, None] == group[None, :]
    assert alike[same].mean() > alike[~same].mean() + 0.3


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(threads):
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    expected = embed(planted_graph(), settings("distmult"), 8)
    try:
        torch.set_num_threads(threads)
        assert embed(planted_graph(), settings("distmult"), 8).tobytes() == expected.tobytes()
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.random.get_rng_state(), state)
    other = embed(planted_graph(), settings("distmult", embedding_seed=1), 8)
    assert other.tobytes() != expected.tobytes()


def test_training_ends_when_held_out_edges_rank_no_better():
    config = settings("transe", embedding_epochs=500, embedding_patience=2)
    training = EmbeddingTraining(planted_graph(2, 6), config, 4, "cpu")
    training.run(None, 0, None)
    assert training.epoch == training.best_epoch + 2 < 500


def test_without_held_out_edges_every_epoch_is_run():
    config = settings("transe", embedding_held_out=0.0, embedding_patience=1)
    told = []
    training = EmbeddingTraining(planted_graph(), config, 8, "cpu")
    training.run(None, 0, lambda *words: told.append(words))
    assert told == [("Embedding", done, 6) for done in range(1, 7)]
    assert training.best_epoch == 6


class Killed(BaseException):
    """As if the process had been stopped."""


def stop_after(epoch):
    def on_progress(words, done, total):
        # The state of an epoch is written after it is told of, so one more is lost.
        if done == epoch:
            raise Killed

    return on_progress


@pytest.mark.parametrize("model", MODELS)
def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(tmp_path, model):
    config = settings(model, embedding_patience=6)
    expected = embed(planted_graph(), config, 8)
    graph = load_graph(planted_graph().save(tmp_path / "store"))
    with pytest.raises(Killed):
        embed(graph, config, 8, on_progress=stop_after(4), checkpoint_seconds=0)
    (checkpoint,) = (graph.path / "features").glob("*.checkpoint")
    told = []
    made = embed(graph, config, 8, on_progress=lambda *words: told.append(words[1]))
    assert told == [4, 5, 6]
    assert made.tobytes() == expected.tobytes()
    assert not checkpoint.exists()


def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path):
    config = settings("transe", embedding_patience=6)
    graph = load_graph(planted_graph().save(tmp_path / "store"))
    with pytest.raises(Killed):
        embed(graph, config, 8, on_progress=stop_after(4), checkpoint_seconds=0)
    (file,) = (graph.path / "features").glob("*.checkpoint/best.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match=r"best\.npy` has changed.*it is made again"):
        made = embed(graph, config, 8)
    assert made.tobytes() == embed(planted_graph(), config, 8).tobytes()


def test_embeddings_beside_a_store_are_trained_once_and_again_if_damaged(tmp_path):
    graph, config = load_graph(planted_graph().save(tmp_path / "store")), settings("transe")
    told = []

    def tell(*words):
        told.append(words)

    first = embed(graph, config, 8, on_progress=tell)
    assert told
    told.clear()
    assert embed(graph, config, 8, on_progress=tell).tobytes() == first.tobytes()
    # Which rows are used does not change how they are trained.
    embed(graph, dataclasses.replace(config, embedding_types="all"), 8, on_progress=tell)
    assert not told
    expected = first.tobytes()
    (file,) = (graph.path / "features").glob("embeddings-*/nodes.npy")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.warns(UserWarning, match=r"nodes\.npy` is truncated.*it is made again"):
        assert embed(graph, config, 8, on_progress=tell).tobytes() == expected
    assert told


@pytest.mark.parametrize("model", MODELS)
def test_types_without_features_get_embeddings_as_long_as_features(model):
    graph = academic_graph()
    config = settings(model, scale="none")
    made = complete_features(graph, config)
    np.testing.assert_array_equal(made.matrix[:12], graph.features)
    trained = embed(graph, config, 5)[12:]
    ratio = made.matrix[12:] / trained
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-4)
    lengths = [np.sqrt((rows**2).sum(axis=1).mean()) for rows in (graph.features, made.matrix[12:])]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)


def test_all_types_may_have_embeddings_instead_of_features():
    config = settings("transe", embedding_types="all", embedding_width=6)
    made = complete_features(academic_graph(), config)
    assert made.matrix.shape == (26, 6)
    np.testing.assert_allclose(made.matrix, embed(academic_graph(), config, 6), rtol=1e-4)


def test_a_graph_of_one_type_without_features_may_be_embedded(random_graph):
    made = complete_features(random_graph(features=None), settings("distmult", embedding_width=4))
    assert made.matrix.shape == (60, 4)


def test_embeddings_serve_no_other_graph():
    config = settings("transe")
    fitted = complete_features(academic_graph(), config).fitted
    again = complete_features(academic_graph(), config, fitted)
    assert again.matrix.any()
    with pytest.raises(GraphError, match=r"embeddings of nodes \(transe\)(.|\n)*average"):
        complete_features(academic_graph(seed=1), config, fitted)


def test_without_torch_geometric_one_sentence_says_what_to_install(monkeypatch):
    plain = builtins.__import__

    def refuse(name, *arguments, **named):
        if name.startswith("torch_geometric"):
            raise ImportError(name)
        return plain(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        ConfigError, match=r"torch_geometric is not installed(.|\n)*install torch-geometric"
    ):
        EmbeddingModel("transe", 2, 1, 2, seed=0)


def test_a_graph_without_edges_cannot_be_embedded():
    graph = Graph.from_edges(np.zeros((2, 0), int), num_nodes=3)
    with pytest.raises(GraphError, match="no edges to learn embeddings from"):
        complete_features(graph, settings("transe"))


def test_embeddings_that_do_not_fit_the_memory_are_refused():
    with pytest.raises(MemoryBudgetError, match="Training embeddings of 26 nodes"):
        embed(academic_graph(), settings("transe"), 5, memory="1MB")
