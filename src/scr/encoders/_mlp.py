"""An MLP on each node's own features: what can be known without the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scr.config import Count
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders._explanation import only_hop
from scr.encoders.fused._activation import make_norm
from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._label_branch import LabelBranch, add_label_logits


@dataclass(frozen=True, kw_only=True)
class MLPConfig(EncoderConfig):
    """Settings of `MLP`."""

    layers: Count = 3
    """Linear layers; 1 is logistic regression."""
    input_norm: Literal["batch", "none"] = "none"
    """`batch` standardizes the input's columns by the statistics of each batch, as GRAND does."""


class MLP(Encoder):
    """An MLP that reads hop 0 only."""

    name = "mlp"
    config_class = MLPConfig
    attention_kind = "fixed"

    def __init__(self, config: MLPConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.input_norm = make_norm(config.input_norm, shape.features)
        self.input_dropout = config.input_dropout
        self.perceptron = FeedForward(
            shape.features,
            config.hidden,
            shape.classes,
            layers=config.layers,
            dropout=config.dropout,
            norm=config.norm,
            activation="relu",
        )
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """All weight on hop 0."""
        weights = np.zeros(hops, np.float32)
        weights[0] = 1
        return weights

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """All weight on the first hop."""
        return only_hop(batch.hops, 0)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        features = self.input_norm(batch.hops[:, 0])
        features = dropout(features, self.input_dropout, self.training)
        return add_label_logits(self.perceptron(features), self.label_branch, batch)
