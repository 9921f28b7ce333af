"""GAMLP's recursive attention, on the two dot products per hop that it depends on.

    e_0 = act(a.x_0 + b.x_0 + c)
    e_k = act(sum_{j<k} softmax(e_0..e_{k-1})_j a.x_j + b.x_k + c)
    weights = softmax(e_0..e_K)

Paper: Zhang et al. 2022, "Graph Attention Multi-Layer Perceptron", arXiv:2206.04355.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from scr.encoders.fused._dropout import dropout

AttentionActivation = Literal["leaky_relu", "relu", "sigmoid"]

_NEGATIVE_SLOPE = 0.2  # of leaky_relu, in the papers


def attention_activation(name: AttentionActivation) -> Callable[[Tensor], Tensor]:
    """The function that scores pass before the softmax."""
    if name == "leaky_relu":
        return lambda score: F.leaky_relu(score, _NEGATIVE_SLOPE)
    return torch.sigmoid if name == "sigmoid" else torch.relu


def recursive_weights(
    history: Tensor,
    present: Tensor,
    bias: Tensor,
    *,
    activation: AttentionActivation,
    chance: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Weights of the hops, each scored against the mixture of those before it.

    History is a.x_k, present b.x_k, both of shape (rows, hops); bias is c, of shape (1,). With the
    chance of dropout, every weight is dropped out wherever it is used.
    """
    act = attention_activation(activation)
    present = present + bias
    scores = [act(history[:, 0] + present[:, 0])]
    for hop in range(1, history.shape[1]):
        past = dropout(torch.softmax(torch.stack(scores, 1), 1), chance, training)
        scores.append(act((past * history[:, :hop]).sum(1) + present[:, hop]))
    return dropout(torch.softmax(torch.stack(scores, 1), 1), chance, training)
