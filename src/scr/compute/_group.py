"""Processes that train one model together, and what they tell each other.

Every process runs the same program on its share of the rows. A `Group` says which share that is and
puts results together, so that all processes go on with the same numbers. The default is a group of
one: shares are whole, and nothing is sent.

`TorchGroup` is made of the process group of torch.distributed, which somebody else has set up. It
cuts the rows of a training step into a fixed number of parts, however many processes there are, and
each process computes some of them. To the layers of a model, such a `StepShare` is a process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from scr.compute._random_bits import stream_key
from scr.compute._turns import take_turns

Value = TypeVar("Value")

STEP_SHARES = 12
"""Shares of a step in a group: 1, 2, 3, 4, 6 and 12 processes have equally many of them. More would
make layers of few rows, in which the calls take longer than the arithmetic."""


class Group:
    """A group of one."""

    rank = 0
    """Number of this process, from 0."""
    size = 1
    """Processes of the group."""
    cuts_steps = False
    """Whether a training step is cut into `step_shares`; otherwise, it is computed as it is."""
    is_first = True
    """Whether it moves the running statistics of layers, which its process has once."""

    @property
    def step_shares(self) -> Sequence[Group]:
        """This process's shares of a training step: whole steps, where nothing is sent."""
        return [self]

    def share(self, count: int) -> slice:
        """Which of so many rows are this process's: as even as can be, in the order of ranks.

        Examples:
            >>> Group().share(7)
            slice(0, 7, None)
        """
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def join(self, part: Tensor, count: int) -> Tensor:
        """All of so many rows, in order, of which each process has its share."""
        return part

    def run_shares(self, functions: Sequence[Callable[[], Value]]) -> list[Value]:
        """Call a function for each of `step_shares`, in which `current_group` is that share."""
        return [function() for function in functions]

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

    cuts_steps = True

    def __init__(self) -> None:
        # torch.distributed is imported only where there is more than one process.
        import torch.distributed as distributed

        self._distributed: Any = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        # All layers on a GPU go backward in one thread, so one share cannot wait for another there.
        on_gpus = distributed.get_backend() == "nccl"
        count = self.size if on_gpus else max(STEP_SHARES, self.size)
        own = range(count)[self.share(count)]
        self._step_shares = [StepShare(rank, count, rank == own[0]) for rank in own]

    @property
    def step_shares(self) -> Sequence[Group]:
        return self._step_shares

    def join(self, part: Tensor, count: int) -> Tensor:
        # Zeros but for the own rows, added up: each number is sent as it is.
        sent = part.to(torch.uint8) if part.dtype == torch.bool else part
        whole = sent.new_zeros(count, *part.shape[1:])
        whole[self.share(count)] = sent
        return self.sum_(whole).to(part.dtype)

    def run_shares(self, functions: Sequence[Callable[[], Value]]) -> list[Value]:
        # Drawn by every process, which all draw the same.
        key = int(torch.empty((), dtype=torch.int64).random_())
        threads = torch.get_num_threads()

        def in_turn(share: StepShare, function: Callable[[], Value]) -> Callable[..., Value]:
            def run(ask: Callable[[Tensor], Tensor]) -> Value:
                torch.set_num_threads(threads)  # products would take all cores in a new thread
                torch.manual_seed(int(stream_key(key, share.rank)))
                share.ask = ask
                _of_thread.group = share
                return function()

            return run

        def answer(parts: list[Tensor]) -> Tensor:
            whole = parts[0].new_zeros(self._step_shares[0].size, *parts[0].shape)
            for share, part in zip(self._step_shares, parts, strict=True):
                whole[share.rank] = part
            return self.sum_(whole)

        with torch.random.fork_rng(devices=[]):
            return take_turns(list(map(in_turn, self._step_shares, functions)), answer)

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


class StepShare(Group):
    """One of the shares of a training step, whichever process computes it."""

    def __init__(self, rank: int, size: int, is_first: bool) -> None:
        self.rank, self.size, self.is_first = rank, size, is_first
        self.ask: Callable[[Tensor], Tensor]
        """From a tensor to those of all shares below each other."""

    def stack(self, part: Tensor) -> Tensor:
        noise = torch.get_rng_state()  # in the meantime, other shares draw theirs
        whole = self.ask(part)
        torch.set_rng_state(noise)
        return whole

    def sum_(self, numbers: Tensor) -> Tensor:
        return numbers.copy_(self.stack(numbers).sum(0))


ALONE = Group()
_current: list[Group] = [ALONE]
"""The last one counts. Of the whole process: batches are read ahead by other threads."""
_of_thread = threading.local()
"""Its `group` is the share of a step that a thread computes."""


def current_group() -> Group:
    """The group that this process trains in, or the share of a step that is computed."""
    return cast(Group, getattr(_of_thread, "group", _current[-1]))


@contextmanager
def joined(group: Group) -> Iterator[None]:
    """Train in a group."""
    _current.append(group)
    try:
        yield
    finally:
        _current.remove(group)
