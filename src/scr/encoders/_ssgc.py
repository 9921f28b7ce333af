"""S2GC: an MLP on an average of the hops.

Papers: Zhu and Koniusz 2021, "Simple Spectral Graph Convolution", ICLR; the `ppr` weights are
those of Gasteiger et al. 2019, "Predict then Propagate", arXiv:1810.05997.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.config import Count, Share
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders.fused._activation import make_norm
from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._label_branch import LabelBranch, add_label_logits


@dataclass(frozen=True, kw_only=True)
class SSGCConfig(EncoderConfig):
    """Settings of `SSGC`."""

    layers: Count = 2
    """Linear layers after the average; 1 is the paper's linear model."""
    norm: Literal["batch", "layer", "none"] = "none"
    """Normalization before every activation; `none` suits small training sets."""
    norm_place: Literal["before", "after"] = "before"
    """Whether normalization comes before the activation or after it, as GRAND has it."""
    input_norm: Literal["batch", "none"] = "none"
    """`batch` standardizes the input's columns by the statistics of each batch, as GRAND does."""
    mixture: Literal["mean", "s2gc", "ppr"] = "mean"
    """Weights of the hops: all alike; the paper's, `alpha` for hop 0 and the rest shared by the
    others; or personalized PageRank's, alpha (1 - alpha)^k."""
    alpha: Share = 0.1
    """Weight of a node's own features in `s2gc` and `ppr`."""


class SSGC(Encoder):
    """Hops averaged with fixed weights, then an MLP."""

    name = "ssgc"
    config_class = SSGCConfig
    attention_kind = "fixed"

    def __init__(self, config: SSGCConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.input_norm = make_norm(config.input_norm, shape.features)
        self.input_dropout = config.input_dropout
        self.weights: Tensor
        weights = torch.from_numpy(self.fixed_mixture(config, shape.hops))
        self.register_buffer("weights", weights, persistent=False)
        self.perceptron = FeedForward(
            shape.features,
            config.hidden,
            shape.classes,
            layers=config.layers,
            dropout=config.dropout,
            norm=config.norm,
            norm_place=config.norm_place,
            activation="relu",
        )
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """The averages' weights; they add up to 1."""
        settings = cast(SSGCConfig, config)
        return mixture_weights(settings.mixture, settings.alpha, hops)

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """The averages' weights, the same for every row."""
        return self.weights.expand(len(batch), -1)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        hops = batch.hops
        # Trained on hops mixed beforehand, there is only one.
        features = hops[:, 0] if hops.shape[1] == 1 else torch.matmul(self.weights, hops)
        features = dropout(self.input_norm(features), self.input_dropout, self.training)
        return add_label_logits(self.perceptron(features), self.label_branch, batch)


def mixture_weights(
    mixture: Literal["mean", "s2gc", "ppr"], alpha: float, hops: int
) -> NDArray[np.float32]:
    """Weights of hops 0..K, adding up to 1.

    Args:
        mixture: See `SSGCConfig.mixture`.
        alpha: Weight of hop 0 in `s2gc`; chance to stop at each step of the walk in `ppr`.
        hops: K + 1.

    >>> mixture_weights("ppr", 0.5, 4).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    weights = np.full(hops, 1 / hops)
    if mixture == "s2gc" and hops > 1:
        weights[:] = (1 - alpha) / (hops - 1)
        weights[0] = alpha
    elif mixture == "ppr":
        steps = np.arange(hops)
        weights = alpha * (1 - alpha) ** steps
        # A walk that has not stopped before hop K ends there.
        weights[-1] = (1 - alpha) ** (hops - 1)
    return weights.astype(np.float32)
