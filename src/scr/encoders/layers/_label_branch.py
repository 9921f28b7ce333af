"""What the propagated training labels of a row say about its class, added to the logits.

With one label matrix (ogbn-products) an MLP reads it. With several (ogbn-papers100M keeps
all) each is first moved towards the last one, the nearer the more, because a training node's own
label comes back to it through short cycles; then recursive attention mixes them:

    l_k <- (1 - cos(k pi / 2L)) l_k + cos(k pi / 2L) l_{L-1},   k = 0..L-1

The code of SCR for ogbn-papers100M leaves the nearest one, l_0, as it is, and weighs them against a
summary of all of them: `JKLabelMixture`.

Paper: Zhang et al. 2022, "Graph Attention Multi-Layer Perceptron", arXiv:2206.04355.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from scr.encoders._base import EncoderConfig, ProblemShape
from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._recursive_attention import (
    AttentionActivation,
    attention_activation,
    recursive_weights,
)


class LabelMixture(nn.Module):
    """One label matrix out of several; one alone passes unchanged."""

    first_moved = 0
    """The nearest hop that is moved towards the last one."""

    def __init__(self, shape: ProblemShape, activation: AttentionActivation = "leaky_relu") -> None:
        super().__init__()
        self.activation: AttentionActivation = activation
        self.hops = hops = shape.label_hops
        if hops > 1:
            towards_last = torch.cos(torch.arange(hops) * math.pi / (2 * hops))
            towards_last[: self.first_moved] = 0
            self.towards_last: Tensor
            self.register_buffer("towards_last", towards_last, persistent=False)
            self._build_attention(shape.classes)

    def _build_attention(self, classes: int) -> None:
        # Xavier with relu's gain for a layer from (history, present) to one score.
        bound = math.sqrt(2) * math.sqrt(6 / (2 * classes + 1))
        self.vectors = nn.Parameter(torch.empty(2, classes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, labels: Tensor) -> Tensor:
        """From (rows, hops, classes) to (rows, classes)."""
        if self.hops == 1:
            return labels[:, 0]
        share = self.towards_last.to(labels.dtype)[:, None]
        labels = torch.lerp(labels, labels[:, -1:], share)
        return (self._weigh(labels).unsqueeze(-1) * labels).sum(1)

    def _weigh(self, labels: Tensor) -> Tensor:
        """Weights of the hops, shape (rows, hops)."""
        history, present = (labels @ self.vectors.t()).unbind(-1)
        return recursive_weights(history, present, self.bias, activation=self.activation)


class JKLabelMixture(LabelMixture):
    """JK attention over label hops, as in the code of SCR for ogbn-papers100M.

    r = relu(MLP(l_0 || ... || l_{L-1})),   weights = softmax_k(act(a.r + b.l_k + c))
    """

    first_moved = 1

    def __init__(
        self, config: EncoderConfig, shape: ProblemShape, activation: AttentionActivation,
        attention_dropout: float,
    ) -> None:  # fmt: skip
        self.config, self.attention_dropout = config, attention_dropout
        super().__init__(shape, activation)

    def _build_attention(self, classes: int) -> None:
        columns, layers = self.hops * classes, self.config.label_layers
        self.reference = FeedForward(self.config, columns, classes, layers=layers)
        self.score = nn.Linear(2 * classes, 1)

    def _weigh(self, labels: Tensor) -> Tensor:
        reference = torch.relu(self.reference(labels.flatten(1)))
        reference = dropout(reference, self.config.dropout, self.training)
        of_reference, of_hop = self.score.weight[0].chunk(2)
        scores = (reference @ of_reference).unsqueeze(-1) + labels @ of_hop + self.score.bias
        act = attention_activation(self.activation)
        return dropout(torch.softmax(act(scores), 1), self.attention_dropout, self.training)


class LabelBranch(nn.Module):
    """Logits from propagated labels, mixed by recursive attention if nothing else is said."""

    def __init__(
        self, config: EncoderConfig, shape: ProblemShape, mixture: LabelMixture | None = None
    ) -> None:
        super().__init__()
        self.label_dropout = config.label_dropout
        self.mixture = mixture or LabelMixture(shape)
        layers = config.label_layers
        self.perceptron = FeedForward(config, shape.classes, shape.classes, layers=layers)

    def forward(self, labels: Tensor) -> Tensor:
        """From (rows, label_hops, classes) to logits (rows, classes)."""
        labels = dropout(labels, self.label_dropout, self.training)
        logits: Tensor = self.perceptron(self.mixture(labels))
        return logits
