"""What training and prediction ask of rows, whatever an encoder reads: hops, or the graph."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.encoders import ProblemShape
from scr.training._batches import EpochNodes, Step

Item = TypeVar("Item")


class RowSource(Protocol):
    """Serves batches of nodes, which are named by their numbers in the graph."""

    @property
    def classes(self) -> int:
        """How many classes there are."""

    @property
    def device(self) -> torch.device:
        """Where batches are put."""

    @property
    def kept(self) -> NDArray[np.int64] | None:
        """Nodes that can be asked for, ascending; none: all."""

    @property
    def shape(self) -> ProblemShape:
        """Sizes for `make_encoder`."""

    def __len__(self) -> int: ...

    def nodes(self) -> NDArray[np.int64]:
        """Numbers of all nodes that can be asked for, ascending."""

    def has(self, nodes: NDArray[np.int64] | None) -> bool:
        """Whether all of some nodes can be asked for."""

    def batch(self, index: Tensor) -> Any:
        """What an encoder reads of some nodes."""

    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, Any]]:
        """Each item with the batch of its nodes, in order."""

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, Any]]:
        """The steps of an epoch of training, each with the batch of its nodes."""

    def stream_logits(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """Parts of `index`, in order, each with its logits on the CPU.

        Args:
            model: In evaluation mode.
            index: Nodes.
            at_once: Most nodes of a part.
        """
