"""GRAND (Feng et al. 2020), a peer of `stranger_peers.py`: random propagation, four times an epoch.

Settings are those of the authors' script for Cora: nodes dropped by 0.5, the mean of hops 0 to 8,
an MLP with 32 hidden units and dropout 0.5, T = 0.5, lambda = 1; it stops after 200 epochs without
a lower validation loss or a higher accuracy, and keeps the weights of the lowest loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from scr.graph import Graph
from stranger_peers import Matrix, dropout, labeled, normalized_adjacency, rows_of_unit_length


def predictions(graph: Graph) -> NDArray[np.integer[Any]]:
    """Train on the graph's training nodes and predict every node."""
    x = torch.from_numpy(rows_of_unit_length(graph).toarray())
    adjacency = Matrix(normalized_adjacency(graph))
    first, last = nn.Linear(x.shape[1], 32), nn.Linear(32, graph.num_classes)
    parameters = [*first.parameters(), *last.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
    train, targets = labeled(graph, graph.train)
    valid, truth = labeled(graph, graph.valid)

    def mixed(rows: Tensor) -> Tensor:
        """The mean of hops 0 to 8."""
        total = hop = rows
        for _ in range(8):
            hop = adjacency.times(hop)
            total = total + hop
        return total / 9

    def log_probabilities(rows: Tensor, training: bool) -> Tensor:
        hidden = F.relu(first(dropout(rows, 0.5, training)))
        return F.log_softmax(last(dropout(hidden, 0.5, training)), dim=1)

    whole = mixed(0.5 * x)  # the authors' code scales down here, not up where nodes are dropped
    lowest = chosen_loss = float("inf")
    highest, waited, answer = -1.0, 0, torch.zeros(0)
    for _ in range(5000):
        optimizer.zero_grad()
        masks = torch.bernoulli(torch.full((4, len(x), 1), 0.5))
        views = [log_probabilities(mixed(x * mask), True) for mask in masks]
        loss = torch.stack([F.nll_loss(view[train], targets) for view in views]).mean()
        (loss + agreement(torch.stack(views).exp())).backward()
        optimizer.step()
        with torch.no_grad():
            found = log_probabilities(whole, False)
        accuracy = float((found[valid].argmax(dim=1) == truth).float().mean())
        valid_loss = float(F.nll_loss(found[valid], truth))
        waited += 1
        if valid_loss <= lowest or accuracy >= highest:
            if valid_loss <= chosen_loss:
                chosen_loss, answer = valid_loss, found.argmax(dim=1)
            lowest, highest, waited = min(lowest, valid_loss), max(highest, accuracy), 0
        if waited == 200:
            break
    return np.asarray(answer.numpy())


def agreement(views: Tensor) -> Tensor:
    """GRAND's consistency term of probabilities, shape (views, nodes, classes); T = 0.5."""
    squares = views.mean(dim=0) ** 2
    target = (squares / squares.sum(dim=1, keepdim=True)).detach()
    return ((views - target) ** 2).sum(dim=2).mean()
