"""SGC: logistic regression on the farthest hop.

Paper: Wu et al. 2019, "Simplifying Graph Convolutional Networks", arXiv:1902.07153.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scr.config import Chance
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders._explanation import only_hop
from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._label_branch import LabelBranch, add_label_logits


@dataclass(frozen=True, kw_only=True)
class SGCConfig(EncoderConfig):
    """Settings of `SGC`; without hidden layers, `hidden` and `norm` are the label branch's.

    The paper has no dropout at all. SCR needs views that differ, and the input is all there is.
    """

    input_dropout: Chance = 0.5
    """Chance that an input feature is dropped out."""


class SGC(Encoder):
    """One linear layer on A^K X."""

    name = "sgc"
    config_class = SGCConfig
    attention_kind = "fixed"

    def __init__(self, config: SGCConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.input_dropout = config.input_dropout
        self.classifier = FeedForward(
            shape.features, config.hidden, shape.classes, layers=1, dropout=0.0
        )
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """All weight on the last hop."""
        weights = np.zeros(hops, np.float32)
        weights[hops - 1] = 1
        return weights

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """All weight on the last hop."""
        return only_hop(batch.hops, -1)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        features = dropout(batch.hops[:, -1], self.input_dropout, self.training)
        return add_label_logits(self.classifier(features), self.label_branch, batch)
