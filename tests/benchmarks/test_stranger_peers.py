"""Peers compute what PyG's layers compute."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

import scr

NODES, FEATURES, CLASSES = 60, 30, 4


@pytest.fixture
def peers(benchmark_module):
    pytest.importorskip("torch_geometric")
    return benchmark_module("stranger_peers")


@pytest.fixture
def graph():
    generator = np.random.default_rng(0)
    labels = np.arange(NODES) % CLASSES
    features = sp.random_array((NODES, FEATURES), density=0.1, rng=generator, format="lil")
    for node in range(NODES):
        features[node, labels[node]] = 1
    edges = generator.integers(0, NODES, (2, 150))
    edges[1, 50:] = (edges[0, 50:] + CLASSES * edges[1, 50:]) % NODES  # ends of the same class
    return scr.Graph.from_edges(
        edges, features=sp.csr_array(features, dtype=np.float32), labels=labels,
        train=np.arange(20), valid=np.arange(20, 40), test=np.arange(40, NODES),
    )  # fmt: skip


def as_pyg(peers, graph):
    rows = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    edges = torch.from_numpy(np.stack([graph.indices, rows]).astype(np.int64))
    return torch.from_numpy(peers.rows_of_unit_length(graph).toarray()), edges


def pyg_logits(network, x, edges):
    """The same weights in layers of PyG and torch."""
    from torch_geometric.nn import APPNP, GCN2Conv, GCNConv

    def through(layer, weights, *values):
        return torch.func.functional_call(layer, weights, values)

    if network.kind == "gcn":
        for ours in (network.first, network.last):
            weights = {"lin.weight": ours.weight.t(), "bias": ours.bias}
            x = through(GCNConv(*ours.weight.shape), weights, x, edges)
            x = F.relu(x) if ours is network.first else x
        return x
    x = start = F.relu(x @ network.first.weight + network.first.bias)
    for depth, weight in enumerate(network.deep):
        layer = GCN2Conv(64, alpha=0.1, theta=0.5, layer=depth + 1)
        x = F.relu(through(layer, {"weight1": weight}, x, start, edges))
    x = x @ network.last.weight + network.last.bias
    return APPNP(K=10, alpha=0.1)(x, edges) if network.kind == "appnp" else x


@pytest.mark.parametrize("kind", ["gcn", "appnp", "gcnii", "mlp"])
@pytest.mark.parametrize("dense_from", [0.0, 1.0])
def test_networks_and_their_gradients_are_those_of_pyg(peers, graph, kind, dense_from, monkeypatch):
    monkeypatch.setattr(peers, "DENSE", dense_from)
    torch.manual_seed(0)
    network = peers.Network(kind, FEATURES, CLASSES).eval()
    torch.nn.init.normal_(network.first.bias)
    inputs = peers.Inputs(graph)
    assert isinstance(inputs.features, torch.Tensor) == (dense_from == 0)
    ours, theirs = network(inputs), pyg_logits(network, *as_pyg(peers, graph))
    torch.testing.assert_close(ours, theirs)
    direction = torch.randn_like(ours)
    parameters = list(network.parameters())
    ours, theirs = (
        torch.autograd.grad((each * direction).sum(), parameters) for each in (ours, theirs)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_rows_have_unit_length_and_empty_ones_stay_empty(peers):
    features = np.array([[3, 4, 0], [0, 0, 0], [0, -2, 0]], np.float32)
    graph = scr.Graph.from_edges(np.array([[0], [1]]), features=features)
    expected = [[0.6, 0.8, 0], [0, 0, 0], [0, -1, 0]]
    np.testing.assert_allclose(peers.rows_of_unit_length(graph).toarray(), expected, rtol=1e-6)


def test_an_mlp_reads_rows_of_some_nodes_as_those_of_all(peers, graph):
    network = peers.Network("mlp", FEATURES, CLASSES)
    nodes = np.array([5, 2, 40])
    some = peers.evaluated(network, peers.Inputs(graph, nodes))
    torch.testing.assert_close(some, peers.evaluated(network, peers.Inputs(graph))[nodes])


def test_correct_and_smooth_is_that_of_pyg(peers, graph):
    from torch_geometric.nn import CorrectAndSmooth

    torch.manual_seed(0)
    soft = torch.randn(NODES, CLASSES).softmax(dim=1)
    _, edges = as_pyg(peers, graph)
    train = torch.arange(20)
    labels = torch.from_numpy(graph.labels[:20])
    post = CorrectAndSmooth(50, 0.5, 50, 0.8, autoscale=True)
    expected = post.smooth(post.correct(soft.clone(), labels, train, edges), labels, train, edges)
    torch.testing.assert_close(peers.smoothed(soft, graph), expected, rtol=1e-4, atol=1e-5)


def test_two_hop_logistic_regression_is_scikit_learns_on_the_hops_of_all_nodes(peers, graph):
    from sklearn.linear_model import LogisticRegression

    adjacency = peers.normalized_adjacency(graph)
    hops = (adjacency @ adjacency @ peers.rows_of_unit_length(graph)).toarray()
    fitted = [
        LogisticRegression(C=penalty, max_iter=200).fit(hops[:20], graph.labels[:20])
        for penalty in (1, 10, 100, 1000)
    ]
    best = max(fitted, key=lambda each: each.score(hops[20:40], graph.labels[20:40]))
    assert (peers.sgc(graph, 0) == best.predict(hops)).all()


@pytest.mark.parametrize("chance", [0.5, 0.6])
def test_dropout_keeps_the_mean_and_drops_its_share(peers, chance):
    x = torch.ones(400, 501)
    dropped = peers.dropout(x, chance, True)
    assert float((dropped == 0).float().mean()) == pytest.approx(chance, abs=0.01)
    assert float(dropped.max()) == pytest.approx(1 / (1 - chance), rel=1e-4)
    assert peers.dropout(x, chance, False) is x


def test_agreement_is_the_distance_to_the_sharpened_mean(peers, benchmark_module):
    # The mean is (0.6, 0.4), its squares 0.36 and 0.16, the target (9 / 13, 4 / 13).
    views = torch.tensor([[[0.5, 0.5]], [[0.7, 0.3]]])
    expected = ((9 / 13 - 0.5) ** 2 + (9 / 13 - 0.7) ** 2) * 2 / 2
    assert float(benchmark_module("stranger_grand").agreement(views)) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["logistic", "boosting", "gcn", "c&s", "grand"])
def test_a_peer_repeats_itself_and_finds_classes_that_features_name(peers, graph, name):
    first, again = (peers.run_peer(name, graph, 3) for _ in range(2))
    assert (first == again).all()
    if name != "boosting":  # of five examples per class it makes nothing
        assert (first == graph.labels)[graph.train].mean() > 0.7
