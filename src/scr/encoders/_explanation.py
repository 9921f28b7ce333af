"""See how much each hop counts in an encoder, by watching the code that the forward pass runs.

Attention is one function from dot products to weights (`Weigh`), whichever kernel calls it. To
learn the weights, that function is watched while the encoder mixes its hops, so that what is shown
is what is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from scr.encoders.layers._hop_mixture import Weigh

AttentionKind = Literal["attention", "share", "fixed"]
"""What `Encoder.hop_attention` gives: weights that depend on the node, shares of what a layer
reads, or weights that are the same for all nodes and never learned."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; the module is left in the mode that it was in."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)


def watched_weights(mix: Callable[[Weigh], object], weigh: Weigh) -> Tensor:
    """The weights that an attention gives to hops which `mix` mixes by it, once.

    They are the mean over the heads, of shape (rows, hops).
    """
    seen: list[Tensor] = []

    def watch(dots: Tensor, context: Tensor) -> Tensor:
        seen.append(weigh(dots, context))
        return seen[-1]

    mix(watch)
    (weights,) = seen
    return weights.detach().mean(-1)


def contribution_shares(joined: Tensor, weight: Tensor) -> Tensor:
    r"""Share of each hop in what a linear layer makes of all hops side by side.

        c_ik = || z_ik W_k ||,    share_ik = c_ik / sum_k' c_ik'

    Hops that say the same, or that cancel, each keep their share: it says what a layer reads, not
    what it could do without. z has the shape (rows, hops, columns); W_k are the rows of the layer's
    weight, of shape (hops * columns, outputs), that read hop k.
    """
    per_hop = weight.view(joined.shape[1], joined.shape[2], -1)
    norms = torch.stack(
        [(joined[:, hop] @ part).norm(dim=-1) for hop, part in enumerate(per_hop)], dim=1
    )
    total = norms.sum(1, keepdim=True)
    # A row of which nothing is read has no hop that counts more than another.
    return torch.where(total > 0, norms / total, 1 / joined.shape[1])
