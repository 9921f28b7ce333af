"""What others would use on a stranger's graph, each with its usual published settings.

    logistic      logistic regression on a node's own features
    boosting      gradient boosting on a node's own features (if wide, 64 columns of an SVD)
    sgc           logistic regression on two hops (Wu et al. 2019)
    gcn           Kipf and Welling 2017: 16 hidden units, dropout 0.5, weight decay 5e-4 on layer 1
    appnp         Gasteiger et al. 2019: 64 hidden units, 10 steps, alpha 0.1
    gcnii         Chen et al. 2020: 64 hidden units, 16 layers, alpha 0.1, theta 0.5
    c&s           Correct and Smooth over an MLP (Huang et al. 2020)

Each is given the features as its paper prepares them: rows that add up to 1. Layers are PyG's.
Networks train for at most 200 epochs (GCNII 500) and keep the weights of the best validation
accuracy, as their examples in PyG do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from scr.graph import Graph

Predictions = NDArray[np.integer[Any]]
WIDE = 256
"""Columns from which gradient boosting gets an SVD: it looks at every column at every split."""


def run_peer(name: str, graph: Graph, seed: int) -> Predictions:
    """Train a peer on the graph's training nodes and predict every node."""
    torch.manual_seed(seed)
    return PEERS[name](graph, seed)


def rows_that_add_up_to_one(graph: Graph) -> sp.csr_array:
    """Features as the papers of the peers prepare them."""
    features = sp.csr_array(graph.features, dtype=np.float32)
    sums = np.asarray(abs(features).sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(1 / np.where(sums == 0, 1, sums)) @ features)


def normalized_adjacency(graph: Graph) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2."""
    nodes = graph.num_nodes
    ones = np.ones(len(graph.indices), dtype=np.float32)
    edges = sp.csr_array((ones, graph.indices, graph.indptr), shape=(nodes, nodes))
    looped = sp.csr_array(edges + sp.eye_array(nodes, dtype=np.float32))
    scale = sp.diags_array(np.asarray(looped.sum(axis=1)).ravel() ** -0.5)
    return sp.csr_array((scale @ looped @ scale).astype(np.float32))


def _logistic(features: Any, graph: Graph) -> Predictions:
    from sklearn.linear_model import LogisticRegression

    best, answer = -1.0, None
    for inverse_penalty in (1.0, 10.0, 100.0, 1000.0):  # rows add up to 1: values are small
        model = LogisticRegression(C=inverse_penalty, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(features[graph.train], graph.labels[graph.train])
        found = model.predict(features)
        score = float((found[graph.valid] == graph.labels[graph.valid]).mean())
        if score > best:
            best, answer = score, found
    assert answer is not None
    return np.asarray(answer)


def logistic(graph: Graph, seed: int) -> Predictions:
    """A node's own features; the penalty is chosen on validation nodes."""
    return _logistic(rows_that_add_up_to_one(graph), graph)


def sgc(graph: Graph, seed: int) -> Predictions:
    """Two hops; the penalty is chosen on validation nodes."""
    adjacency = normalized_adjacency(graph)
    return _logistic(sp.csr_array(adjacency @ (adjacency @ rows_that_add_up_to_one(graph))), graph)


def boosting(graph: Graph, seed: int) -> Predictions:
    """Histogram gradient boosting with scikit-learn's defaults."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier

    features: Any = rows_that_add_up_to_one(graph)
    if features.shape[1] > WIDE:
        features = TruncatedSVD(64, random_state=seed).fit_transform(features)
    else:
        features = features.toarray()
    model = HistGradientBoostingClassifier(random_state=seed)
    model.fit(features[graph.train], graph.labels[graph.train])
    return np.asarray(model.predict(features))


class _Network(nn.Module):
    """GCN, APPNP or GCNII as in PyG's examples."""

    def __init__(self, kind: str, features: int, classes: int) -> None:
        super().__init__()
        from torch_geometric.nn import APPNP, GCN2Conv, GCNConv

        hidden = 16 if kind == "gcn" else 64
        self.kind = kind
        self.dropout = 0.6 if kind == "gcnii" else 0.5
        self.first = (GCNConv if kind == "gcn" else nn.Linear)(features, hidden)
        self.last = (GCNConv if kind == "gcn" else nn.Linear)(hidden, classes)
        self.steps = APPNP(K=10, alpha=0.1) if kind == "appnp" else None
        deep = range(16) if kind == "gcnii" else ()
        self.deep = nn.ModuleList(
            GCN2Conv(hidden, alpha=0.1, theta=0.5, layer=1 + layer) for layer in deep
        )

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ends = (edges,) if self.kind == "gcn" else ()
        x = F.dropout(x, self.dropout, self.training)
        x = start = F.relu(self.first(x, *ends))
        for layer in self.deep:
            x = F.relu(layer(F.dropout(x, self.dropout, self.training), start, edges))
        x = self.last(F.dropout(x, self.dropout, self.training), *ends)
        return x if self.steps is None else self.steps(x, edges)


