"""Algorithm 1's mixed batches: labeled nodes and confident unlabeled ones, step by step.

An epoch is one pass over the labeled nodes in a fresh order. Beside each part goes a part of the
confident set and, in later stages of a run, of the reliable nodes. All draws come from one seeded
generator on the CPU, so they are the same on every device.

In a group of processes, a batch has the shares of the step that its process computes, one after the
other. `of_step` computes them and puts together what there is of the whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from scr.compute import Group, current_group

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
        """Labeled, reliable and unlabeled nodes of a step; in a group, those of each share."""
        kinds = self.train[step.labeled], self.reliable[step.relied_on], step.unlabeled
        shares = current_group().step_shares
        return torch.cat([nodes[share.share(len(nodes))] for share in shares for nodes in kinds])


def of_step(
    function: Callable[[Any], Tensor], batch: Any, counts: Sequence[int], *, first: int = 0,
    dim: int = 0, learner: nn.Module | None = None,
) -> Tensor:  # fmt: skip
    """What a function gives for the rows of a step, in a group for those of all processes.

    Args:
        function: Called with a batch; in a group with that of each share.
        batch: As of `EpochNodes.index`.
        counts: Labeled, reliable and unlabeled rows of the step.
        first: Kinds of rows before it are left out.
        dim: Along which the rows of the result are.
        learner: Its weights get a gradient.
    """
    group, ahead = current_group(), sum(counts[:first])
    if not group.cuts_steps:
        return function(batch.between(ahead, len(batch)) if ahead else batch)
    calls, positions, stop = [], [], 0
    for share in group.step_shares:
        kinds = [rows[share.share(len(rows))] for rows in torch.arange(sum(counts)).split(counts)]
        start = stop + sum(map(len, kinds[:first]))
        stop += sum(map(len, kinds))
        calls.append(partial(function, batch.between(start, stop)))
        positions.append(torch.cat(kinds[first:]) - ahead)
    arguments = (calls, positions, sum(counts) - ahead, dim, group)
    weights = [] if learner is None else [w for w in learner.parameters() if w.requires_grad]
    return cast(Tensor, _Shares.apply(*arguments, *weights))  # type: ignore[no-untyped-call]


class _Shares(torch.autograd.Function):
    """Compute shares and put their rows together; weights get the gradient of the whole step.

    Every process computes the same loss of the joined rows, so what flows back to a share is the
    gradient of the whole loss. Sums over shares are taken in float64: which process has which of
    them then makes no difference, not even where they cancel each other.
    """

    @staticmethod
    def forward(
        ctx: Any, calls: list[Callable[[], Tensor]], positions: list[Tensor], total: int, dim: int,
        group: Group, *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        learns = any(ctx.needs_input_grad)

        def run(call: Callable[[], Tensor]) -> Tensor:
            with torch.set_grad_enabled(learns):
                return call()

        ctx.parts = group.run_shares([partial(run, call) for call in calls])
        ctx.weights, ctx.dim, ctx.group = weights, dim, group
        own = torch.cat([each.detach() for each in ctx.parts], dim)
        ctx.positions = [each.to(own.device) for each in positions]
        whole = own.new_zeros([*own.shape[:dim], total, *own.shape[dim + 1 :]])
        return group.sum_(whole.index_copy_(dim, torch.cat(ctx.positions), own))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sums: dict[int, Tensor] = {}

        def run(part: Tensor, positions: Tensor) -> None:
            incoming = gradient.index_select(ctx.dim, positions)
            found = torch.autograd.grad(part, ctx.weights, incoming, allow_unused=True)
            for number, each in enumerate(found):
                if each is not None:
                    sums.setdefault(number, torch.zeros_like(each, dtype=torch.float64)).add_(each)

        ctx.group.run_shares(list(map(partial, [run] * len(ctx.parts), ctx.parts, ctx.positions)))
        ctx.group.sum_all_([sums[number] for number in sorted(sums)])
        by_weights = (
            sums[number].to(each.dtype) if number in sums else None
            for number, each in enumerate(ctx.weights)
        )
        return (None,) * 5 + tuple(by_weights)


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
