"""What others would use on a stranger's graph, each with its usual published settings.

    logistic      logistic regression on a node's own features
    boosting      gradient boosting on a node's own features (if wide, 64 columns of an SVD)
    sgc           logistic regression on two hops (Wu et al. 2019)
    gcn           Kipf and Welling 2017: 16 hidden units, dropout 0.5, weight decay 5e-4 on layer 1
    appnp         Gasteiger et al. 2019: 64 hidden units, 10 steps, alpha 0.1
    gcnii         Chen et al. 2020: 64 hidden units, 16 layers, alpha 0.1, theta 0.5, dropout
                  0.6, weight decay 0.01 on convolutions and 5e-4 on the first and last layer
    c&s           Correct and Smooth over an MLP (Huang et al. 2020): 50 steps with alpha 0.5,
                  scaled by itself, then 50 with 0.8
    grand         Feng et al. 2020, settings of the authors' script for Cora

Rows of features have unit length. In the papers they add up to 1; with many words per node that
makes numbers so small that 200 epochs do not suffice (GCN reaches 33 percent on amazon photo), and
on Cora's public split both reach what was published. Networks train for 200 epochs and keep the
weights of the best validation accuracy, as their examples in PyG do; GCNII trains for at most 500
and stops after 100 without a lower validation loss, GRAND stops and chooses as its authors' code
does. Layers compute what PyG's compute (tests compare them), on features and an adjacency that stay
sparse: dropout drops stored numbers only, since zeros stay zero anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from scr.graph import Graph

Predictions = NDArray[np.integer[Any]]
WIDE = 256
"""Columns from which gradient boosting gets an SVD: it looks at every column at every split."""
DENSE = 0.25
"""Share of stored numbers from which features are multiplied as a dense matrix."""


def run_peer(name: str, graph: Graph, seed: int) -> Predictions:
    """Train a peer on the graph's training nodes and predict every node."""
    torch.manual_seed(seed)
    _noise.state = np.random.SFC64(seed).state
    return PEERS[name](graph, seed)


def rows_of_unit_length(graph: Graph) -> sp.csr_array:
    """Features as peers are given them."""
    features = sp.csr_array(graph.features, dtype=np.float32)
    lengths = np.asarray(features.multiply(features).sum(axis=1)).ravel() ** 0.5
    scaled = sp.diags_array(1 / np.where(lengths == 0, 1, lengths)) @ features
    return sp.csr_array(scaled, dtype=np.float32)


def normalized_adjacency(graph: Graph, *, loops: bool = True) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2, or without I."""
    nodes = graph.num_nodes
    ones = np.ones(len(graph.indices), dtype=np.float32)
    edges = sp.csr_array((ones, graph.indices, graph.indptr), shape=(nodes, nodes))
    if loops:
        edges = sp.csr_array(edges + sp.eye_array(nodes, dtype=np.float32))
    degrees = np.asarray(edges.sum(axis=1)).ravel()
    scale = sp.diags_array(np.where(degrees == 0, 0, np.where(degrees == 0, 1, degrees) ** -0.5))
    return sp.csr_array((scale @ edges @ scale).astype(np.float32))


def logistic(graph: Graph, seed: int) -> Predictions:
    """A node's own features; the penalty is chosen on validation nodes."""
    features = rows_of_unit_length(graph)
    return _logistic(features[graph.train], lambda weights: features @ weights, graph)


def sgc(graph: Graph, seed: int) -> Predictions:
    """Two hops; the penalty is chosen on validation nodes."""
    adjacency, features = normalized_adjacency(graph), rows_of_unit_length(graph)
    rows = (adjacency[graph.train] @ adjacency) @ features
    # Hops of all nodes fill memory, those of their scores do not: both are A A X W.
    return _logistic(rows, lambda weights: adjacency @ (adjacency @ (features @ weights)), graph)


def _logistic(
    rows: sp.csr_array, product: Callable[[NDArray[Any]], NDArray[Any]], graph: Graph
) -> Predictions:
    """Fit training rows; `product` multiplies the rows of all nodes with weights."""
    from sklearn.linear_model import LogisticRegression

    best, answer = -1.0, np.zeros(0, dtype=np.int64)
    for inverse_penalty in (1.0, 10.0, 100.0, 1000.0):
        model = LogisticRegression(C=inverse_penalty, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, graph.labels[graph.train])
        scores = product(model.coef_.T) + model.intercept_
        if scores.shape[1] == 1:
            scores = np.hstack([-scores, scores])
        predictions = model.classes_[scores.argmax(axis=1)]
        accuracy = float((predictions[graph.valid] == graph.labels[graph.valid]).mean())
        if accuracy > best:
            best, answer = accuracy, predictions
    return answer


