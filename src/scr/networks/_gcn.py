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
from scr.encoders.layers import Adjacency, Projected, SparseRows
from scr.networks._base import GraphEncoderConfig, LayeredEncoder, glorot


@dataclass(frozen=True, kw_only=True)
class GCNConfig(GraphEncoderConfig):
    """Settings of `GCN`; defaults are the paper's, but for the width."""

    input_dropout: Chance = 0.5


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
        rows = x.rows if isinstance(x, Projected) else x
        scale = np.ones(adjacency.rows, np.float32)
        if adjacency.row_scale is not None:
            scale = np.square(adjacency.row_scale)
        # Weights of the self-loops, 1/d, which are not among the edges.
        loops = torch.from_numpy(scale).to(rows.device, rows.dtype)[:, None]
        sums = adjacency.multiply(rows) + loops * adjacency.own_rows(rows)
        if isinstance(x, Projected):
            return sums + self.bias
        return F.linear(sums, self.weight, self.bias)


class GCN(LayeredEncoder):
    """Layers of `GCNLayer`, with relu and dropout between them."""

    name = "gcn"
    config_class = GCNConfig
    aggregation = "sym"
    reads_sparse = True

    def make_layer(self, shape: ProblemShape, inputs: int, outputs: int, last: bool) -> nn.Module:
        """A layer from `inputs` to `outputs` columns."""
        return GCNLayer(inputs, outputs)
