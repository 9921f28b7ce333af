"""Rows with nodes dropped: features of some nodes become 0 in all rows that they count in.

`NodeDropper` propagates anew for each view (GRAND), `TopNodeDropper` adds up the few nodes that
count most in each row (GRAND+). Both make batches whose clean rows are those of predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scr.encoders import HopBatch
from scr.propagation import RandomPropagation, TopNodes, drop_node, unit_rows


@dataclass(frozen=True)
class NodeDropper:
    """Makes batches whose noisy views are propagated anew, with other nodes dropped in each."""

    propagation: RandomPropagation
    chance: float
    """With which the features of a node are dropped (delta)."""

    def __call__(self, batch: HopBatch, nodes: Tensor) -> HopBatch:
        """The same batch, of which views have nodes dropped."""
        return RandomBatch(batch.hops, batch.labels, partial(self.draw, nodes))

    def draw(self, nodes: Tensor) -> Tensor:
        """Rows of some nodes with others dropped, shape (nodes, 1, columns)."""
        # By torch's default generator, which `torch.manual_seed` governs and checkpoints have.
        keep = torch.rand(self.propagation.nodes) >= self.chance
        scale = drop_node(keep.numpy(), self.chance)
        mixed = self.propagation.mixture(scale, nodes.numpy(), threads=torch.get_num_threads())
        return torch.from_numpy(mixed[:, np.newaxis])


@dataclass(frozen=True)
class TopNodeDropper:
    """Makes batches whose noisy views add up the nodes that count most, without those dropped."""

    features: Tensor
    """Of all nodes, shape (nodes, columns)."""
    top: TopNodes
    chance: float
    """With which the features of a node are dropped (delta)."""
    unit: bool = False
    """Whether rows are scaled to length 1."""

    def __call__(self, batch: HopBatch, nodes: Tensor) -> HopBatch:
        """The same batch, of which views have nodes dropped."""
        return RandomBatch(batch.hops, batch.labels, partial(self.draw, nodes))

    def draw(self, nodes: Tensor) -> Tensor:
        r"""Rows of some nodes with others dropped, shape (nodes, 1, columns).

        Equation: GRAND+, random propagation (docs/equations.md#top-nodes)
            sum_u Pi_vu z_u X_u
        """
        keep = torch.rand(len(self.features)) >= self.chance
        scale = torch.from_numpy(drop_node(keep.numpy(), self.chance))
        near = torch.from_numpy(self.top.nodes[nodes.numpy()])
        weights = torch.from_numpy(self.top.weights[nodes.numpy()]) * scale[near]
        rows = functional.embedding_bag(near, self.features, mode="sum", per_sample_weights=weights)
        if self.unit:
            unit_rows(rows.numpy(), threads=torch.get_num_threads())
        return rows[:, None]


@dataclass(frozen=True)
class RandomBatch(HopBatch):
    """Some rows without noise, which predictions are made from, and how noisy ones are drawn."""

    draw: Callable[[], Tensor] | None = None

    def noisy_view(self) -> HopBatch:
        """The same rows after another random propagation."""
        if self.draw is None:
            return self
        return HopBatch(self.draw().to(self.hops.device), self.labels)
