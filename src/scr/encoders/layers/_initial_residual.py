"""GAMLP's output MLP: every layer also reads the first one's result.

    h_0 = norm(x W_0) (+ x, where the widths agree)
    s_l = (1 - alpha) d_l + alpha h_0,   d_l = dropout(prelu(h_{l-1}))
    h_l = norm(s_l W_l) + d_l
    y   = norm(dropout(prelu(h_L)) W_out)

Papers: the residuals are those of Chen et al. 2020, "Simple and Deep Graph Convolutional
Networks", arXiv:2007.02133; as used by GAMLP, arXiv:2206.04355.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from scr.encoders._base import EncoderConfig
from scr.encoders.fused._activation import Norm, activate, make_norm
from scr.encoders.layers._grouped_linear import GroupedLinear


class InitialResidualMLP(nn.Module):
    """An MLP with residuals to its input and to its first layer.

    Width of the hidden layers, dropout after each, and the norm after every product are the
    encoder's. With ``batch`` the layers have no bias, and the result is normalized as well, like in
    the paper's code; otherwise the result has a bias instead.
    """

    def __init__(
        self, config: EncoderConfig, inputs: int, outputs: int, *, layers: int, alpha: float
    ) -> None:
        super().__init__()
        self.alpha, self.dropout, self.hidden = alpha, config.dropout, config.hidden
        norm = config.norm
        widths = [inputs, *[config.hidden] * (layers - 1), outputs]
        kinds: list[Norm] = [norm] * (layers - 1) + ["batch" if norm == "batch" else "none"]
        self.layers = nn.ModuleList(
            GroupedLinear(1, *pair, bias=kind == "none", bound=1 / math.sqrt(pair[1]))
            for pair, kind in zip(pairwise(widths), kinds, strict=True)
        )
        self.norms = nn.ModuleList(
            make_norm(kind, width) for kind, width in zip(kinds, widths[1:], strict=True)
        )
        self.slope = nn.Parameter(torch.tensor([0.25]))

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, inputs) to (rows, outputs)."""
        last = len(self.layers) - 1
        if last > 0:
            first = self._layer(0, x, residual=x if x.shape[1] == self.hidden else None)
            x = activate(first, slope=self.slope, chance=self.dropout, training=self.training)
            for index in range(1, last):
                x = self._layer(index, torch.lerp(x, first, self.alpha), residual=x, active=True)
        return self._layer(last, x)

    def _layer(
        self, index: int, x: Tensor, *, residual: Tensor | None = None, active: bool = False
    ) -> Tensor:
        layer = cast(GroupedLinear, self.layers[index])
        return activate(
            layer.product(x.unsqueeze(1)).squeeze(1),
            self.norms[index],
            bias=None if layer.bias is None else layer.bias[0],
            residual=residual,
            # Slope 1 on both sides of zero is no activation: only norm and residual.
            slope=self.slope if active else torch.ones_like(self.slope),
            chance=self.dropout if active else 0.0,
            training=self.training,
            overwrite=True,
        )
