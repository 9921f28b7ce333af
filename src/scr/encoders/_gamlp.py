"""GAMLP with recursive attention: each hop is weighed against the mixture of those before it.

Paper: Zhang et al. 2022, "Graph Attention Multi-Layer Perceptron", arXiv:2206.04355.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from scr.config import Chance, Count, Natural, Share
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders._explanation import evaluating, watched_weights
from scr.encoders.fused import activate, dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._grouped_linear import GroupedLinear
from scr.encoders.layers._hop_mixture import Weigh, mix_hops
from scr.encoders.layers._initial_residual import InitialResidualMLP
from scr.encoders.layers._label_branch import JKLabelMixture, LabelBranch, LabelMixture
from scr.encoders.layers._recursive_attention import (
    AttentionActivation,
    attention_activation,
    recursive_weights,
)


@dataclass(frozen=True, kw_only=True)
class GAMLPConfig(EncoderConfig):
    """Settings of `GAMLP`; defaults are those for ogbn-products."""

    hidden: Count = 512
    """Width of hidden layers, and of each hop's result."""
    layers: Count = 4
    """Linear layers of the MLP after the attention."""
    hop_layers: Natural = 2
    """Linear layers of each hop's MLP; 0 weighs the hops as they are."""
    input_dropout: Chance = 0.2
    attention_dropout: Chance = 0.5
    """Chance that an attention weight is dropped out."""
    activation: AttentionActivation = "leaky_relu"
    """What attention scores pass before the softmax."""
    residual: bool = True
    """Add a projection of the node's own features to the mixture, then activate it."""
    alpha: Share = 0.5
    """Share of the first layer's result in the later layers after the attention."""


class GAMLP(Encoder):
    """An MLP per hop, recursive attention over the hops, an MLP with residuals."""

    name = "gamlp"
    config_class = GAMLPConfig

    def __init__(self, config: GAMLPConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.config = config
        self.branches = None
        width = shape.features
        if config.hop_layers:
            width = config.hidden
            self.branches = FeedForward(
                config, shape.features, width, layers=config.hop_layers, groups=shape.hops
            )
        self._build_attention(config, shape, width)
        self.residual = GroupedLinear(1, shape.features, width) if config.residual else None
        self.output = InitialResidualMLP(
            config, width, shape.classes, layers=config.layers, alpha=config.alpha
        )
        self.label_branch = None
        if shape.label_hops:
            self.label_branch = LabelBranch(config, shape, self._label_mixture(config, shape))

    def _label_mixture(self, config: GAMLPConfig, shape: ProblemShape) -> LabelMixture:
        return LabelMixture(shape, config.activation)

    def _build_attention(self, config: GAMLPConfig, shape: ProblemShape, width: int) -> None:
        # Together a linear layer from (history, hop) to one score, initialized as such.
        bound = math.sqrt(12 / (2 * width + 1))
        self.attention = nn.Parameter(torch.empty(2, width).uniform_(-bound, bound))
        self.attention_bias = nn.Parameter(torch.zeros(1))
        self.slope = nn.Parameter(torch.tensor([0.25])) if config.residual else None

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        hops = dropout(batch.hops, self.config.input_dropout, self.training)
        mixed = self.mix(hops)
        if self.residual is not None:
            assert self.slope is not None
            mixed = torch.addmm(mixed, hops[:, 0], self.residual.weight[0])
            mixed = self._activate(mixed, self.residual.bias)
        return self.with_labels(self.output(mixed), batch.labels)

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """Weights of the hops, which add up to 1."""
        with evaluating(self):
            return watched_weights(lambda weigh: self.mix(batch.hops, weigh), self._weigh)

    def mix(self, hops: Tensor, weigh: Weigh | None = None) -> Tensor:
        """MLPs of the hops and attention: (rows, hops, features) to (rows, columns)."""
        attention = (self.attention.unsqueeze(0), self.attention_bias, weigh or self._weigh)
        if self.branches is None:
            return mix_hops(hops.unsqueeze(2), *attention).squeeze(1)
        return self.branches.attend(hops, *attention).squeeze(1)

    def _weigh(self, dots: Tensor, bias: Tensor) -> Tensor:
        history, present = dots.squeeze(2).unbind(-1)
        weights = recursive_weights(
            history, present, bias, activation=self.config.activation,
            chance=self.config.attention_dropout, training=self.training,
        )  # fmt: skip
        return weights.unsqueeze(2)

    def _activate(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return activate(
            x, bias=None if bias is None else bias.flatten(), slope=self.slope,
            chance=self.config.dropout, training=self.training, overwrite=True,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GAMLPJKConfig(GAMLPConfig):
    """Settings of `GAMLPJK`."""

    reference_layers: Count = 4
    """Linear layers of the MLP that summarizes all hops."""
    label_attention: Literal["recursive", "jk"] = "recursive"
    """How several label hops are weighed. `jk`: against a summary of all, and the nearest one is
    not drawn to the farthest, as in the code of SCR for ogbn-papers100M."""


class GAMLPJK(GAMLP):
    """GAMLP with JK attention: each hop is weighed against a summary of all hops.

    Paper: Zhang et al. 2022, "Graph Attention Multi-Layer Perceptron", arXiv:2206.04355; scores are
    act(a.r + b.x_k + c), r an MLP of all hops.
    """

    name = "gamlp-jk"
    config_class = GAMLPJKConfig

    def _build_attention(self, config: GAMLPConfig, shape: ProblemShape, width: int) -> None:
        columns, layers = shape.hops * width, cast(GAMLPJKConfig, config).reference_layers
        self.reference = InitialResidualMLP(
            config, columns, config.hidden, layers=layers, alpha=config.alpha
        )
        bound = math.sqrt(12 / (config.hidden + width + 1))
        self.attention_reference = nn.Parameter(torch.empty(config.hidden).uniform_(-bound, bound))
        self.attention = nn.Parameter(torch.empty(1, width).uniform_(-bound, bound))
        self.attention_bias = nn.Parameter(torch.zeros(1))
        # As in the paper's code, one slope serves the summary and the residual.
        self.slope = nn.Parameter(torch.tensor([0.25]))

    def _label_mixture(self, config: GAMLPConfig, shape: ProblemShape) -> LabelMixture:
        if cast(GAMLPJKConfig, config).label_attention == "recursive":
            return super()._label_mixture(config, shape)
        return JKLabelMixture(config, shape, config.activation, config.attention_dropout)

    def mix(self, hops: Tensor, weigh: Weigh | None = None) -> Tensor:
        """MLPs of the hops and attention: (rows, hops, features) to (rows, columns)."""
        hidden = hops if self.branches is None else self.branches(hops)
        reference = self._activate(self.reference(hidden.flatten(1)))
        context = reference @ self.attention_reference + self.attention_bias
        return mix_hops(
            hidden.unsqueeze(2), self.attention.unsqueeze(0), context, weigh or self._weigh
        ).squeeze(1)

    def _weigh(self, dots: Tensor, reference: Tensor) -> Tensor:
        act = attention_activation(self.config.activation)
        scores = act(dots[..., 0] + reference[:, None, None])
        return dropout(torch.softmax(scores, 1), self.config.attention_dropout, self.training)