def _network(kind: str) -> Callable[[Graph, int], Predictions]:
    def run(graph: Graph, seed: int) -> Predictions:
        x = torch.from_numpy(rows_that_add_up_to_one(graph).toarray())
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
        edges = torch.from_numpy(np.stack([rows, graph.indices]).astype(np.int64))
        network = _Network(kind, x.shape[1], graph.num_classes)
        early = {id(parameter) for parameter in network.first.parameters()}
        groups = [
            {"params": [p for p in network.parameters() if id(p) in early], "weight_decay": 5e-4},
            {
                "params": [p for p in network.parameters() if id(p) not in early],
                "weight_decay": 5e-4 if kind == "gcnii" else 0.0,
            },
        ]
        return _train(network, (x, edges), graph, groups, epochs=500 if kind == "gcnii" else 200)

    return run


def _train(
    network: nn.Module,
    inputs: tuple[Tensor, ...],
    graph: Graph,
    groups: list[dict[str, Any]],
    *,
    epochs: int,
) -> Predictions:
    optimizer = torch.optim.Adam(groups, lr=0.01)
    train = torch.from_numpy(np.asarray(graph.train, dtype=np.int64))
    targets = torch.from_numpy(np.asarray(graph.labels[graph.train], dtype=np.int64))
    best, answer = -1.0, np.zeros(0, dtype=np.int64)
    for _ in range(epochs):
        network.train()
        optimizer.zero_grad()
        F.cross_entropy(network(*inputs)[train], targets).backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            found = network(*inputs).argmax(dim=1).numpy()
        score = float((found[graph.valid] == graph.labels[graph.valid]).mean())
        if score > best:
            best, answer = score, found
    return answer


def correct_and_smooth(graph: Graph, seed: int) -> Predictions:
    """An MLP on a node's own features, then PyG's Correct and Smooth with its defaults."""
    from torch_geometric.nn import CorrectAndSmooth

    x = torch.from_numpy(rows_that_add_up_to_one(graph).toarray())
    mlp = nn.Sequential(
        nn.Dropout(0.5), nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(64, graph.num_classes),
    )  # fmt: skip
    groups = [{"params": list(mlp.parameters()), "weight_decay": 5e-4}]
    _train(mlp, (x,), graph, groups, epochs=200)
    mlp.eval()
    with torch.no_grad():
        soft = mlp(x).softmax(dim=1)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edges = torch.from_numpy(np.stack([rows, graph.indices]).astype(np.int64))
    train = torch.from_numpy(np.asarray(graph.train, dtype=np.int64))
    labels = torch.from_numpy(np.asarray(graph.labels[graph.train], dtype=np.int64))
    post = CorrectAndSmooth(50, 0.5, 50, 0.8, autoscale=True)
    corrected = post.correct(soft, labels, train, edges)
    return np.asarray(post.smooth(corrected, labels, train, edges).argmax(dim=1).numpy())


PEERS: dict[str, Callable[[Graph, int], Predictions]] = {
    "logistic": logistic,
    "boosting": boosting,
    "sgc": sgc,
    "gcn": _network("gcn"),
    "appnp": _network("appnp"),
    "gcnii": _network("gcnii"),
    "c&s": correct_and_smooth,
}
