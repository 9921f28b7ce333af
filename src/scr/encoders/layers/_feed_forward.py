"""The MLP that all encoders are built of, alone or many side by side.

Each layer but the last is followed by `activate`: norm, activation and dropout in one pass; where
the norm comes after the activation, in three.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from scr.encoders._base import EncoderConfig
from scr.encoders.fused._activation import activate, make_norm, normalize
from scr.encoders.fused._dropout import dropout as drop
from scr.encoders.layers._attended_linear import attend_linear
from scr.encoders.layers._grouped_linear import GroupedLinear
from scr.encoders.layers._hop_mixture import Weigh, mix_hops


class FeedForward(nn.Module):
    """An MLP, or several of one shape side by side, each on its own columns.

    The input falls into groups of `inputs` columns each, such as hops; `heads` MLPs read the same
    group, and each writes `outputs` columns. Width of the hidden layers (per head), norm and, if
    not given, dropout are the encoder's. Activation ``prelu`` learns one slope per MLP.
    """

    def __init__(
        self,
        config: EncoderConfig,
        inputs: int,
        outputs: int,
        *,
        layers: int,
        groups: int = 1,
        heads: int = 1,
        activation: Literal["relu", "prelu"] = "prelu",
        norm_place: Literal["before", "after"] = "before",
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.dropout = config.dropout if dropout is None else dropout
        self.heads, self.norm_place, self.count = heads, norm_place, groups * heads
        widths = [inputs, *[config.hidden] * (layers - 1), outputs]
        # All heads of a group read the same columns: their first layer is one wider product.
        first = GroupedLinear(groups, inputs, widths[1] * heads)
        others = [GroupedLinear(self.count, *pair) for pair in pairwise(widths[1:])]
        self.layers = nn.ModuleList([first, *others])
        columns = self.count * config.hidden
        self.norms = nn.ModuleList(make_norm(config.norm, columns, self.count) for _ in others)
        learned = activation == "prelu" and layers > 1
        self.slope = nn.Parameter(torch.full((self.count,), 0.25)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, groups, inputs) to (rows, groups * heads, outputs).

        A single MLP may be given (rows, inputs), and gives (rows, outputs) then.
        """
        if x.ndim == 2:
            return self.forward(x.unsqueeze(1)).squeeze(1)
        x = self._before_last(x)
        last: Tensor = self.layers[-1](x)
        if self.heads > 1 and len(self.layers) == 1:
            last = last.unflatten(2, (self.heads, -1)).flatten(1, 2)
        return last

    def attend(self, x: Tensor, vectors: Tensor, context: Tensor, weigh: Weigh) -> Tensor:
        """The results of the groups, hops of a row, mixed by attention, as `mix_hops` does.

        From x of shape (rows, hops, inputs) to (rows, heads, outputs).
        """
        if len(self.layers) == 1 and self.heads > 1:  # one product for all heads of a hop
            hidden = self(x).unflatten(1, (-1, self.heads))
            return mix_hops(hidden, vectors, context, weigh)
        last = cast(GroupedLinear, self.layers[-1])
        bias = cast(Tensor, last.bias)
        return attend_linear(self._before_last(x), last.weight, bias, vectors, context, weigh)

    def _before_last(self, x: Tensor) -> Tensor:
        """What the last linear layer reads."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = self._hidden(x, cast(GroupedLinear, layer), norm)
        return x

    def _hidden(self, x: Tensor, layer: GroupedLinear, norm: nn.Module) -> Tensor:
        raw = layer.product(x).flatten(1)
        slope = None
        if self.slope is not None:
            slope = self.slope.repeat_interleave(raw.shape[1] // len(self.slope))
        is_before = self.norm_place == "before"
        activated = activate(
            raw, norm if is_before else None,
            bias=None if layer.bias is None else layer.bias.flatten(), slope=slope,
            chance=self.dropout if is_before else 0.0, training=self.training, overwrite=True,
        )  # fmt: skip
        if not is_before:
            activated = drop(normalize(activated, norm), self.dropout, self.training)
        # Also of no rows, of which `view` cannot tell how wide they are.
        return cast(Tensor, activated.unflatten(1, (self.count, -1)))