def boosting(graph: Graph, seed: int) -> Predictions:
    """Histogram gradient boosting with scikit-learn's defaults."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier

    features: Any = rows_of_unit_length(graph)
    if features.shape[1] > WIDE:
        features = TruncatedSVD(64, random_state=seed).fit_transform(features)
    else:
        features = features.toarray()
    model = HistGradientBoostingClassifier(random_state=seed)
    model.fit(features[graph.train], graph.labels[graph.train])
    return np.asarray(model.predict(features))


_noise = np.random.SFC64(0)


def dropout(x: Tensor, chance: float, training: bool) -> Tensor:
    """As torch's, whose generator takes most of an epoch: 16 random bits for each number."""
    if not training:
        return x
    threshold = round(chance * 65536)
    bits = _noise.random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    kept = torch.from_numpy((bits >= threshold).reshape(x.shape))
    return x * kept.to(x.dtype).mul_(65536 / (65536 - threshold))


class Matrix:
    """A sparse matrix that multiplies tensors, with gradients for them."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.shape = matrix.shape
        self.values = torch.from_numpy(np.asarray(matrix.data, np.float32))
        self._places = _places(matrix)
        numbered = sp.csr_array(
            (np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape
        ).T.tocsr()
        self._turned = _places(numbered)
        self._order = torch.from_numpy(numbered.data)

    def times(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        """A x, perhaps with other numbers in the places of A's."""
        chosen = self.values if values is None else values
        product: Tensor = _Product.apply(x, self, chosen)  # type: ignore[no-untyped-call]
        return product

    def product(self, x: Tensor, values: Tensor) -> Tensor:
        """A x without a gradient."""
        return torch.sparse_csr_tensor(*self._places, values, self.shape) @ x

    def turned_product(self, x: Tensor, values: Tensor) -> Tensor:
        """A^T x without a gradient."""
        shape = self.shape[::-1]
        return torch.sparse_csr_tensor(*self._turned, values[self._order], shape) @ x.contiguous()


def _places(matrix: sp.csr_array) -> tuple[Tensor, Tensor]:
    parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Matrix, values: Tensor) -> Tensor:
        ctx.matrix, ctx.values = matrix, values
        return matrix.product(x, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.turned_product(gradient, ctx.values), None, None


@dataclass(frozen=True, eq=False)
class Inputs:
    """A graph as networks read it, or some rows of its features alone."""

    graph: Graph
    nodes: NDArray[Any] | None = None

    @cached_property
    def features(self) -> Matrix | Tensor:
        """Sparse where most numbers are zero."""
        rows = rows_of_unit_length(self.graph)
        rows = rows if self.nodes is None else rows[self.nodes]
        if rows.nnz > DENSE * rows.shape[0] * rows.shape[1]:
            return torch.from_numpy(rows.toarray())
        return Matrix(rows)

    @cached_property
    def adjacency(self) -> Matrix:
        """With loops, normalized."""
        return Matrix(normalized_adjacency(self.graph))

    def projected(self, weight: Tensor, chance: float, training: bool) -> Tensor:
        """X W after dropout on X."""
        if isinstance(self.features, Tensor):
            return dropout(self.features, chance, training) @ weight
        return self.features.times(weight, dropout(self.features.values, chance, training))


class Layer(nn.Module):
    """Weights of shape (inputs, outputs) and a bias, initialized as PyG or torch would."""

    def __init__(self, inputs: int, outputs: int, *, glorot: bool) -> None:
        super().__init__()
        bound = (6 / (inputs + outputs)) ** 0.5 if glorot else inputs**-0.5
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        small = 0.0 if glorot else bound
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-small, small))


