"""SIGN: a small MLP per hop and one over their results, side by side.

Paper: Frasca et al. 2020, "SIGN: Scalable Inception Graph Neural Networks", arXiv:2004.11198.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from scr.config import Chance, Count, Natural
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders._explanation import contribution_shares, evaluating
from scr.encoders.fused import activate, dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._grouped_linear import GroupedLinear
from scr.encoders.layers._label_branch import LabelBranch


@dataclass(frozen=True, kw_only=True)
class SIGNConfig(EncoderConfig):
    """Settings of `SIGN`; defaults are those for ogbn-products."""

    hidden: Count = 512
    """Width of hidden layers, and of each hop's result."""
    layers: Count = 2
    """Linear layers of the MLP over all hops."""
    hop_layers: Natural = 2
    """Linear layers of each hop's MLP; 0 joins the hops as they are."""
    dropout: Chance = 0.4
    input_dropout: Chance = 0.3
    norm: Literal["batch", "layer", "none"] = "none"
    """Normalization before every activation of an MLP."""


class SIGN(Encoder):
    """One MLP per hop, one over their concatenation."""

    name = "sign"
    config_class = SIGNConfig
    attention_kind = "share"

    def __init__(self, config: SIGNConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.dropout, self.input_dropout = config.dropout, config.input_dropout
        self.branches = None
        width = shape.features
        if config.hop_layers:
            width = config.hidden
            self.branches = FeedForward(
                config, shape.features, width, layers=config.hop_layers, groups=shape.hops
            )
            self.slope = nn.Parameter(torch.tensor([0.25]))
        self.classifier = FeedForward(
            config, shape.hops * width, shape.classes, layers=config.layers
        )
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        return self.with_labels(self.classifier(self._joined(batch)), batch.labels)

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """Shares of the hops in the first layer over all of them; see `contribution_shares`."""
        first = cast(GroupedLinear, self.classifier.layers[0])
        with evaluating(self):
            joined = self._joined(batch).unflatten(1, (batch.hops.shape[1], -1))
            return contribution_shares(joined, first.weight[0])

    def _joined(self, batch: HopBatch) -> Tensor:
        """What each hop's MLP says, side by side: (rows, hops * columns)."""
        hops = dropout(batch.hops, self.input_dropout, self.training)
        if self.branches is None:
            return hops.flatten(1)
        return activate(
            self.branches(hops).flatten(1), slope=self.slope, chance=self.dropout,
            training=self.training, overwrite=True,
        )  # fmt: skip
