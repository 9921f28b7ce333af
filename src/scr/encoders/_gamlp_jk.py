"""GAMLP with JK attention: each hop is weighed against a summary of all hops.

Paper: Zhang et al. 2022, "Graph Attention Multi-Layer Perceptron", arXiv:2206.04355.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from scr.config import Count
from scr.encoders._base import ProblemShape
from scr.encoders._gamlp import GAMLP, GAMLPConfig
from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._hop_mixture import Weigh, mix_hops
from scr.encoders.layers._initial_residual import InitialResidualMLP
from scr.encoders.layers._label_branch import JKLabelMixture, LabelBranch
from scr.encoders.layers._recursive_attention import attention_activation


@dataclass(frozen=True, kw_only=True)
class GAMLPJKConfig(GAMLPConfig):
    """Settings of `GAMLPJK`."""

    reference_layers: Count = 4
    """Linear layers of the MLP that summarizes all hops."""
    label_attention: Literal["recursive", "jk"] = "recursive"
    """How several label hops are weighed. `jk`: against a summary of all, and the nearest one is
    not drawn to the farthest, as in the code of SCR for ogbn-papers100M."""


class GAMLPJK(GAMLP):
    """GAMLP whose attention scores are act(a.r + b.x_k + c), r an MLP of all hops."""

    name = "gamlp-jk"
    config_class = GAMLPJKConfig

    def _build_attention(self, config: GAMLPConfig, shape: ProblemShape, width: int) -> None:
        assert isinstance(config, GAMLPJKConfig)
        self.reference = InitialResidualMLP(
            config,
            shape.hops * width,
            config.hidden,
            layers=config.reference_layers,
            alpha=config.alpha,
        )
        bound = math.sqrt(12 / (config.hidden + width + 1))
        self.attention_reference = nn.Parameter(torch.empty(config.hidden).uniform_(-bound, bound))
        self.attention = nn.Parameter(torch.empty(1, width).uniform_(-bound, bound))
        self.attention_bias = nn.Parameter(torch.zeros(1))
        # As in the paper's code, one slope serves the summary and the residual.
        self.slope = nn.Parameter(torch.tensor([0.25]))

    def _build_label_branch(self, config: GAMLPConfig, shape: ProblemShape) -> LabelBranch:
        assert isinstance(config, GAMLPJKConfig)
        if config.label_attention == "recursive":
            return super()._build_label_branch(config, shape)
        mixture = JKLabelMixture(
            shape.classes, shape.label_hops, config.activation, config, config.attention_dropout
        )
        return LabelBranch(config, shape, mixture=mixture)

    def mix(self, hops: Tensor, weigh: Weigh | None = None) -> Tensor:
        """Perceptrons of the hops and attention: (rows, hops, features) to (rows, columns)."""
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