class Network(nn.Module):
    """GCN, APPNP, GCNII or, without a graph, an MLP."""

    def __init__(self, kind: str, features: int, classes: int) -> None:
        super().__init__()
        hidden, glorot = 16 if kind == "gcn" else 64, kind == "gcn"
        self.kind = kind
        self.dropout = 0.6 if kind == "gcnii" else 0.5
        self.first = Layer(features, hidden, glorot=glorot)
        self.last = Layer(hidden, classes, glorot=glorot)
        bound = (6 / (hidden + hidden)) ** 0.5
        self.deep = nn.ParameterList(
            torch.empty(hidden, hidden).uniform_(-bound, bound)
            for _ in range(16 if kind == "gcnii" else 0)
        )

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits of all nodes."""
        x = inputs.projected(self.first.weight, self.dropout, self.training)
        if self.kind == "gcn":
            x = inputs.adjacency.times(x)
        x = start = F.relu(x + self.first.bias)
        for depth, weight in enumerate(self.deep):
            x = inputs.adjacency.times(dropout(x, self.dropout, self.training))
            x = torch.lerp(x, start, 0.1)
            share = log(0.5 / (1 + depth) + 1)
            x = F.relu(torch.addmm(x, x, weight, beta=1 - share, alpha=share))
        x = dropout(x, self.dropout, self.training) @ self.last.weight
        if self.kind == "gcn":
            return inputs.adjacency.times(x) + self.last.bias
        x = start = x + self.last.bias
        for _ in range(10 if self.kind == "appnp" else 0):
            x = torch.lerp(inputs.adjacency.times(x), start, 0.1)
        return x

    def groups(self) -> list[dict[str, Any]]:
        """Parameters with their weight decays."""
        early, late = list(self.first.parameters()), list(self.last.parameters())
        if self.kind in ("gcn", "appnp"):
            return [{"params": early, "weight_decay": 5e-4}, {"params": late}]
        deep = {"params": list(self.deep), "weight_decay": 0.01}
        both = {"params": early + late, "weight_decay": 5e-4}
        return [both, deep] if self.deep else [both]


def trained(kind: str, graph: Graph) -> Tensor:
    """Logits of a network with the weights of the best validation accuracy."""
    network = Network(kind, graph.features.shape[1], graph.num_classes)
    optimizer = torch.optim.Adam(network.groups(), lr=0.01)
    whole = seen = Inputs(graph)
    train, targets = labeled(graph, graph.train)
    valid, truth = labeled(graph, graph.valid)
    if kind == "mlp":  # without a graph, other nodes have no part in it
        seen = Inputs(graph, np.concatenate([graph.train, graph.valid]))
        train, valid = torch.arange(len(train) + len(valid)).tensor_split([len(train)])
    best, state, lowest, waited = -1.0, network.state_dict(), float("inf"), 0
    for _ in range(500 if kind == "gcnii" else 200):
        network.train()
        optimizer.zero_grad()
        F.cross_entropy(network(seen)[train], targets).backward()
        optimizer.step()
        logits = evaluated(network, seen)[valid]
        accuracy = float((logits.argmax(dim=1) == truth).float().mean())
        if accuracy > best:
            best = accuracy
            state = {name: value.clone() for name, value in network.state_dict().items()}
        loss = float(F.cross_entropy(logits, truth))
        lowest, waited = (loss, 0) if loss < lowest else (lowest, waited + 1)
        if kind == "gcnii" and waited == 100:
            break
    network.load_state_dict(state)
    return evaluated(network, whole)


def evaluated(network: Network, inputs: Inputs) -> Tensor:
    """Logits without dropout and gradients."""
    network.eval()
    with torch.no_grad():
        logits: Tensor = network(inputs)
    return logits


def labeled(graph: Graph, nodes: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Nodes and their classes as tensors."""
    pair = nodes, graph.labels[nodes]
    places, classes = (torch.from_numpy(np.asarray(each, dtype=np.int64)) for each in pair)
    return places, classes


def _network(kind: str) -> Callable[[Graph, int], Predictions]:
    def run(graph: Graph, seed: int) -> Predictions:
        return np.asarray(trained(kind, graph).argmax(dim=1).numpy())

    return run


def correct_and_smooth(graph: Graph, seed: int) -> Predictions:
    """An MLP on a node's own features, then Correct and Smooth."""
    soft = trained("mlp", graph).softmax(dim=1)
    return np.asarray(smoothed(soft, graph).argmax(dim=1).numpy())


def smoothed(soft: Tensor, graph: Graph) -> Tensor:
    """Correct and Smooth as in PyG's `CorrectAndSmooth(50, 0.5, 50, 0.8, autoscale=True)`."""
    adjacency = Matrix(normalized_adjacency(graph, loops=False))
    train, classes = labeled(graph, graph.train)
    hot = F.one_hot(classes, soft.shape[1]).to(soft.dtype)

    def spread(start: Tensor, alpha: float, low: float) -> Tensor:
        x = start
        for _ in range(50):
            x = (alpha * adjacency.times(x) + (1 - alpha) * start).clamp(low, 1)
        return x

    error = torch.zeros_like(soft)
    error[train] = hot - soft[train]
    wide = spread(error, 0.5, -1.0)
    scale = error[train].abs().sum() / len(train) / wide.abs().sum(dim=1, keepdim=True)
    scale[scale.isinf() | (scale > 1000)] = 1.0
    corrected = soft + scale * wide
    corrected[train] = hot
    return spread(corrected, 0.8, 0.0)


def grand(graph: Graph, seed: int) -> Predictions:
    """Random propagation."""
    from stranger_grand import predictions

    return predictions(graph)


PEERS: dict[str, Callable[[Graph, int], Predictions]] = {
    "logistic": logistic,
    "boosting": boosting,
    "sgc": sgc,
    "gcn": _network("gcn"),
    "appnp": _network("appnp"),
    "gcnii": _network("gcnii"),
    "c&s": correct_and_smooth,
    "grand": grand,
}
