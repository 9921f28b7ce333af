"""The MLP that all encoders are built of, alone or many side by side.

Each layer but the last is followed by `activate`: norm, activation and dropout in one pass; where
the norm has its place after the activation, in three.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from scr.encoders.fused._activation import Norm, activate, make_norm, normalize
from scr.encoders.fused._dropout import dropout as drop
from scr.encoders.layers._attended_linear import attend_linear
from scr.encoders.layers._grouped_linear import GroupedLinear
from scr.encoders.layers._hop_mixture import Weigh, mix_hops

Activation = Literal["relu", "prelu"]
NormPlace = Literal["before", "after"]


class GroupedFeedForward(nn.Module):
    """Perceptrons of one shape side by side, each on its own columns.

    Args:
        groups: Of the input, such as hops.
        inputs: Columns per group.
        hidden: Width of the layers between, per head.
        outputs: Columns that come out, per head.
        layers: Linear layers; 1 has no hidden units.
        dropout: After every hidden layer.
        norm: Before every activation, or after it.
        norm_place: Which of both.
        activation: ``prelu`` learns one slope per MLP.
        heads: Perceptrons per group that read the same columns.
    """

    def __init__(
        self,
        groups: int,
        inputs: int,
        hidden: int,
        outputs: int,
        *,
        layers: int,
        dropout: float,
        norm: Norm = "batch",
        norm_place: NormPlace = "before",
        activation: Activation = "prelu",
        heads: int = 1,
    ) -> None:
        super().__init__()
        self.dropout, self.heads, self.norm_place = dropout, heads, norm_place
        self.count = groups * heads
        count = self.count
        widths = [inputs, *[hidden] * (layers - 1), outputs]
        # All heads of a group read the same columns: their first layer is one wider product.
        first = GroupedLinear(groups, inputs, widths[1] * heads)
        others = [GroupedLinear(count, *pair) for pair in pairwise(widths[1:])]
        self.layers = nn.ModuleList([first, *others])
        self.norms = nn.ModuleList(make_norm(norm, count * hidden, count) for _ in others)
        learned = activation == "prelu" and layers > 1
        self.slope = nn.Parameter(torch.full((count,), 0.25)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, groups, inputs) to (rows, groups * heads, outputs)."""
        x = self.before_last(x)
        last: Tensor = self.layers[-1](x)
        if self.heads > 1 and len(self.layers) == 1:
            last = last.reshape(x.shape[0], x.shape[1] * self.heads, -1)
        return last

    def before_last(self, x: Tensor) -> Tensor:
        """What the last linear layer reads."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = self._hidden(x, layer, norm)
        return x

    def attend(self, x: Tensor, vectors: Tensor, context: Tensor, weigh: Weigh) -> Tensor:
        """The results of the groups, hops of a row, mixed by attention; see `mix_hops`.

        Args:
            x: Shape (rows, hops, inputs).
            vectors: Shape (heads, vectors, outputs).
            context: For ``weigh``.
            weigh: From dots (rows, hops, heads, vectors) to weights (rows, hops, heads).

        Returns:
            Shape (rows, heads, outputs).
        """
        if len(self.layers) == 1 and self.heads > 1:  # one product for all heads of a hop
            hidden = self(x).view(*x.shape[:2], self.heads, -1)
            return mix_hops(hidden, vectors, context, weigh)
        last = cast(GroupedLinear, self.layers[-1])
        bias = cast(Tensor, last.bias)
        return attend_linear(self.before_last(x), last.weight, bias, vectors, context, weigh)

    def _hidden(self, x: Tensor, layer: nn.Module, norm: nn.Module) -> Tensor:
        assert isinstance(layer, GroupedLinear)
        raw = layer.product(x).flatten(1)
        slope = None
        if self.slope is not None:
            slope = self.slope.repeat_interleave(raw.shape[1] // len(self.slope))
        is_before = self.norm_place == "before"
        activated = activate(
            raw,
            norm if is_before else nn.Identity(),
            bias=None if layer.bias is None else layer.bias.flatten(),
            slope=slope,
            chance=self.dropout if is_before else 0.0,
            training=self.training,
            overwrite=True,
        )
        if not is_before:
            activated = drop(normalize(activated, norm), self.dropout, self.training)
        return activated.view(len(activated), self.count, -1)


class FeedForward(GroupedFeedForward):
    """One MLP, from (rows, inputs) to (rows, outputs)."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        *,
        layers: int,
        dropout: float,
        norm: Norm = "batch",
        norm_place: NormPlace = "before",
        activation: Activation = "prelu",
    ) -> None:
        super().__init__(
            1,
            inputs,
            hidden,
            outputs,
            layers=layers,
            dropout=dropout,
            norm=norm,
            norm_place=norm_place,
            activation=activation,
        )

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, inputs) to (rows, outputs)."""
        return super().forward(x.unsqueeze(1)).squeeze(1)
