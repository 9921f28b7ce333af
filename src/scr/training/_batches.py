"""Algorithm 1's mixed batches: labeled nodes and confident unlabeled ones, step by step.

An epoch is one pass over the labeled nodes in a fresh order. Beside each part goes a part of the
confident set and, in later stages of a run, of the reliable nodes. All draws come from one seeded
generator on the CPU, so they are the same on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from scr.compute import current_group

LARGE_POOL = 1 << 24
"""Nodes from which a few are drawn one by one: an order of all of them would take a second."""


class Step(NamedTuple):
    """The nodes of one update."""

    labeled: Tensor
    """Positions among the training nodes."""
    unlabeled: Tensor
    """Confident nodes."""
    relied_on: Tensor
    """Positions among the reliable nodes."""


@dataclass(frozen=True)
class EpochNodes:
    """The nodes that the steps of an epoch are drawn from, and how many of them make a step."""

    epoch: int
    """Counted from 0."""
    train: Tensor
    """One may come twice."""
    confident: Tensor
    """Nodes of the consistency term."""
    reliable: Tensor
    """Nodes that an earlier stage labeled."""
    batch_size: int
    """N_L; with `proportional`, N_L and the rows of the larger pool together."""
    unlabeled_per_batch: int | Literal["proportional"]
    """N_U of each pool, of the confident and of the reliable nodes; `proportional` cuts both into
    equally many parts, of which there are at most as many as labeled nodes."""
    generator: torch.Generator
    """Source of the order."""

    def steps(self) -> Iterator[Step]:
        """Draw the steps of the epoch, as Algorithm 1 does.

        Parts are as even as can be: a last batch of a single row would break BatchNorm. From an
        empty pool nothing is drawn.
        """
        labeled, pools = len(self.train), (self.confident, torch.arange(len(self.reliable)))
        if self.unlabeled_per_batch == "proportional":
            total = labeled + max(map(len, pools))
            steps = min(-(-total // self.batch_size), labeled)  # every step needs a labeled row
            per_step = [-(-len(pool) // steps) for pool in pools]
        else:
            steps = -(-labeled // self.batch_size)
            per_step = [min(self.unlabeled_per_batch, len(pool)) for pool in pools]
        order = torch.randperm(labeled, generator=self.generator)
        confident, reliable = (
            _draw(pool, steps * rows, self.generator).view(steps, rows)
            for pool, rows in zip(pools, per_step, strict=True)
        )
        return map(Step, order.tensor_split(steps), confident, reliable)

    def index(self, step: Step) -> Tensor:
        """Labeled, reliable and unlabeled nodes of a step; in a group, a share of each."""
        group = current_group()
        labeled, unlabeled, relied_on = (nodes[group.share(len(nodes))] for nodes in step)
        return torch.cat([self.train[labeled], self.reliable[relied_on], unlabeled])


def _draw(pool: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw without replacement, going through the pool again only when it is used up."""
    parts: list[Tensor] = []
    while count > 0:
        if len(pool) > LARGE_POOL and count <= len(pool) // 2:
            part = pool[_few_of_many(len(pool), count, generator)]
        else:
            part = pool[torch.randperm(len(pool), generator=generator)[:count]]
        parts.append(part)
        count -= len(part)
    return torch.cat(parts) if parts else pool[:0]


def _few_of_many(size: int, count: int, generator: torch.Generator) -> Tensor:
    """Distinct numbers below `size` in random order, without an order of all of them.

    Numbers that came up before are drawn again; below half of `size` that is soon done.
    """
    drawn = np.zeros(0, dtype=np.int64)
    while len(drawn) < count:
        more = torch.randint(size, (count - len(drawn),), generator=generator).numpy()
        drawn = np.concatenate([drawn, more])
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]
    return torch.from_numpy(drawn)
