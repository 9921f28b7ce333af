"""Rows whose noisy views are computed on the graph: other nodes are dropped in each of them.

A batch is what it is without noise: the mixture of hops of all features, which predictions are made
from. `noisy_views` asks it for one view after the other instead, and each is propagated anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from scr.consistency import drops_nodes
from scr.encoders import HopBatch
from scr.graph import Graph
from scr.propagation import RandomPropagation, drop_node
from scr.training._prepare import Prepared, fixed_mixture, node_features
from scr.training._recipe import Recipe


@dataclass(frozen=True)
class NodeDropper:
    """Random propagation with its chance."""

    propagation: RandomPropagation
    chance: float
    """With which the features of a node are dropped (delta)."""

    def __call__(self, batch: HopBatch, nodes: Tensor) -> HopBatch:
        """The same batch, of which views have nodes dropped."""
        return RandomBatch(batch.hops, batch.labels, partial(self.draw, nodes))

    def draw(self, nodes: Tensor) -> Tensor:
        """Rows of some nodes with others dropped, shape (nodes, 1, columns).

        Torch's default generator decides which: `torch.manual_seed` governs it, and checkpoints
        have it.
        """
        keep = torch.rand(self.propagation.nodes) >= self.chance
        scale = drop_node(keep.numpy(), self.chance)
        mixed = self.propagation.mixture(scale, nodes.numpy(), threads=torch.get_num_threads())
        return torch.from_numpy(mixed[:, np.newaxis])


@dataclass(frozen=True)
class RandomBatch(HopBatch):
    """Some rows without noise, and how noisy ones are drawn."""

    draw: Callable[[], Tensor] | None = None

    def noisy_view(self) -> HopBatch:
        """The same rows after another random propagation."""
        if self.draw is None:
            return self
        return HopBatch(self.draw().to(self.hops.device), self.labels)


def node_dropper(graph: Graph, recipe: Recipe, prepared: Prepared) -> NodeDropper | None:
    """What a recipe's regularizer drops nodes by, from features prepared as the rows; or none."""
    mixture = fixed_mixture(recipe)
    if recipe.consistency is None or mixture is None or not drops_nodes(recipe.regularizer):
        return None
    features = node_features(graph, recipe.data, prepared.features).matrix()
    propagation = RandomPropagation(graph, recipe.propagation, mixture, features)
    return NodeDropper(propagation, recipe.consistency.drop_node)
