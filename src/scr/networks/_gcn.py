"""GCN: every layer averages over neighbors, each weighed by the degrees of both ends.

Paper: Kipf and Welling 2017, "Semi-Supervised Classification with Graph Convolutional Networks",
arXiv:1609.02907.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scr.config import Chance
from scr.encoders import ProblemShape
from scr.encoders.fused import Norm
from scr.encoders.layers import Adjacency, Projected, SparseRows
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot


@dataclass(frozen=True, kw_only=True)
class GCNConfig(GraphEncoderConfig):
    """Settings of `GCN`; defaults are the paper's, but for the width."""

    norm: Norm = "none"
    """Normalization before every activation."""
    input_dropout: Chance = 0.5
    """Chance that an input feature is dropped out."""


class GCNLayer(nn.Module):
    r"""One layer.

    Equation: Kipf and Welling 2017, eq. 2
        H' = D^-1/2 (A + I) D^-1/2 H W + b,   D: row sums of A + I
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = glorot(outputs, inputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def project(self, x: SparseRows) -> Projected:
        """The product with the weight."""
        return Projected(x.linear(self.weight))

    def forward(self, x: Tensor | Projected, adjacency: Adjacency) -> Tensor:
        """From (columns, inputs) to (rows, outputs)."""
        outputs, inputs = self.weight.shape
        if not isinstance(x, Projected) and adjacency.transforms_first(inputs, outputs):
            x = Projected(F.linear(x, self.weight))
        if isinstance(x, Projected):
            loops = _loops(adjacency, x.rows)
            return adjacency.multiply(x.rows) + loops * adjacency.own_rows(x.rows) + self.bias
        loops = _loops(adjacency, x)
        summed = adjacency.multiply(x) + loops * adjacency.own_rows(x)
        return F.linear(summed, self.weight, self.bias)


def _loops(adjacency: Adjacency, like: Tensor) -> Tensor:
    """Weights of the self-loops, 1/d, which are not among the edges. Shape (rows, 1)."""
    scale = np.ones(adjacency.rows, np.float32)
    if adjacency.row_scale is not None:
        scale = np.square(adjacency.row_scale)
    return torch.from_numpy(scale).to(like.device, like.dtype)[:, None]


class GCN(LayeredEncoder):
    """Layers of `GCNLayer`, with relu and dropout between them."""

    name = "gcn"
    config_class = GCNConfig
    aggregation = "sym"
    reads_sparse = True

    def make_layer(self, config: GraphEncoderConfig, shape: ProblemShape, number: int) -> GCNLayer:
        """The layer of a number."""
        widths = self.widths(config, shape)
        return GCNLayer(widths[number], widths[number + 1])
