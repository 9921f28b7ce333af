"""MLP, SGC and S2GC: an MLP on a fixed mixture of the hops, which is computed before training."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.config import Chance, Count, Share
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders.fused import dropout, make_norm
from scr.encoders.fused._activation import normalize
from scr.encoders.layers._feed_forward import FeedForward
from scr.encoders.layers._label_branch import LabelBranch


@dataclass(frozen=True, kw_only=True)
class MLPConfig(EncoderConfig):
    """Settings of `MLP`."""

    layers: Count = 3
    """Linear layers; 1 is logistic regression."""
    input_norm: Literal["batch", "none"] = "none"
    """`batch` standardizes the input's columns by the statistics of each batch, as GRAND does."""


@dataclass(frozen=True, kw_only=True)
class SGCConfig(EncoderConfig):
    """Settings of `SGC`; without hidden layers, `hidden` and `norm` are the label branch's.

    The paper has no dropout at all. SCR needs views that differ, and the input is all there is.
    """

    input_dropout: Chance = 0.5


@dataclass(frozen=True, kw_only=True)
class SSGCConfig(EncoderConfig):
    """Settings of `SSGC`."""

    layers: Count = 2
    """Linear layers after the average; 1 is the paper's linear model."""
    norm: Literal["batch", "layer", "none"] = "none"
    norm_place: Literal["before", "after"] = "before"
    """Whether normalization comes before the activation or after it, as GRAND has it."""
    input_norm: Literal["batch", "none"] = "none"
    """`batch` standardizes the input's columns by the statistics of each batch, as GRAND does."""
    mixture: Literal["mean", "s2gc", "ppr", "last"] = "mean"
    """Weights of the hops: all alike; the paper's, `alpha` for hop 0 and the rest shared by the
    others; personalized PageRank's, alpha (1 - alpha)^k; or the farthest hop alone, where near
    ones are mostly noise."""
    alpha: Share = 0.1
    """Weight of a node's own features in `s2gc` and `ppr`."""


class FixedMixture(Encoder):
    """An MLP on a weighted sum of the hops, whose weights are never learned."""

    attention_kind = "fixed"
    mlp_name: ClassVar[str] = "perceptron"
    """What the MLP is called in stored models."""

    def __init__(
        self,
        config: EncoderConfig,
        shape: ProblemShape,
        layers: int,
        input_norm: Literal["batch", "none"] = "none",
        norm_place: Literal["before", "after"] = "before",
    ) -> None:
        super().__init__()
        self.input_norm = make_norm(input_norm, shape.features)
        self.input_dropout = config.input_dropout
        self.weights: Tensor
        weights = torch.from_numpy(self.fixed_mixture(config, shape.hops))
        self.register_buffer("weights", weights, persistent=False)
        sizes = shape.features, shape.classes
        mlp = FeedForward(config, *sizes, layers=layers, activation="relu", norm_place=norm_place)
        self.add_module(self.mlp_name, mlp)
        self.label_branch = LabelBranch(config, shape) if shape.label_hops else None

    @classmethod
    @abstractmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """Weights of the hops, shape (hops,)."""

    def hop_attention(self, batch: HopBatch) -> Tensor:
        """The weights of the mixture, the same for every row."""
        return self.weights.expand(len(batch), -1)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        hops = batch.hops
        # Trained on hops mixed beforehand, there is only one.
        features = hops[:, 0] if hops.shape[1] == 1 else torch.matmul(self.weights, hops)
        features = dropout(normalize(features, self.input_norm), self.input_dropout, self.training)
        return self.with_labels(self.get_submodule(self.mlp_name)(features), batch.labels)


class MLP(FixedMixture):
    """An MLP on each node's own features: what can be known without the graph."""

    name = "mlp"
    config_class = MLPConfig

    def __init__(self, config: MLPConfig, shape: ProblemShape) -> None:
        super().__init__(config, shape, config.layers, config.input_norm)

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """All weight on hop 0."""
        weights: NDArray[np.float32] = np.eye(hops, dtype=np.float32)[0]
        return weights


class SGC(FixedMixture):
    """SGC: logistic regression on the farthest hop.

    Paper: Wu et al. 2019, "Simplifying Graph Convolutional Networks", arXiv:1902.07153.
    """

    name = "sgc"
    config_class = SGCConfig
    mlp_name = "classifier"

    def __init__(self, config: SGCConfig, shape: ProblemShape) -> None:
        super().__init__(config, shape, 1)

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """All weight on the last hop."""
        weights: NDArray[np.float32] = np.eye(hops, dtype=np.float32)[-1]
        return weights


class SSGC(FixedMixture):
    """S2GC: an MLP on an average of the hops.

    Papers: Zhu and Koniusz 2021, "Simple Spectral Graph Convolution", ICLR; the `ppr` weights are
    those of Gasteiger et al. 2019, "Predict then Propagate", arXiv:1810.05997.
    """

    name = "ssgc"
    config_class = SSGCConfig

    def __init__(self, config: SSGCConfig, shape: ProblemShape) -> None:
        super().__init__(config, shape, config.layers, config.input_norm, config.norm_place)

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32]:
        """The averages' weights; they add up to 1."""
        settings = cast(SSGCConfig, config)
        return mixture_weights(settings.mixture, settings.alpha, hops)


def mixture_weights(
    mixture: Literal["mean", "s2gc", "ppr", "last"], alpha: float, hops: int
) -> NDArray[np.float32]:
    """Weights of all K + 1 hops, adding up to 1; see `SSGCConfig.mixture`.

    In `ppr`, alpha is the chance to stop at each step of a walk.

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
    elif mixture == "last":
        weights = np.eye(hops)[-1]
    return weights.astype(np.float32)
