"""Processes that train one model together, and what they tell each other.

Every process runs the same program on its share of the rows. A `Group` says which share that is and
puts results together, so that all processes go on with the same numbers. The default is a group of
one: shares are whole, and nothing is sent.

`TorchGroup` is made of the process group of torch.distributed, which somebody else has set up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Value = TypeVar("Value")


class Group:
    """A group of one."""

    rank = 0
    """Number of this process, from 0."""
    size = 1
    """Processes of the group."""

    def share(self, count: int) -> slice:
        """Which of so many rows are this process's: as even as can be, in the order of ranks.

        Examples:
            >>> Group().share(7)
            slice(0, 7, None)
        """
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def join(self, part: Tensor, *counts: int, dim: int = 0) -> Tensor:
        """All rows, in order, of which each process has its share; gradients flow to the shares.

        Args:
            part: Of this process: its share of the first kind of rows, then of the second, ...
            counts: Rows of each kind in all.
            dim: Along which rows are.
        """
        return part

    def gather(self, part: Tensor) -> Tensor:
        """Rows of all processes below each other, in the order of ranks, however many each has."""
        return part

    def stack(self, part: Tensor) -> Tensor:
        """What each process has, as rows of one tensor; shapes are the same."""
        return part.unsqueeze(0)

    def sum_(self, numbers: Tensor) -> Tensor:
        """Add up what each process has, in place."""
        return numbers

    def sum_all_(self, tensors: Sequence[Tensor]) -> None:
        """Add up what each process has of many tensors of one type, in place."""

    def copy_all_(self, tensors: Sequence[Tensor]) -> None:
        """Take what the process of rank 0 has of many tensors, in place."""

    def same(self, value: Value) -> Value:
        """The value that the process of rank 0 has, in all processes."""
        return value


class TorchGroup(Group):
    """The processes of torch's default process group."""

    def __init__(self) -> None:
        # torch.distributed is imported only where there is more than one process.
        import torch.distributed as distributed

        self._distributed: Any = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def join(self, part: Tensor, *counts: int, dim: int = 0) -> Tensor:
        offsets = [sum(counts[:kind]) for kind in range(len(counts))]
        ranges = [
            torch.arange(count)[self.share(count)] + offset
            for count, offset in zip(counts, offsets, strict=True)
        ]
        positions = torch.cat(ranges).to(part.device)
        arguments = (part, positions, sum(counts), dim, self)
        return cast(Tensor, _Join.apply(*arguments))  # type: ignore[no-untyped-call]

    def gather(self, part: Tensor) -> Tensor:
        counts = self.stack(torch.tensor(len(part)))
        ends = counts.cumsum(0)
        whole = part.new_zeros(int(ends[-1]), *part.shape[1:])
        end = int(ends[self.rank])
        whole[end - len(part) : end] = part
        return self.sum_(whole)

    def stack(self, part: Tensor) -> Tensor:
        whole = part.new_zeros(self.size, *part.shape)
        whole[self.rank] = part
        return self.sum_(whole)

    def sum_(self, numbers: Tensor) -> Tensor:
        if numbers.numel():
            self._distributed.all_reduce(numbers)
        return numbers

    def sum_all_(self, tensors: Sequence[Tensor]) -> None:
        # One message: each costs as much as thousands of numbers.
        whole = self.sum_(torch.cat([each.reshape(-1) for each in tensors]))
        for each, part in zip(
            tensors, whole.split([each.numel() for each in tensors]), strict=True
        ):
            each.copy_(part.view_as(each))

    @torch.no_grad()
    def copy_all_(self, tensors: Sequence[Tensor]) -> None:
        for kind in sorted({each.dtype for each in tensors}, key=str):
            alike = [each for each in tensors if each.dtype == kind]
            whole = torch.cat([each.reshape(-1) for each in alike])
            self._distributed.broadcast(whole, src=0)
            for each, part in zip(
                alike, whole.split([each.numel() for each in alike]), strict=True
            ):
                each.copy_(part.view_as(each))

    def same(self, value: Value) -> Value:
        held = [value if self.rank == 0 else None]
        self._distributed.broadcast_object_list(held, src=0)
        return cast(Value, held[0])


class _Join(torch.autograd.Function):
    """Zeros but for the own rows, added up: each number is sent as it is, and shares may differ.

    Every process computes the same loss of the joined rows, so what flows back to a share is the
    gradient of the whole loss, and only its own rows' part of it.
    """

    @staticmethod
    def forward(
        ctx: Any, part: Tensor, positions: Tensor, total: int, dim: int, group: Group
    ) -> Tensor:
        ctx.positions, ctx.dim = positions, dim
        sent = part.to(torch.uint8) if part.dtype == torch.bool else part
        shape = [*sent.shape[:dim], total, *sent.shape[dim + 1 :]]
        whole = sent.new_zeros(shape).index_copy_(dim, positions, sent.detach())
        return group.sum_(whole).to(part.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient.index_select(ctx.dim, ctx.positions), None, None, None, None


ALONE = Group()
_current: list[Group] = [ALONE]
"""The last one counts. Of the whole process: batches are read ahead by other threads."""


def current_group() -> Group:
    """The group that this process trains in."""
    return _current[-1]


@contextmanager
def joined(group: Group) -> Iterator[None]:
    """Train in a group."""
    _current.append(group)
    try:
        yield
    finally:
        _current.remove(group)
