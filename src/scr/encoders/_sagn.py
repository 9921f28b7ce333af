"""SAGN: several heads, each weighing the hops by attention to a focal one.

Paper: Sun et al. 2021, "Scalable and Adaptive Graph Neural Networks with Self-Label-Enhanced
Training", arXiv:2104.09376.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from scr.config import Chance, Count, Share
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders._explanation import evaluating, watched_weights
from scr.encoders.fused import activate, dropout, make_norm
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._grouped_linear import GroupedLinear
from scr.encoders.layers._hop_mixture import Weigh
from scr.encoders.layers._label_branch import LabelMixture

_NEGATIVE_SLOPE = 0.2  # of the leaky relu before the softmax


@dataclass(frozen=True, kw_only=True)
class SAGNConfig(EncoderConfig):
    """Settings of `SAGN`; defaults are those for ogbn-products."""

    hidden: Count = 512
    """Width of hidden layers per head, and of each hop's result."""
    layers: Count = 2
    """Linear layers of the MLP after the attention."""
    hop_layers: Count = 2
    """Linear layers of each hop's MLP, at least 1."""
    heads: Count = 1
    """Attentions side by side; the logits are their mean."""
    input_dropout: Chance = 0.2
    attention_dropout: Chance = 0.4
    """Chance that an attention weight is dropped out."""
    label_dropout: Chance = 0.5
    """Chance that a hidden unit of the label branch is dropped out."""
    weight_style: Literal["attention", "uniform", "exponent"] = "attention"
    """Weights of the hops: learned; all alike; or alpha^k."""
    alpha: Share = 0.5
    """Base of the `exponent` weights."""
    focal: Literal["first", "last", "average"] = "first"
    """What each hop is compared with."""
    hop_norm: Literal["softmax", "sigmoid", "tanh"] = "softmax"
    """From scores to weights; only softmax makes them add up to 1."""
    position_embedding: bool = False
    """Add a learned vector per hop to its features."""
    zero_inits: bool = True
    """Start with equal attention for all hops."""
    residual: bool = True
    """Add a projection of the node's own features to the mixture."""


class SAGN(Encoder):
    """An MLP per hop and head, attention over the hops, an MLP per head."""

    name = "sagn"
    config_class = SAGNConfig

    def __init__(self, config: SAGNConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.config = config
        heads, hidden = config.heads, config.hidden
        self.branches = FeedForward(
            config, shape.features, hidden, layers=config.hop_layers, groups=shape.hops,
            heads=heads, activation="relu",
        )  # fmt: skip
        # Of Xavier's normal initialization for a (1, heads, hidden) tensor, with relu's gain.
        spread = 0.0 if config.zero_inits else 2 / math.sqrt(hidden * (heads + 1))
        self.attention = (
            nn.Parameter(torch.empty(heads, 2, hidden).normal_(0, 1) * spread)
            if config.weight_style == "attention"
            else None
        )
        self.positions = (
            nn.Parameter(nn.init.xavier_normal_(torch.empty(shape.hops, shape.features)))
            if config.position_embedding
            else None
        )
        self.residual = (
            GroupedLinear(1, shape.features, heads * hidden, bias=False)
            if config.residual
            else None
        )
        self.norm = make_norm(config.norm, heads * hidden, heads)
        self.output = FeedForward(
            config, hidden, shape.classes, layers=config.layers, groups=heads, activation="relu"
        )
        self.label_branch = _LabelHeads(config, shape) if shape.label_hops else None

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        hops = self._inputs(batch)
        mixed = self._mix(hops, self._weigh).flatten(1)
        if self.residual is not None:
            mixed = torch.addmm(mixed, hops[:, 0], self.residual.weight[0])
        mixed = activate(
            mixed, self.norm, chance=self.config.dropout, training=self.training, overwrite=True
        )
        logits = self.output(mixed.unflatten(1, (self.config.heads, -1))).mean(1)
        return self.with_labels(logits, batch.labels)

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """Weights of the hops, mean over the heads; they add up to 1 after a softmax only."""
        with evaluating(self):
            hops = self._inputs(batch)
            return watched_weights(lambda weigh: self._mix(hops, weigh), self._weigh)

    def _inputs(self, batch: HopBatch) -> Tensor:
        hops = dropout(batch.hops, self.config.input_dropout, self.training)
        return hops if self.positions is None else hops + self.positions

    def _mix(self, hops: Tensor, weigh: Weigh) -> Tensor:
        """MLPs of the hops and attention: to (rows, heads, columns)."""
        vectors: Tensor | None = self.attention
        if vectors is None:
            vectors = hops.new_zeros(self.config.heads, 0, self.config.hidden)
        return self.branches.attend(hops, vectors, hops.new_zeros(0), weigh)

    def _weigh(self, dots: Tensor, _: Tensor) -> Tensor:
        """Weights of shape (rows, hops, heads)."""
        rows, hops, heads, _vectors = dots.shape
        style = self.config.weight_style
        if style == "uniform":
            return dots.new_full((rows, hops, heads), 1 / hops)
        if style == "exponent":
            powers = self.config.alpha ** torch.arange(hops, dtype=dots.dtype, device=dots.device)
            return powers[None, :, None].expand(rows, hops, heads)
        hop, focal = dots[..., 0], self._focal(dots[..., 1])
        scores = hop + focal
        if self.config.hop_norm == "softmax":
            weights = _softmax(hop, focal)
        else:
            weights = scores.sigmoid() if self.config.hop_norm == "sigmoid" else scores.tanh()
        return dropout(weights, self.config.attention_dropout, self.training)

    def _focal(self, dots: Tensor) -> Tensor:
        """What the focal hop's dot product is; of the average, it is the average's."""
        if self.config.focal == "average":
            return dots.mean(1, keepdim=True)
        return dots[:, :1] if self.config.focal == "first" else dots[:, -1:]


def _softmax(hop: Tensor, focal: Tensor) -> Tensor:
    """Softmax over the hops of the leaky relu of ``hop + focal``, up to rounding.

    What a row's scores share does not change its softmax. Where all of them are on one side of
    zero, as they are at the start, the focal scores are shared and have no gradient; of the plain
    formula it would be the rounding of a sum, of which Adam makes steps as long as any.
    """
    slopes = torch.where(hop + focal > 0, 1.0, _NEGATIVE_SLOPE).to(hop.dtype)
    return torch.softmax(slopes * hop + (slopes - slopes[:, :1]) * focal, 1)


class _LabelHeads(nn.Module):
    """SAGN's label model: an MLP per head on the propagated labels, averaged."""

    def __init__(self, config: SAGNConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.mixture = LabelMixture(shape)
        self.perceptron = FeedForward(
            config, shape.classes, shape.classes, layers=config.label_layers, heads=config.heads,
            activation="relu", dropout=config.label_dropout,
        )  # fmt: skip

    def forward(self, labels: Tensor) -> Tensor:
        """From (rows, label_hops, classes) to logits (rows, classes)."""
        logits: Tensor = self.perceptron(self.mixture(labels).unsqueeze(1)).mean(1)
        return logits
