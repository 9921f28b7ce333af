"""Mix hop k over all subsets of relations, feature by feature, with learned weights.

    mixed_0 = first * x                                the features, in every subset alike
    mixed_k = sum_s weight_ks * hop_k^s,   k = 1..K    `*` is per feature

Each subset of relations is a graph of its own, and its hops say what comes to a node along those
relations. The mixture learns which of them to listen to; any encoder then reads K + 1 hops as if
there were one graph. A batch is read once and nothing of its size is kept for the gradient.

Paper: Yu et al. 2020, "Scalable Graph Neural Networks for Heterogeneous Graphs", arXiv:2011.09679.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from scr.compute import compiled_reordered as compiled
from scr.compute import empty
from scr.encoders.fused._parallel import ROWS, blocks_of, run_rows, suits_kernels

Mixing = Literal["mean", "sum", "xavier"]


class SubsetMixture(nn.Module):
    """From hops of all subsets, (rows, 1 + subsets * hops, features), to (rows, hops + 1, ...).

    Hop 0 comes first and once; then, subset after subset, its hops 1 to K.
    """

    def __init__(self, subsets: int, hops: int, features: int, mixing: Mixing = "mean") -> None:
        """Start with weights of 1/S (`mean`) or 1 (`sum`), or draw them from torch's generator.

        Drawn weights (`xavier`) are those of the paper's code; `hops` is K, without hop 0.
        """
        super().__init__()
        self.subsets, self.hops = subsets, hops
        self.chosen: tuple[int, ...] | None = None
        """Subsets whose hops a batch has; a last one is then the sum of all others, mixed before.
        None: a batch has all subsets."""
        start = 1.0 if mixing == "sum" else 1 / subsets
        self.first = nn.Parameter(torch.ones(features))
        self.weight = nn.Parameter(torch.full((hops, subsets, features), start))
        if mixing == "xavier":
            # There hop 0 has a matrix (subsets, features) too; as all subsets have the same hop 0,
            # only the sum over the subsets counts.
            bound = math.sqrt(6 / (subsets + features))
            with torch.no_grad():
                self.first.copy_(torch.empty(subsets, features).uniform_(-bound, bound).sum(0))
                self.weight.uniform_(-bound, bound)

    @property
    def weight_of_batch(self) -> Tensor:
        """Weights of the subsets that a batch has, shape (hops, subsets of a batch, features)."""
        if self.chosen is None:
            return self.weight
        mixed_before = torch.ones_like(self.weight[:, :1])
        return torch.cat([self.weight[:, list(self.chosen)], mixed_before], dim=1)

    def forward(self, hops: Tensor) -> Tensor:
        """Mixed hops, shape (rows, hops + 1, features)."""
        return mix_subsets(hops, self.first, self.weight_of_batch)

    @torch.no_grad()
    def sum_of(self, hops: Tensor, subsets: Sequence[int]) -> Tensor:
        """What some subsets add to hops 1 to K; hops are those of all, shape (rows, 1 + S K, D)."""
        parts = _by_subset(hops, self.subsets)
        total = torch.zeros_like(parts[:, 0])
        for subset in subsets:
            total.addcmul_(parts[:, subset], self.weight[:, subset])
        return total


def mix_subsets(hops: Tensor, first: Tensor, weight: Tensor) -> Tensor:
    """From (rows, 1 + subsets * hops, features) to (rows, hops + 1, features).

    The weights are those of hop 0, (features,), and of the others, (hops, subsets, features).
    """
    count, subsets, _ = weight.shape
    if hops.shape[1] != 1 + subsets * count:
        raise ValueError(
            f"There are {hops.shape[1]} hops per row; expected {1 + subsets * count}: one, and "
            f"{count} of each of {subsets} subsets"
        )
    if suits_kernels(hops):
        return cast(Tensor, _Mixture.apply(hops, first, weight))  # type: ignore[no-untyped-call]
    return _mix_by_torch(hops, first, weight)


def _mix_by_torch(hops: Tensor, first: Tensor, weight: Tensor) -> Tensor:
    parts = _by_subset(hops, weight.shape[1])
    # One subset after another: nothing of the size of all subsets is made, forward or backward.
    mixed = parts[:, 0] * weight[:, 0]
    for subset in range(1, weight.shape[1]):
        mixed = torch.addcmul(mixed, parts[:, subset], weight[:, subset])
    return torch.cat([(hops[:, 0] * first).unsqueeze(1), mixed], dim=1)


def _by_subset(hops: Tensor, subsets: int) -> Tensor:
    """Hops 1 to K as a view of shape (rows, subsets, hops, features)."""
    rows, matrices, features = hops.shape
    return hops[:, 1:].view(rows, subsets, (matrices - 1) // subsets, features)


class _Mixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hops: Tensor, first: Tensor, weight: Tensor) -> Tensor:
        rows, _, features = hops.shape
        # In the order in which the hops lie, shape (1 + subsets * hops, features).
        weights = torch.cat([first.unsqueeze(0), weight.transpose(0, 1).flatten(0, 1)])
        mixed = empty((rows, weight.shape[0] + 1, features), hops)
        run_rows(_mix, rows, hops.numel(), hops, weights, mixed)
        ctx.save_for_backward(hops, first, weight)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        hops, first, weight = ctx.saved_tensors
        count, subsets, features = weight.shape
        blocks, gradient = blocks_of(len(hops)), gradient.contiguous()
        partial = hops.new_zeros(blocks, 1 + subsets * count, features)
        run_rows(_by_weights, blocks, hops.numel(), hops, gradient, partial)
        total = partial.sum(0, dtype=torch.float64).float()
        by_weight = total[1:].view(subsets, count, features).transpose(0, 1)
        by_hops = None
        if ctx.needs_input_grad[0]:
            # Hops are data; only checks ask for this.
            of_hops = gradient[:, 1:].unsqueeze(1) * weight.transpose(0, 1)
            of_first = gradient[:, :1] * first
            by_hops = torch.cat([of_first, of_hops.flatten(1, 2)], dim=1)
        return by_hops, total[0], by_weight.contiguous()


@compiled
def _mix(hops: Any, weights: Any, mixed: Any, start: Any, stop: Any) -> None:
    _, matrices, features = hops.shape
    count = mixed.shape[1] - 1
    for row in range(start, stop):
        for matrix in range(matrices):
            numbers, weight = hops[row, matrix], weights[matrix]
            target = mixed[row, 0 if matrix == 0 else (matrix - 1) % count + 1]
            if matrix <= count:
                for column in range(features):
                    target[column] = weight[column] * numbers[column]
            else:
                for column in range(features):
                    target[column] += weight[column] * numbers[column]


@compiled
def _by_weights(hops: Any, gradient: Any, partial: Any, start: Any, stop: Any) -> None:
    """Gradient of the weights, summed over blocks of rows."""
    rows, matrices, features = hops.shape
    count = gradient.shape[1] - 1
    for block in range(start, stop):
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            for matrix in range(matrices):
                numbers, total = hops[row, matrix], partial[block, matrix]
                incoming = gradient[row, 0 if matrix == 0 else (matrix - 1) % count + 1]
                for column in range(features):
                    total[column] += incoming[column] * numbers[column]
